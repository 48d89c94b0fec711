// dllogger's lines are those of NVIDIA/dllogger, JSONStreamBackend; what they are called is in
// NVIDIA/DeepLearningExamples. torchvision's are those of pytorch/vision, references/classification/utils.py,
// MetricLogger.log_every().
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr std::string_view dllogger_mark = "DLLL ";

/// Names of a run's training throughput in images a second, the surest first.
constexpr std::array dllogger_names = {"train.total_ips", "train_throughput", "train_ips", "throughput_train",
                                       "train.compute_ips"};

/// The figure behind "NAME: 12.3" of a line whose parts two blanks divide; nothing if it is not there.
std::optional<std::string_view> meter(std::string_view line, std::string_view name) {
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const bool begins = at > 0 && line[at - 1] == ' ';
    auto rest = line.substr(at + name.size());
    if (!begins || !rest.starts_with(": ")) { continue; }
    const auto words = words_of(rest.substr(2, 64));
    if (!words.empty()) { return words[0]; }
  }
  return std::nullopt;
}

/// What a run of dllogger says about itself; a later record replaces an earlier one.
struct DlloggerLog {
  std::map<std::string, double> summary;     ///< throughputs of the whole run, by name
  std::map<std::string, std::string> units;  ///< of a name, where a METADATA record states it
  json parameters;                           ///< how the program was called; null where it does not say
  std::int64_t records = 0;
};

/// A count of one or more among the parameters.
std::optional<std::int64_t> count_in(const json& parameters, const char* name) {
  const auto& value = member(parameters, name);
  constexpr std::int64_t most = 1'000'000;
  if (!value.is_number_integer() || value < 1 || value > most) { return std::nullopt; }
  return value.get<std::int64_t>();
}

void take_record(const json& record, DlloggerLog& log) {
  ++log.records;
  const auto type = text_in(record, "type");
  if (type == "METADATA") {
    const auto metric = text_in(record, "metric");
    const bool is_known =
        std::find(dllogger_names.begin(), dllogger_names.end(), metric) != dllogger_names.end();
    if (is_known) { log.units[metric] = text_in(member(record, "metadata"), "unit"); }
  }
  if (type != "LOG") { return; }
  const auto& step = member(record, "step");
  if (step == "PARAMETER") { log.parameters = member(record, "data"); }
  // The summary of the run has no step: "step": []. It comes in several records, one for each verbosity.
  const bool is_summary = (step.is_array() || step.is_string()) && step.empty();
  if (!is_summary) { return; }
  for (const char* name : dllogger_names) {
    if (const auto value = number_of(member(member(record, "data"), name)); value && *value > 0) {
      log.summary[name] = *value;
    }
  }
}

/// The surest throughput in images a second; other programs count samples or tokens under the same names.
std::optional<std::string> throughput_name(const DlloggerLog& log) {
  for (const char* name : dllogger_names) {
    const auto unit = log.units.find(name);
    const bool counts_images =
        unit == log.units.end() || unit->second.empty() || is_images_per_second(unit->second);
    if (log.summary.contains(name) && counts_images) { return name; }
  }
  return std::nullopt;
}

}  // namespace

void read_dllogger(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  DlloggerLog log;
  while (lines.next()) {
    const auto line = lines.line();
    const auto mark = line.find(dllogger_mark);
    if (mark == line.npos || line.find('{', mark) == line.npos) { continue; }
    try {
      take_record(parse_json(line.substr(mark + dllogger_mark.size()), {}), log);
    } catch (const JsonRefusal& refusal) { lines.refuse(refusal.what()); }
  }
  const auto name = throughput_name(log);
  if (!name) {
    lines.refuse(fmt::format(
        "{} records of dllogger, and none is a summary (\"step\": []) with {} in images a second: "
        "the run did not finish, or measured something else",
        log.records, join({dllogger_names.begin(), dllogger_names.end()}, ", ")));
  }
  TrainingFigure figure{log.summary[*name], "", *name, {}, {{"source", "dllogger"}, {"metric", *name}}};
  figure.gpus = count_in(log.parameters, "world_size");
  // Where ConvNets of DeepLearningExamples say on how many GPUs they ran, calc_ips() has counted all of them.
  if (figure.gpus && name->starts_with("train.")) { figure.scope = Scope::trial; }
  if (const auto model = text_in(log.parameters, "arch"); !model.empty()) {
    figure.environment["model"] = model;
  }
  auto record = trial_of(figure, settings, lines);
  if (record["batch_size"].is_null()) {
    record["batch_size"] = value_json(count_in(log.parameters, "batch_size"));
  }
  importer.add(record, lines.position());
}

void read_torchvision(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  double sum = 0;
  std::int64_t count = 0, first = 0;
  std::optional<double> loss;
  std::string epoch;
  while (lines.next()) {
    const auto line = without_rank_tag(lines.line());
    const auto speed = line.starts_with("Epoch: [") ? meter(line, "img/s") : std::nullopt;
    if (!speed) { continue; }
    const auto value = parse_number(*speed);
    if (!value || *value <= 0) {
      lines.refuse(fmt::format("img/s is \"{}\", it must be a finite number above zero", excerpt(*speed)));
    }
    loss = parse_number(meter(line, "loss").value_or("")).has_value() ? parse_number(*meter(line, "loss"))
                                                                      : loss;
    // "Epoch: [0]  [   0/5005]": an epoch's first line has the time that the first batch took to come.
    const std::string now(line.substr(0, line.find(']')));
    if (now != epoch) {
      epoch = now;
      ++first;
      continue;
    }
    sum += *value;
    ++count;
  }
  if (count == 0) {
    lines.refuse("there is no second line of an epoch with img/s: too few steps were logged");
  }
  TrainingFigure figure{sum / static_cast<double>(count), "", "img/s", {}, {{"source", "torchvision"}}};
  figure.environment["log_lines"] = count;
  auto record = trial_of(figure, settings, lines);
  importer.note(fmt::format(
      "the mean of {} log lines' img/s; the first line of each of {} epochs is left out", count, first));
  if (loss) {
    record["tenants"] = json::array({{{"tenant_index", 0},
                                      {"nodes", record["nodes"]},
                                      {"images_per_second", record["images_per_second"]},
                                      {"loss_last", *loss}}});
  }
  importer.add(record, lines.position());
}

}  // namespace virtrain::results
