#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/comparison/compare.h"
#include "results/comparison/probe_comparison.h"
#include "results/reading/reading.h"
#include "results/store/store.h"
#include "results/tables/render.h"

// Tables of the commands.
namespace virtrain::results {

/// Parts of a comparison that a terminal shows.
struct ComparisonView {
  bool tenants = false;  ///< a table of the tenants of cases with several
  bool notes = false;    ///< remarks on facts that differ and are explained or informative
  bool brief = false;    ///< the end of `run`: without remarks on single cases
};

/// The comparison as the study's table: a line for each case and arm, then what was virtual, then the
/// verdicts.
Table comparison_table(const std::vector<CaseComparison>& comparisons);
/// Causes of the gaps, where somebody asked for them.
struct Explanations {
  std::vector<Table> tables = {};      ///< one for each case with a gap beyond noise, the largest first
  std::vector<std::string> rest = {};  ///< on the other cases
};
Explanations explanations_of(const std::vector<CaseComparison>& comparisons);
/// The verdict in a word or two, "no interval" where there is none to decide by; "no data" without a ratio.
std::string verdict_word(const CaseComparison& comparison);
/// Cost of images in energy and money; no rows where it is unknown.
Table costs_table(const std::vector<CaseComparison>& comparisons);
/// Renders the output of `compare`: the comparison's table (in Markdown under a heading); with Format::json
/// the contract's list; with Format::table a line for each case, then tables of their own for scaling, sweeps
/// and cost.
std::string render(const std::vector<CaseComparison>& comparisons, Format format, const Screen& screen = {},
                   const ComparisonView& view = {});

/// The table of `changes`: a line for each change, below it its possible causes. `database_option`: the
/// option by which commands find the database, such as " --db nightly.db"; empty: it is the default one.
Table changes_table(const ChangeLog& log, const std::string& database_option = "");
/// The table of `changes --noise`: a line for each series, how noisy it is and what can be told of it.
Table noise_table(const ChangeLog& log);

/// Names and facts of an experiment.
std::vector<std::pair<const char*, std::string>> experiment_facts(const Experiment& experiment);
/// The table of `list`.
Table experiments_table(const Store& store);
/// The table of `show`: the experiment's trials, and its properties as notes, without `all_properties` the
/// long ones cut and packages counted. Error(not_found) if there is none.
Table show_experiment(const Store& store, const std::string& experiment, bool all_properties = false);
/// The table of `show --figures`: the median of each figure that jobs say beside their throughput, in each
/// arm.
Table figures_table(const Store& store, const std::string& experiment);
/// The same of any figures, without a title. `emulated`: arms whose VMs were.
Table figures_table(const std::vector<TrialFigure>& figures, const std::set<std::string>& emulated);
/// The table of `compare` for probes: each figure that both sides have measured.
Table probe_study_table(const ProbeStudy& study);
/// The table of `show --probes`: the median of each probe in each arm, against bare metal, with a verdict
/// where three runs of both are known.
Table probes_table(const Store& store, const std::string& experiment);
/// The same of any probes, without a title. `emulated`: arms whose VMs were.
Table probes_table(const std::vector<Probe>& probes, const std::set<std::string>& emulated = {});

}  // namespace virtrain::results
