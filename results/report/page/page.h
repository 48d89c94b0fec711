#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "results/report/charts/chart.h"
#include "results/report/data/report_data.h"

namespace virtrain::results {

/// The verdicts of all cases in one sentence, without a full stop.
std::string headline(const ReportData& data);

/// Victims beside neighbours by arm, without arms that are mitigations.
std::vector<const IsolationMatrix*> arms_beside_neighbours(const ReportData& data);
/// "disturbed by 2 of 6, isolated from 4": one arm of a victim.
std::string neighbours_phrase(const IsolationMatrix& matrix);

/// All charts in the order of the page.
std::vector<Chart> charts_of(const ReportData& data);

/// Values for templates/page.html, as plain texts; nothing in it is HTML. `charts` are those of charts_of().
/// Pure.
nlohmann::json page_model(const ReportData& data, const std::vector<Chart>& charts);

/// A figure as the templates know it.
nlohmann::json chart_model(const Chart& chart);

/// A table as the templates know it.
nlohmann::json table_model(const Table& table, const std::string& caption);

/// Rows of the table of verdicts, a case each; cases that nothing is known of share one.
nlohmann::json verdicts_model(const ReportData& data);

/// With a capital letter, as sentences start.
std::string capitalised(std::string sentence);

/// Possible causes of lost throughput, case by case, largest first; false where there are none.
nlohmann::json reasons_model(const ReportData& data);

/// The table of what helps victims beside neighbours, and what it costs; none without any.
nlohmann::json mitigations_model(const ReportData& data);
/// Images a joule and a unit of the currency, by case and arm; empty where nobody knows.
nlohmann::json costs_model(const ReportData& data);

/// The table of what leak searches found, and what they could not tell; none without any.
nlohmann::json security_model(const ReportData& data);

/// The table of figures that jobs say beside their throughput; none without any.
nlohmann::json job_figures_model(const ReportData& data);
/// The table of every probe's figure in each arm, against bare metal; none without any.
nlohmann::json probes_model(const ReportData& data);
/// How fast each of several hosts computes; none of experiments on one host.
nlohmann::json hosts_model(const ReportData& data);

/// A table of the throughput of sizes that were measured and that were not, for each weak scaling that the
/// model of a ring holds for. Why others have none goes into `absent`.
nlohmann::json predictions_model(const ReportData& data, nlohmann::json& absent);

/// Differences between the arms, their meaning, and what is the same everywhere.
nlohmann::json environment_model(const ReportData& data);

/// Rows of every trial, in tables of bounded length so that a browser lays out only those that are seen.
nlohmann::json trials_model(const ReportData& data);

/// Commands, scenario texts and versions that made the data and this page.
nlohmann::json again_model(const ReportData& data);

}  // namespace virtrain::results
