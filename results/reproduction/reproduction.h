#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/comparison/compare.h"
#include "results/store/store.h"
#include "results/tables/render.h"

namespace virtrain::results {

/// Facts of an experiment, by topic key; several values where its trials differ.
using StudyFacts = std::map<std::string, std::set<std::string>, std::less<>>;

/// From the records of a run, and from the `environment` of imported trials. Error(not_found) if there is no
/// such experiment.
StudyFacts study_facts(const Store& store, const std::string& experiment);

/// One line of the list of what differs; empty where a side does not say.
struct StudyDifference {
  std::string topic;
  std::string published;
  std::string own;
};

/// Topics on which the two do not say the same, also those on which only one says anything.
std::vector<StudyDifference> study_differences(const StudyFacts& published, const StudyFacts& own);

/// Throughput, scaling and ratio of one arm of one case, as one of the two studies has it.
struct StudyFigures {
  std::optional<double> throughput = {};  ///< of the trial, mean over its runs
  std::optional<double> speedup = {};
  std::optional<double> efficiency = {};
  std::optional<double> ratio = {};  ///< candidate to baseline; on the candidate's line only
};

/// One case in one arm: published and own, both in one unit.
struct ReproducedArm {
  std::string case_name;
  std::string arm;
  std::string unit;
  StudyFigures published;
  StudyFigures own;
  CaseKey key = {};
  std::int64_t nodes = 1;
};

/// A published study beside a run of the same scenario.
struct Reproduction {
  std::string published_experiment;
  std::string own_experiment;
  std::vector<ReproducedArm> arms;  ///< the published cases in their order, then those only we have
  std::vector<StudyDifference> differences;
  std::vector<std::string> verdicts;  ///< "CASE: sentence" of each own case
};

/// Sets two comparisons side by side, case by case and arm by arm. Error(bad_input) where a published case
/// was measured in another unit. Pure.
std::vector<ReproducedArm> side_by_side(const std::vector<CaseComparison>& published,
                                        const std::vector<CaseComparison>& own);
/// Reads both experiments. Error(not_found) where one is not there or has no trials.
Reproduction reproduction(const Store& store, const std::string& published_experiment,
                          const std::string& own_experiment);

/// The two experiments side by side, as a heading.
std::string heading_of(const Reproduction& reproduction);
/// The figures side by side in one table, below them the own verdicts.
Table figures_table(const Reproduction& reproduction);
/// The same for a screen: a table for each scaling and arm, one of the other cases, one of the ratios.
std::vector<Table> narrow_tables(const Reproduction& reproduction);
/// Differences between the two studies.
Table differences_table(const Reproduction& reproduction);
/// {"published_experiment", "experiment", "arms": […], "differences": […], "verdicts": […]}
nlohmann::json to_json(const Reproduction& reproduction);

}  // namespace virtrain::results
