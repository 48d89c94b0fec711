// The format is that of GoogleCloudPlatform/PerfKitBenchmarker, perfkitbenchmarker_results.json: a sample a
// line, with "metric", "value", "unit", "test", "labels" ("|num_gpus:8|,|model:resnet50|").
#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

/// "8" of "|num_gpus:8|,|model:resnet50|"; empty if the label is not there.
std::string label_in(const std::string& labels, const std::string& name) {
  const auto at = labels.find("|" + name + ":");
  if (at == std::string::npos) { return ""; }
  const auto begin = at + name.size() + 2;
  const auto end = labels.find('|', begin);
  return end == std::string::npos ? "" : labels.substr(begin, end - begin);
}

/// Labels that say where a sample was taken, on what software and when, and what else came out: they differ
/// between runs and arms of the same figure. All others tell figures apart, whatever they are called.
bool is_of_the_run(std::string_view name) {
  static const std::set<std::string, std::less<>> names = {
      // the run
      "run_uri", "sample_uri", "run_number", "iteration", "owner", "user", "project", "timestamp", "time",
      "start_time", "end_time", "elapsed_time", "perfkitbenchmarker_version",
      // the machine
      "cloud", "zone", "region", "image", "machine_type", "hostname", "hosts", "node_name", "num_nodes",
      "num_vms", "vm_count", "vm_ids", "vm_names", "os_info", "os_type", "kernel_release",
      "kernel_command_line", "cpu_info", "cpu_version", "cpu_vuln", "numa_node_count", "num_cpus",
      "sending_machine_type", "receiving_machine_type", "gpu_uuid",
      // its software
      "driver", "nvidia_driver_version", "gpu_driver_version", "cuda_version", "cuda_toolkit_version",
      "cudnn_version", "nccl_version", "sha", "commit", "command", "command_line", "cmd",
      // what else came out, or is a column of its own
      "size", "count", "algbw", "busbw", "error", "out_of_place_time", "out_of_place_algbw",
      "out_of_place_busbw", "out_of_place_error", "in_place_time", "in_place_algbw", "in_place_busbw",
      "in_place_error"};
  // "vm_1_vm_count" of one machine of several, and "Rank 0" with the host and device of a rank.
  const bool is_of_machine = name.starts_with("vm_") && name.size() > 3 && is_digit(name[3]);
  const bool is_of_rank = name.starts_with("Rank ") && name.size() > 5 && is_digit(name[5]);
  return names.contains(name) || is_of_machine || is_of_rank;
}

/// {"operation": "all_reduce"} of "|operation:all_reduce|,|size:8|,|zone:a|".
json settings_in(const std::string& labels) {
  json settings = json::object();
  for (const auto& label : split(labels, '|')) {
    const auto colon = label.find(':');
    if (colon == std::string::npos || colon == 0 || is_of_the_run(label.substr(0, colon))) { continue; }
    settings[label.substr(0, colon)] = label.substr(colon + 1);
  }
  return settings;
}

std::string time_of(const json& sample) {
  return time_at(number_of(member(sample, "timestamp")));
}

class PerfKitReader {
 public:
  PerfKitReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    while (lines_.next()) {
      if (!trim(lines_.line()).empty()) { note_total(parse_record(lines_)); }
    }
    lines_.rewind();
    while (lines_.next()) {
      if (!trim(lines_.line()).empty()) { take(parse_record(lines_)); }
    }
    if (importer_.report().trials + importer_.report().probes == 0) {
      lines_.refuse("no sample of it is in images per second, bytes per second or FLOP/s");
    }
    left_out_.report(importer_);
  }

 private:
  /// Identity of a run, which its samples share.
  static std::string run_of(const json& sample) {
    return text_in(sample, "run_uri") + "\n" + text_in(sample, "test") + "\n" + text_in(sample, "labels");
  }

  void note_total(const json& sample) {
    const auto value = number_of(member(sample, "value"));
    const bool is_total = scope_in_name(text_in(sample, "metric")) == Scope::trial;
    if (value && is_total && is_images_per_second(text_in(sample, "unit"))) {
      totals_[run_of(sample)].push_back(*value);
    }
  }

  /// Beside the total of its run the figure of one GPU is the same figure again, and must fit it.
  bool is_part_of_total(const json& sample, const std::string& metric, double value, const json& record) {
    const auto found = totals_.find(run_of(sample));
    if (scope_in_name(metric) != Scope::rank || found == totals_.end()) { return false; }
    const auto devices =
        settings_.ranks.value_or(record["nodes"].get<std::int64_t>() *
                                 std::max<std::int64_t>(record["gpus_per_node"].get<std::int64_t>(), 1));
    const auto fits = [&](double total) { return is_part(value, total, devices); };
    if (std::ranges::none_of(found->second, fits)) {
      lines_.refuse(
          "{} is {} and the total of the same run is {}, which are not {}: correct --nodes, "
          "--gpus-per-node or --ranks",
          excerpt(metric), value, found->second.front(), counted(devices, "device"));
    }
    left_out_.add(metric + " next to the total");
    return true;
  }

  void take(const json& sample) {
    const auto metric = text_in(sample, "metric"), unit = text_in(sample, "unit");
    const auto value = number_of(member(sample, "value"));
    if (metric.empty() || !value) {
      lines_.refuse("a sample needs a text \"metric\" and a number \"value\"");
    }
    const auto probe_unit = probe_unit_of(unit);
    if (label_in(text_in(sample, "labels"), "forward_only") == "True") {
      left_out_.add(metric + " (forward_only)");  // inference, of the same name and unit as training
    } else if (is_images_per_second(unit)) {
      add_trial(sample, metric, *value);
    } else if (probe_unit && std::string_view(probe_unit->unit) != "s") {
      add_probe(sample, metric, *value, *probe_unit);
    } else {
      left_out_.add(in_unit(metric, unit));
    }
  }

  void add_trial(const json& sample, const std::string& metric, double value) {
    const auto labels = text_in(sample, "labels");
    const auto model = label_in(labels, "model");
    TrainingFigure figure{
        value, text_in(sample, "test"), metric, {}, {{"source", "perfkit"}, {"metric", metric}}};
    if (!model.empty()) {
      figure.case_name += "/" + model;
      figure.environment["model"] = model;
    }
    figure.nodes = nodes_of(labels);
    figure.scope = scope_in_name(metric);
    figure.gpus = count_of(labels, "total_gpus");
    // PerfKitBenchmarker asks one virtual machine for it.
    const auto of_one = count_of(labels, "num_gpus");
    const auto nodes = figure.nodes ? figure.nodes : settings_.nodes;
    if (of_one && figure.gpus && nodes && *of_one * *nodes != *figure.gpus) {
      lines_.refuse("the labels say {} on each of {}, and {} in all", counted(*of_one, "GPU"),
                    counted(*nodes, "node"), *figure.gpus);
    }
    if (of_one && !figure.gpus) { figure.gpus = *of_one * nodes.value_or(1); }
    const auto batch = parse_integer(label_in(labels, "batch_size"));
    if (batch && *batch > 0) { figure.batch_size = batch; }
    auto record = trial_of(figure, settings_, lines_);
    if (is_part_of_total(sample, metric, value, record)) { return; }
    if (record["started_at"].is_null()) { record["started_at"] = value_json(time_of(sample)); }
    if (record["precision"].is_null()) { record["precision"] = value_json(label_in(labels, "precision")); }
    importer_.add(record, lines_.position());
  }

  /// Benchmarks name the machines of a job differently.
  static std::optional<std::int64_t> nodes_of(const std::string& labels) {
    for (const char* name : {"num_nodes", "num_vms", "vm_count"}) {
      if (const auto nodes = count_of(labels, name)) { return nodes; }
    }
    return std::nullopt;
  }

  static std::optional<std::int64_t> count_of(const std::string& labels, const char* name) {
    constexpr std::int64_t most = 1'000'000;
    const auto count = parse_integer(label_in(labels, name));
    return count && *count >= 1 && *count <= most ? count : std::nullopt;
  }

  void add_probe(const json& sample, const std::string& metric, double value, const ProbeUnit& unit) {
    auto probe = record_of(settings_, lines_);
    const auto test = text_in(sample, "test");
    probe.update({{"record", "probe"}, {"name", test.empty() ? metric : test + "/" + metric}});
    probe["unit"] = unit.unit;
    probe["value"] = value * unit.factor;
    probe["measured_at"] = value_json(time_of(sample));
    const auto labels = text_in(sample, "labels");
    probe["detail"] = {{"source", "perfkit"}, {"labels", labels}, {"settings", settings_in(labels)}};
    probe["size_bytes"] = value_json(parse_integer(label_in(labels, "size")));
    probe["nodes"] = value_json(count_of(labels, "num_nodes"));
    if (settings_.nodes) {
      if (!probe["nodes"].is_null() && probe["nodes"] != *settings_.nodes) {
        lines_.refuse("{} in this file is of {}, and --nodes says {}", excerpt(metric),
                      counted(probe["nodes"].get<std::int64_t>(), "node"), *settings_.nodes);
      }
      probe["nodes"] = *settings_.nodes;
    }
    importer_.add(probe, lines_.position());
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  LeftOut left_out_;
  std::map<std::string, std::vector<double>> totals_;  ///< by run
};

}  // namespace

void read_perfkit(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  PerfKitReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
