#pragma once

#include <filesystem>

#include "results/report/report.h"

namespace virtrain::harness {

/// Refuses what no report of a run could be written to, before it takes hours: Error(usage). Standard output
/// has the run's figures.
void require_report_place(const std::filesystem::path& output);

/// The folder of a site, made if it is not there. Error(usage) for one that cannot be.
void make_site_folder(const std::filesystem::path& folder);

/// Numbers of nodes that a report predicts weak scaling for unless asked otherwise.
inline constexpr const char* reported_sizes = "8,64,1024";

/// Writes the report on what the request selects, with the causes of gaps, whole or not at all ("-": to
/// standard output). What could not be drawn goes to the log.
void write_report(const std::filesystem::path& database, results::ReportRequest request,
                  const std::filesystem::path& output);

}  // namespace virtrain::harness
