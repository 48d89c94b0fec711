// The format is that of GoogleCloudPlatform/PerfKitBenchmarker, perfkitbenchmarker_results.json: a sample a
// line, with "metric", "value", "unit", "test", "labels" ("|num_gpus:8|,|model:resnet50|").

#include "common/text/json.h"
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
    // PerfKitBenchmarker asks one virtual machine for it.
    constexpr std::int64_t most_gpus = 1024;
    if (const auto gpus = parse_integer(label_in(labels, "num_gpus")); gpus && *gpus <= most_gpus) {
      figure.gpus = *gpus * settings_.nodes.value_or(1);
    }
    const auto batch = parse_integer(label_in(labels, "batch_size"));
    if (batch && *batch > 0) { figure.batch_size = batch; }
    auto record = trial_of(figure, settings_, lines_);
    if (record["started_at"].is_null()) { record["started_at"] = value_json(time_of(sample)); }
    if (record["precision"].is_null()) { record["precision"] = value_json(label_in(labels, "precision")); }
    importer_.add(record, lines_.position());
  }

  void add_probe(const json& sample, const std::string& metric, double value, const ProbeUnit& unit) {
    auto probe = record_of(settings_, lines_);
    const auto test = text_in(sample, "test");
    probe.update({{"record", "probe"}, {"name", test.empty() ? metric : test + "/" + metric}});
    probe["unit"] = unit.unit;
    probe["value"] = value * unit.factor;
    probe["measured_at"] = value_json(time_of(sample));
    probe["detail"] = {{"source", "perfkit"}, {"labels", text_in(sample, "labels")}};
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
