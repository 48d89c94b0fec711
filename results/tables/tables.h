#pragma once

#include <string>
#include <utility>
#include <vector>

#include "results/changes/read_changes.h"
#include "results/comparison/compare.h"
#include "results/store/store.h"
#include "results/tables/render.h"

// What commands print.
namespace virtrain::results {

/// The comparison as the study's table: a line for each case and arm, then what was virtual, then the
/// verdicts.
Table comparison_table(const std::vector<CaseComparison>& comparisons);
/// What `run` ends with: the same on a small screen, with verdicts that are some and one line on
/// virtualization.
Table summary_table(const std::vector<CaseComparison>& comparisons);
/// What images cost in energy and money; no rows where nobody knows.
Table costs_table(const std::vector<CaseComparison>& comparisons);
/// What `compare` prints: the table (in Markdown under a heading), or with Format::json the contract's list.
std::string render(const std::vector<CaseComparison>& comparisons, Format format, const Screen& screen = {});

/// What `changes` prints: a line for each change, below it what may have caused it. `database_option`: what
/// commands need to find the database, such as " --db nightly.db"; empty: it is the default one.
Table changes_table(const ChangeLog& log, const std::string& database_option = "");
/// What `changes --noise` prints: a line for each series, how noisy it is and what can be told of it.
Table noise_table(const ChangeLog& log);

/// What is known of an experiment: names and facts.
std::vector<std::pair<const char*, std::string>> experiment_facts(const Experiment& experiment);
/// What `list` prints.
Table experiments_table(const Store& store);
/// What `show` prints: the experiment's trials, and its facts as notes. Error(not_found) if there is none.
Table show_experiment(const Store& store, const std::string& experiment);
/// What `show --probes` prints: the median of each probe in each arm, against bare metal.
Table probes_table(const Store& store, const std::string& experiment);
/// The same of any probes, without a title.
Table probes_table(const std::vector<Probe>& probes);

}  // namespace virtrain::results
