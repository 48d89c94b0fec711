// The format is that of GoogleCloudPlatform/PerfKitBenchmarker, perfkitbenchmarker_results.json: a sample a
// line, with "metric", "value", "unit", "test", "labels" ("|num_gpus:8|,|model:resnet50|").
#include <algorithm>
#include <array>
#include <functional>
#include <set>

#include "common/text/json.h"
#include "common/text/printable.h"
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

/// Labels that say where a sample was taken, when, and what else came out: they differ between runs of the
/// same figure. All others tell figures apart.
bool is_of_the_run(std::string_view name) {
  static const std::set<std::string, std::less<>> names = {"perfkitbenchmarker_version",
                                                           "cloud",
                                                           "zone",
                                                           "region",
                                                           "image",
                                                           "machine_type",
                                                           "vm_count",
                                                           "os_info",
                                                           "os_type",
                                                           "kernel_release",
                                                           "kernel_command_line",
                                                           "cpu_info",
                                                           "cpu_version",
                                                           "cpu_vuln",
                                                           "driver",
                                                           "cuda_version",
                                                           "cudnn_version",
                                                           "nccl_version",
                                                           "hostname",
                                                           "hosts",
                                                           "user",
                                                           "owner",
                                                           "project",
                                                           "run_number",
                                                           "run_uri",
                                                           "iteration",
                                                           "time",
                                                           "start_time",
                                                           "end_time",
                                                           "timestamp",
                                                           "elapsed_time",
                                                           "count",
                                                           "size",
                                                           "num_nodes",
                                                           "nvidia_driver_version",
                                                           "sha",
                                                           "commit",
                                                           "command",
                                                           "command_line",
                                                           "cmd"};
  static constexpr std::array<std::string_view, 16> endings = {
      "_zone",  "_region", "_image", "_machine_type", "_count", "_error", "_time",     "_algbw",
      "_busbw", "_uuid",   "_id",    "_version",      "_ip",    "_name",  "_location", "_price"};
  static constexpr std::array<std::string_view, 7> beginnings = {
      "vm_", "default_", "data_disk", "boot_disk", "Rank ", "gpu_", "lscpu"};
  return names.contains(name) || name.find("disk") != name.npos || name.find("numa") != name.npos ||
         std::ranges::any_of(endings, [&](auto ending) { return name.ends_with(ending); }) ||
         std::ranges::any_of(beginnings, [&](auto beginning) { return name.starts_with(beginning); });
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
      if (!trim(lines_.line()).empty()) { take(parse_record(lines_)); }
    }
    if (importer_.report().trials + importer_.report().probes == 0) {
      lines_.refuse("no sample of it is in images per second, bytes per second or FLOP/s");
    }
    left_out_.report(importer_);
  }

 private:
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
    figure.nodes = count_of(labels, "num_nodes");
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
    if (record["started_at"].is_null()) { record["started_at"] = value_json(time_of(sample)); }
    if (record["precision"].is_null()) { record["precision"] = value_json(label_in(labels, "precision")); }
    importer_.add(record, lines_.position());
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
};

}  // namespace

void read_perfkit(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  PerfKitReader(lines, settings, importer).read();
}

}  // namespace virtrain::results
