// dllogger's lines are those of NVIDIA/dllogger, JSONStreamBackend; what they are called is in
// NVIDIA/DeepLearningExamples. torchvision's are those of pytorch/vision, references/classification/utils.py,
// MetricLogger.log_every().
#include <fmt/format.h>

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

}  // namespace

void read_dllogger(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  std::map<std::string, double> summary;
  std::int64_t records = 0;
  while (lines.next()) {
    const auto line = lines.line();
    const auto mark = line.find(dllogger_mark);
    if (mark == line.npos || line.find('{', mark) == line.npos) { continue; }
    json record;
    try {
      record = parse_json(line.substr(mark + dllogger_mark.size()), {});
    } catch (const JsonRefusal& refusal) { lines.refuse(refusal.what()); }
    ++records;
    // The summary of the run has no step: "step": [].
    const auto& step = member(record, "step");
    const bool is_summary = (step.is_array() || step.is_string()) && step.empty();
    if (!is_summary || text_in(record, "type") != "LOG") { continue; }
    for (const char* name : dllogger_names) {
      if (const auto value = number_of(member(member(record, "data"), name)); value && *value > 0) {
        summary[name] = *value;
      }
    }
  }
  for (const char* name : dllogger_names) {
    if (!summary.contains(name)) { continue; }
    const TrainingFigure figure{summary[name], "", name, {}, {{"source", "dllogger"}, {"metric", name}}};
    return importer.add(trial_of(figure, settings, lines), lines.position());
  }
  lines.refuse(
      fmt::format("{} records of dllogger, and none is a summary (\"step\": []) with {}: the run did not "
                  "finish, or measured something else",
                  records, join({dllogger_names.begin(), dllogger_names.end()}, ", ")));
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
