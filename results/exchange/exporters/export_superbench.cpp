#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ostream>
#include <set>

#include "common/error.h"
#include "common/text/printable.h"
#include "results/exchange/exporters/exporters.h"
#include "results/store/canonical_json.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// Throughput by rank of one metric on one node, run after run.
using Runs = std::vector<std::map<std::int64_t, double>>;

/// The case as SuperBench's annotation of a benchmark, which has no slashes.
std::string annotation(std::string case_name) {
  std::ranges::replace(case_name, '/', '-');
  std::ranges::replace(case_name, ':', '-');
  return case_name;
}

/// A results summary under construction: node, metric without run and rank, values.
class Summary {
 public:
  void add(const std::string& node, const std::string& benchmark, const std::string& metric, std::int64_t run,
           std::int64_t rank, double value) {
    auto& runs = nodes_[node][{benchmark, metric}];
    runs.resize(std::max(runs.size(), static_cast<std::size_t>(run + 1)));
    runs[static_cast<std::size_t>(run)][rank] = value;
  }

  /// Nodes that lack a metric which another node of the experiment has.
  std::vector<std::string> incomplete() const {
    std::set<std::pair<std::string, std::string>> all;
    for (const auto& [node, metrics] : nodes_) {
      for (const auto& [name, runs] : metrics) { all.insert(name); }
    }
    std::vector<std::string> found;
    for (const auto& [node, metrics] : nodes_) {
      if (metrics.size() < all.size()) { found.push_back(node); }
    }
    return found;
  }

  void write(std::ostream& out) const {
    for (const auto& [node, metrics] : nodes_) {
      json line = {{"node", node}};
      for (const auto& [name, runs] : metrics) {
        for (std::size_t run = 0; run < runs.size(); ++run) {
          for (const auto& [rank, value] : runs[run]) {
            // BENCHMARK/[RUN/]METRIC[:RANK]; run and rank only where there are several.
            const auto in_run = runs.size() > 1 ? fmt::format("{}/", run) : "";
            const auto of_rank = runs[run].size() > 1 ? fmt::format(":{}", rank) : "";
            line[fmt::format("{}/{}{}{}", name.first, in_run, name.second, of_rank)] = value;
          }
        }
      }
      out << canonical_json(line) << '\n';
    }
  }

 private:
  std::map<std::string, std::map<std::pair<std::string, std::string>, Runs>> nodes_;
};

/// The model that each trial of the experiment trained, in their order: as virtrain ran it or as an imported
/// record says; "unknown" where neither does.
std::vector<std::string> models_of(const Store& store, const std::string& experiment) {
  std::vector<std::string> models;
  const auto text = [](const json& object) {
    const auto* model = object.is_object() && object.contains("model") ? &object["model"] : nullptr;
    return model != nullptr && model->is_string() ? annotation(model->get<std::string>()) : "";
  };
  for (const auto& trial : store.trials(experiment)) {
    std::string model = text(trial.environment);
    for (const auto& tenant : store.tenants(trial.id)) {
      if (model.empty()) { model = text(tenant.workload); }
    }
    models.push_back(model.empty() ? "unknown" : model);
  }
  return models;
}

/// Rows of all experiments, read at once: a view of one experiment's trials reads those of all.
struct TrialRows {
  ViewRows ranks, trials;
  std::multimap<std::int64_t, std::size_t> ranks_of_trial;
  std::multimap<std::string, std::size_t> trials_of_experiment;

  TrialRows(const Store& store, const std::vector<std::string>& experiments)
      : ranks(store.view("v_rank", experiments)), trials(store.view("v_trial_detail", experiments)) {
    for (std::size_t i = 0; i < ranks.rows.size(); ++i) {
      ranks_of_trial.emplace(ViewRow(ranks, i).whole("trial_id", 0), i);
    }
    for (std::size_t i = 0; i < trials.rows.size(); ++i) {
      trials_of_experiment.emplace(ViewRow(trials, i).text("experiment"), i);
    }
  }
};

Summary summarize(const Store& store, const TrialRows& rows, const std::string& experiment) {
  Summary summary;
  const auto models = models_of(store, experiment);
  std::map<std::string, std::int64_t> runs;
  std::map<std::string, std::string> case_of;  // by its annotation
  const auto [first_trial, last_trial] = rows.trials_of_experiment.equal_range(experiment);
  for (auto at = first_trial; at != last_trial; ++at) {
    const ViewRow trial(rows.trials, at->second);
    if (trial["images_per_second"].is_null() || !is_good_trial(trial)) { continue; }
    const auto precision = trial.text("precision").empty() ? "unknown" : trial.text("precision");
    const auto annotated = annotation(trial.text("case"));
    const auto& first = case_of.try_emplace(annotated, trial.text("case")).first->second;
    if (first != trial.text("case")) {
      throw Error(
          "export " + experiment, ErrorCode::bad_input,
          fmt::format(
              "the cases \"{}\" and \"{}\" would both be SuperBench's benchmark \"{}\": rename one of "
              "them in what export --format jsonl writes, import that with another --db, and "
              "export from there",
              excerpt(first), excerpt(trial.text("case")), excerpt(annotated)));
    }
    const auto benchmark = fmt::format("model-benchmarks:{}/virtrain-{}", annotated,
                                       models.at(static_cast<std::size_t>(trial.whole("trial", 1) - 1)));
    const auto metric = precision + "_train_throughput";
    const auto run = runs[trial.text("case") + "\n" + trial.text("arm") + "\n" + precision]++;
    const auto prefix = experiment + "/" + trial.text("arm");
    std::set<std::pair<std::string, std::int64_t>> places;
    const auto [begin, end] = rows.ranks_of_trial.equal_range(trial.whole("trial_id", 0));
    for (auto found = begin; found != end; ++found) {
      const ViewRow rank(rows.ranks, found->second);
      if (rank["images_per_second"].is_null()) { continue; }
      const auto node = fmt::format("{}/{}.{}", prefix, rank.whole("tenant", 0), rank.text("node"));
      auto place = rank.whole("local_rank", 0);  // of imported ranks often 0 for all
      while (!places.emplace(node, place).second) { ++place; }
      summary.add(node, benchmark, metric, run, place, rank["images_per_second"]);
    }
    if (!places.empty()) { continue; }
    const auto per_node = std::max(trial.whole("gpus_per_node", 0), trial.whole("ranks_per_node", 1));
    const auto count = static_cast<double>(trial.whole("nodes", 1) * std::max<std::int64_t>(per_node, 1));
    summary.add(prefix, benchmark, metric, run, 0, trial["images_per_second"].get<double>() / count);
  }
  return summary;
}

}  // namespace

void export_superbench(const Store& store, const std::vector<std::string>& experiments, std::ostream& out) {
  std::vector<Summary> summaries;  // all of them, or nothing is written
  summaries.reserve(experiments.size());
  const TrialRows rows(store, experiments);
  for (const auto& experiment : experiments) { summaries.push_back(summarize(store, rows, experiment)); }
  for (const auto& summary : summaries) { summary.write(out); }
}

std::vector<std::string> superbench_incomplete_nodes(const Store& store,
                                                     const std::vector<std::string>& experiments) {
  std::vector<std::string> found;
  const TrialRows rows(store, experiments);
  for (const auto& experiment : experiments) {
    for (auto& node : summarize(store, rows, experiment).incomplete()) { found.push_back(std::move(node)); }
  }
  return found;
}

}  // namespace virtrain::results
