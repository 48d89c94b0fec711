#include <cctype>
#include <map>
#include <ostream>
#include <set>

#include "results/comparison/causes/probe_key.h"
#include "results/comparison/isolation_matrix.h"
#include "results/exchange/exporters/exporters.h"
#include "results/exchange/exporters/prometheus_page.h"
#include "results/reading/reading.h"
#include "results/store/probe_settings.h"

namespace virtrain::results {
namespace {

/// One column of a view as a metric.
struct ColumnMetric {
  const char* column;
  const char* metric;
  const char* type;
  const char* help;
  double scale = 1;
};

/// A view whose columns become metrics, and the columns that label them.
struct ViewMetrics {
  const char* view;
  std::vector<const char*> labels;
  std::vector<ColumnMetric> metrics;
  bool of_trials = false;  ///< has the column trial_id: rows of trials that do not count are left out
};

/// Reads all trials at once: a query for each experiment would read the others' trials again and again.
struct TrialsSeen {
  std::set<std::int64_t> good;         ///< whose figures count
  std::set<std::string> with_victims;  ///< experiments that measured isolation
};

TrialsSeen look_at_trials(const Store& store, const std::vector<std::string>& experiments) {
  TrialsSeen seen;
  for_each_row(store.view("v_trial_detail", experiments), [&](const ViewRow& row) {
    if (is_good_trial(row)) { seen.good.insert(row.whole("trial_id", 0)); }
    if (!row["neighbour"].is_null()) { seen.with_victims.insert(row.text("experiment")); }
  });
  return seen;
}

constexpr double seconds_per_nanosecond = 1e-9;

const std::vector<ViewMetrics>& view_metrics() {
  static const std::vector<ViewMetrics> all = {
      {"v_trial_detail",
       {"experiment", "scenario", "label", "case", "arm", "pair", "trial", "virtualization"},
       {{"images_per_second", "virtrain_trial_images_per_second", "gauge",
         "Images trained per second, sum over the trial's ranks."},
        {"start_spread_ns", "virtrain_trial_start_spread_seconds", "gauge",
         "Last start minus first start of the trial's ranks.", seconds_per_nanosecond}},
       true},
      {"v_trial_detail",
       {"experiment", "scenario", "label", "case", "arm", "pair", "trial", "virtualization", "unit"},
       {{"throughput", "virtrain_trial_throughput", "gauge",
         "Throughput of the trial in its unit, where that is not images/s."}},
       true},
      {"v_tenant",
       {"experiment", "scenario", "label", "case", "arm", "pair", "trial_order", "tenant"},
       {{"images_per_second", "virtrain_tenant_images_per_second", "gauge",
         "Images trained per second, sum over the tenant's ranks."},
        {"network_bytes_measured", "virtrain_tenant_network_bytes_total", "counter",
         "Bytes that the tenant's network carried during the trial."}},
       true},
      {"v_tenant",
       {"experiment", "scenario", "label", "case", "arm", "pair", "trial_order", "tenant", "unit"},
       {{"throughput", "virtrain_tenant_throughput", "gauge",
         "Throughput of the tenant in its unit, where that is not images/s."}},
       true},
      {"v_node",
       {"experiment", "case", "arm", "pair", "trial_order", "tenant", "node"},
       {{"agent_ready_seconds", "virtrain_node_agent_ready_seconds", "gauge",
         "From the node's start to its agent's hello."}},
       true},
      {"v_rank",
       {"experiment", "case", "arm", "pair", "trial_order", "tenant", "node", "rank"},
       {{"images_per_second", "virtrain_rank_images_per_second", "gauge",
         "Images trained per second by one rank."},
        {"step_p50_seconds", "virtrain_rank_step_median_seconds", "gauge",
         "Median duration of a training step."},
        {"step_p99_seconds", "virtrain_rank_step_p99_seconds", "gauge",
         "99th percentile of a training step's duration."}},
       true},
      {"v_rank",
       {"experiment", "case", "arm", "pair", "trial_order", "tenant", "node", "rank", "unit"},
       {{"throughput", "virtrain_rank_throughput", "gauge",
         "Throughput of one rank in its unit, where that is not images/s."}},
       true},
      {"v_speedup",
       {"experiment", "scenario", "label", "case", "arm", "unit"},
       {{"speedup", "virtrain_speedup_ratio", "gauge", "Throughput against the same arm's single node."},
        {"efficiency", "virtrain_efficiency_ratio", "gauge", "Speedup divided by the number of nodes."}}},
      {"v_vm_vs_bare_metal",
       {"experiment", "scenario", "label", "case", "pair", "virtualization", "unit"},
       {{"ratio", "virtrain_vm_vs_bare_metal_ratio", "gauge",
         "Throughput of the VM arm divided by bare metal's."}}},
  };
  return all;
}

PrometheusLabels labels_of(const ViewRow& row, const std::vector<const char*>& columns) {
  PrometheusLabels labels;
  for (const char* column : columns) { labels.emplace_back(column, row.text(column)); }
  return labels;
}

void add_view(PrometheusPage& page, const Store& store, const std::vector<std::string>& experiments,
              const ViewMetrics& metrics, const std::set<std::int64_t>& good) {
  for_each_row(store.view(metrics.view, experiments), [&](const ViewRow& row) {
    if (metrics.of_trials && !good.contains(row.whole("trial_id", 0))) { return; }
    for (const auto& [column, metric, type, help, scale] : metrics.metrics) {
      if (row[column].is_number()) {
        page.add(metric, type, help, labels_of(row, metrics.labels), row[column].get<double>() * scale);
      }
    }
  });
}

void add_trial_counts(PrometheusPage& page, const Store& store, const std::vector<std::string>& experiments) {
  std::map<PrometheusLabels, std::int64_t> counts;
  for_each_row(store.view("v_trial", experiments), [&](const ViewRow& row) {
    ++counts[labels_of(row, {"experiment", "scenario", "label", "case", "arm", "status"})];
  });
  for (const auto& [labels, count] : counts) {
    page.add("virtrain_trials_total", "counter", "Trials by how they ended.", labels,
             static_cast<double>(count));
  }
}

PrometheusLabels joined(PrometheusLabels labels, const PrometheusLabels& more) {
  labels.insert(labels.end(), more.begin(), more.end());
  return labels;
}

/// The label of a throughput's unit; images/s, which go without saying, have none.
std::string unit_label(const std::string& unit) {
  return unit == images_unit ? "" : unit;
}

/// Effect of a mitigation on one neighbour, and its cost to both sides.
void add_mitigation(PrometheusPage& page, const PrometheusLabels& study, const Mitigation& one) {
  const auto labels = joined({{"case", one.case_name},
                              {"arm", one.arm},
                              {"like", one.like},
                              {"changes", one.changes},
                              {"neighbour", one.neighbour},
                              {"unit", unit_label(one.unit)},
                              {"verdict", to_string(one.verdict)}},
                             study);
  const auto add = [&](const std::string& metric, const char* help, const std::optional<double>& value,
                       const std::optional<Interval>& interval) {
    if (!value) { return; }
    page.add(metric + "_ratio", "gauge", help, labels, *value);
    if (!interval) { return; }
    page.add(metric + "_low_ratio", "gauge", "Lower end of its interval.", labels, interval->low);
    page.add(metric + "_high_ratio", "gauge", "Upper end of its interval.", labels, interval->high);
  };
  const auto add_cost = [&](const std::string& metric, const char* help,
                            const std::optional<ShareLost>& cost) {
    if (cost) { add(metric, help, cost->loss, cost->ci); }
  };
  add("virtrain_mitigation_relief",
      "Share of its throughput alone that a victim keeps next to a neighbour, with a mitigation over without "
      "it.",
      one.relief, one.relief_ci);
  add_cost("virtrain_mitigation_cost_alone", "Share of a victim's throughput alone that a mitigation costs.",
           one.cost_alone);
  add_cost("virtrain_mitigation_cost_aggressor",
           "Share of a neighbour's work a second that a mitigation costs.", one.cost_aggressor);
}

/// Cost of neighbours to victims in one experiment, with the interval by which the verdict goes.
void add_isolation(PrometheusPage& page, const Store& store, const std::string& experiment) {
  constexpr const char* help =
      "Share of a victim's throughput that is lost next to a neighbour, against a baseline.";
  const auto study = isolation_study(store, {experiment});
  const PrometheusLabels whole{{"experiment", experiment},
                               {"scenario", experiment_to_export(store, experiment).scenario}};
  for (const auto& matrix : study.matrices) {
    for (const auto& cell : matrix.cells) {
      const auto add = [&](const std::optional<Disturbance>& one, const char* baseline) {
        if (!one) { return; }
        const auto labels = joined({{"case", matrix.case_name},
                                    {"arm", matrix.arm},
                                    {"neighbour", cell.neighbour},
                                    {"baseline", baseline},
                                    {"unit", unit_label(matrix.unit)},
                                    {"verdict", to_string(one->verdict)}},
                                   whole);
        page.add("virtrain_isolation_loss_ratio", "gauge", help, labels, one->loss);
        if (!one->loss_ci) { return; }
        page.add("virtrain_isolation_loss_low_ratio", "gauge", "Lower end of its interval.", labels,
                 one->loss_ci->low);
        page.add("virtrain_isolation_loss_high_ratio", "gauge", "Upper end of its interval.", labels,
                 one->loss_ci->high);
      };
      add(cell.against_alone, "alone");
      add(cell.against_idle, "idle");
      if (cell.recovery && cell.recovery->seconds) {
        page.add("virtrain_isolation_recovery_seconds", "gauge",
                 "Median over rounds, from the end of the aggressor until the victim is as fast as alone.",
                 joined({{"case", matrix.case_name},
                         {"arm", matrix.arm},
                         {"neighbour", cell.neighbour},
                         {"unit", unit_label(matrix.unit)}},
                        whole),
                 *cell.recovery->seconds);
      }
    }
  }
  for (const auto& one : study.mitigations) { add_mitigation(page, whole, one); }
}

/// Telemetry of the nodes: GPU metrics under DCGM's own names, all else under ours. A counter (its name ends
/// in a unit of something used up) is what the trial added, anything else the mean over the trial.
void add_telemetry(PrometheusPage& page, const Store& store, const std::vector<std::string>& experiments,
                   const std::set<std::int64_t>& good) {
  for_each_row(store.view("v_telemetry", experiments), [&](const ViewRow& row) {
    if (!good.contains(row.whole("trial_id", 0))) { return; }
    const auto metric = row.text("metric");
    auto labels =
        labels_of(row, {"experiment", "case", "arm", "pair", "trial_order", "tenant", "node", "source"});
    const bool of_gpu = metric.starts_with("DCGM_FI_");
    const bool is_counter = !of_gpu && (metric.ends_with("_seconds") || metric.starts_with("network_"));
    const double value =
        is_counter ? row["last"].get<double>() - row["first"].get<double>() : row["mean"].get<double>();
    std::string name = of_gpu ? metric.substr(0, metric.find(':'))
                              : "virtrain_node_" + metric + (is_counter ? "_total" : "");
    if (of_gpu && name.size() < metric.size()) { labels.emplace_back("gpu", metric.substr(name.size() + 1)); }
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') { c = '_'; }
    }
    page.add(
        name, is_counter ? "counter" : "gauge",
        is_counter ? "What the node used during the trial." : "Mean of the node's readings over the trial.",
        labels, value);
  });
}

/// A setting's name as a label's, apart from the labels that each figure has.
std::string label_name(const std::string& setting) {
  std::string name = "setting_" + setting;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') { c = '_'; }
  }
  return name;
}

std::string count_text(const std::optional<std::int64_t>& count) {
  return count ? std::to_string(*count) : "";
}

/// All that tells figures apart is among the labels.
void add_probes(PrometheusPage& page, const Store& store, const std::string& experiment) {
  for (const auto& probe : store.probes(experiment)) {
    const auto key = key_of(probe);
    PrometheusLabels labels = {{"experiment", experiment},
                               {"name", probe.name},
                               {"arm", probe.arm},
                               {"node", probe.node},
                               {"transport", probe.transport},
                               {"data_type", probe.data_type},
                               {"nodes", count_text(probe.nodes)},
                               {"ranks", count_text(probe.ranks)},
                               {"size_bytes", count_text(probe.size_bytes)},
                               {"side", key.side}};
    for (const auto& [name, value] : key.settings) { labels.emplace_back(label_name(name), value); }
    const auto add = [&](const char* metric, const char* help, const std::optional<double>& value) {
      if (value) { page.add(metric, "gauge", help, labels, *value); }
    };
    add("virtrain_probe_seconds", "Duration of one operation of a micro-benchmark.",
        probe.unit == "s" ? probe.value : probe.seconds);
    add("virtrain_probe_bus_bytes_per_second", "Bus bandwidth of a collective as nccl-tests define it.",
        probe.bus_bytes_per_second);
    if (probe.unit == "B/s") {
      add("virtrain_probe_bytes_per_second", "Bandwidth that a micro-benchmark measured.", probe.value);
    } else if (probe.unit == "FLOP/s") {
      add("virtrain_probe_flop_per_second", "Rate of a micro-benchmark's arithmetic.", probe.value);
    }
  }
}

/// Figures that jobs say beside their throughput, of usable trials.
void add_figures(PrometheusPage& page, const Store& store, const std::string& experiment) {
  for (const auto& figure : store.trial_figures(experiment)) {
    PrometheusLabels labels = {{"experiment", experiment},
                               {"case", figure.case_name},
                               {"arm", figure.arm},
                               {"trial", std::to_string(figure.trial)},
                               {"tenant", std::to_string(figure.tenant_index)},
                               {"node", figure.node},
                               {"rank", count_text(figure.rank)},
                               {"name", figure.name},
                               {"unit", figure.unit}};
    for (const auto& [name, value] : settings_of(figure)) { labels.emplace_back(label_name(name), value); }
    page.add("virtrain_job_figure", "gauge", "Figure of a job other than its throughput, over the trial.",
             labels, figure.value);
  }
}

}  // namespace

void export_prometheus(const Store& store, const std::vector<std::string>& experiments, std::ostream& out) {
  PrometheusPage page;
  add_trial_counts(page, store, experiments);
  const auto [good, with_victims] = look_at_trials(store, experiments);
  for (const auto& experiment : experiments) {
    if (with_victims.contains(experiment)) { add_isolation(page, store, experiment); }
  }
  for (const auto& metrics : view_metrics()) { add_view(page, store, experiments, metrics, good); }
  for (const auto& experiment : experiments) {
    add_probes(page, store, experiment);
    add_figures(page, store, experiment);
  }
  add_telemetry(page, store, experiments, good);
  page.write(out);
}

}  // namespace virtrain::results
