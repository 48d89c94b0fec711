// dllogger's lines are those of NVIDIA/dllogger, JSONStreamBackend and StdOutBackend; what they are called is
// in NVIDIA/DeepLearningExamples. torchvision's are those of pytorch/vision,
// references/classification/utils.py, MetricLogger.log_every().
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/figures.h"
#include "results/exchange/readers/logs/mark_fall.h"
#include "results/exchange/readers/logs/step_levels.h"
#include "results/exchange/readers/logs/step_lines.h"
#include "results/exchange/readers/rank_tag.h"
#include "results/exchange/records/line_reader.h"

namespace virtrain::results {
namespace {

using nlohmann::json;

constexpr std::string_view dllogger_mark = "DLLL ";

/// Names of a run's training throughput, the surest first.
constexpr std::array dllogger_names = {"train.total_ips", "train_throughput", "train_ips", "throughput_train",
                                       "train.compute_ips"};

/// Facts of a run of dllogger.
struct DlloggerRun {
  std::map<std::string, double> summary;                 ///< throughputs of the whole run, by name
  std::map<std::string, std::string> units;              ///< of a name, where a METADATA record states it
  std::map<std::string, std::vector<StepSpeed>> steps;   ///< throughputs of single steps, by name
  std::map<std::string, std::vector<StepSpeed>> epochs;  ///< and of epochs
  json parameters;  ///< how the program was called; null where it does not say
  std::int64_t records = 0;
};

/// A count of one or more among the parameters.
std::optional<std::int64_t> count_in(const json& parameters, const char* name) {
  const auto& value = member(parameters, name);
  constexpr std::int64_t most = 1'000'000;
  if (!value.is_number_integer() || value < 1 || value > most) { return std::nullopt; }
  return value.get<std::int64_t>();
}

/// Whether the throughput of this name counts images. Where no METADATA record states its unit only "ips",
/// images a second, says so: other programs count samples or tokens under the names without it.
bool counts_images(const DlloggerRun& run, const std::string& name) {
  const auto unit = run.units.find(name);
  const bool has_unit = unit != run.units.end() && !unit->second.empty();
  return has_unit ? is_images_per_second(unit->second) : name.ends_with("_ips");
}

/// The surest throughput in images a second; nothing if there is none.
std::optional<std::string> throughput_name(const DlloggerRun& run) {
  for (const char* name : dllogger_names) {
    if (run.summary.contains(name) && counts_images(run, name)) { return name; }
  }
  return std::nullopt;
}

/// Whether a step's figure of this name is a speed, and none of a validation.
bool is_speed_of_training(const std::string& name) {
  const bool is_speed = name.ends_with("ips") || name.find("throughput") != name.npos;
  static constexpr std::array others = {"val", "eval", "test", "infer"};
  return is_speed &&
         std::ranges::none_of(others, [&](const char* other) { return name.find(other) != name.npos; });
}

/// Throughputs of the run that do not count images, with what they count.
std::vector<std::string> other_throughputs(const DlloggerRun& run) {
  std::vector<std::string> others;
  for (const auto& [name, value] : run.summary) {
    if (counts_images(run, name)) { continue; }
    const auto unit = run.units.find(name);
    const bool has_unit = unit != run.units.end() && !unit->second.empty();
    others.push_back(fmt::format("{} in {}", name, has_unit ? excerpt(unit->second) : "no stated unit"));
  }
  return others;
}

/// A file may hold several runs: dllogger appends to the one that is there.
class DlloggerReader {
 public:
  DlloggerReader(LineReader& lines, const ImportSettings& settings, RecordImporter& importer)
      : lines_(lines), settings_(settings), importer_(importer) {}

  void read() {
    const bool has_json = has_json_lines();
    while (lines_.next()) {
      const auto line = lines_.line();
      if (!has_json && is_dllogger_of_terminal(without_rank_tag(line))) {
        if (!lines_.has_end()) {
          left_out_.add(torn_line);
          break;
        }
        take_terminal_line(without_rank_tag(line));
        continue;
      }
      const auto mark = line.find(dllogger_mark);
      if (mark == line.npos || line.find('{', mark) == line.npos) { continue; }
      const auto start = mark + dllogger_mark.size();
      if (is_torn(lines_, start)) {
        left_out_.add(torn_line);
        break;
      }
      take(parse_part(lines_, start, {}));
    }
    finish_run();
    left_out_.report(importer_);
  }

 private:
  /// Both backends may write to one file: then the lines for programs are read.
  bool has_json_lines() {
    bool found = false;
    while (!found && lines_.next()) {
      const auto mark = lines_.line().find(dllogger_mark);
      found = mark != std::string_view::npos && lines_.line().find('{', mark) != std::string_view::npos;
    }
    lines_.rewind();
    return found;
  }

  /// "DLL DATE TIME - STEP NAME : VALUE UNIT NAME : VALUE …", where the step is "PARAMETER", "Summary:" (or
  /// "()" of programs without words of their own), or "Epoch: 0 Iteration: 1".
  void take_terminal_line(std::string_view line) {
    const auto words = words_of(line.substr(line.find(" - ") + 3));
    if (words.empty()) { return; }
    const auto is_name = [&](std::size_t i) { return i + 1 < words.size() && words[i + 1] == ":"; };
    json record = {{"type", "LOG"}, {"step", terminal_step(words)}, {"data", json::object()}};
    for (std::size_t i = 0; i + 2 < words.size(); ++i) {
      if (!is_name(i) || is_name(i + 2)) { continue; }
      const std::string name(words[i]);
      const auto whole = parse_integer(words[i + 2]);
      record["data"][name] = whole ? json(*whole) : json(words[i + 2]);
      const bool has_unit = i + 3 < words.size() && !is_name(i + 3);
      const bool is_known = std::ranges::find(dllogger_names, name) != dllogger_names.end();
      if (has_unit && is_known) { run_.units[name] = words[i + 3]; }
    }
    take(record);
  }

  static json terminal_step(const std::vector<std::string_view>& words) {
    if (words[0] == "PARAMETER") { return "PARAMETER"; }
    if (words[0] == "Summary:" || words[0] == "()" || words[0] == "[]") { return json::array(); }
    const bool is_step = std::ranges::find(words, "Iteration:") != words.end() ||
                         (words[0].starts_with('(') && words.size() > 1 && words[1].ends_with(')'));
    return is_step ? json::array({0, 0}) : json::array({0});
  }

  void take(const json& record) {
    const auto type = text_in(record, "type");
    const auto& step = member(record, "step");
    const auto& data = member(record, "data");
    const bool is_parameter = type == "LOG" && step == "PARAMETER";
    // A run may have several records of parameters, all before its summary.
    if (is_parameter && !run_.summary.empty()) { finish_run(); }
    ++run_.records;
    if (is_parameter && data.is_object()) { add_parameters(data); }
    if (type == "METADATA") {
      const auto metric = text_in(record, "metric");
      const bool is_known = std::ranges::find(dllogger_names, metric) != dllogger_names.end();
      if (is_known) { run_.units[metric] = text_in(member(record, "metadata"), "unit"); }
    }
    // The summary of the run has no step: "step": []. It comes in several records, one for each verbosity.
    const bool is_summary = type == "LOG" && (step.is_array() || step.is_string()) && step.empty();
    if (is_summary && data.is_object()) { take_summary(data); }
    const bool is_step = step.is_number_integer() || (step.is_array() && step.size() > 1);
    const bool is_epoch = step.is_array() && step.size() == 1;
    if (type == "LOG" && (is_step || is_epoch) && data.is_object()) {
      take_step(data, is_step ? run_.steps : run_.epochs);
    }
  }

  void take_step(const json& data, std::map<std::string, std::vector<StepSpeed>>& steps) {
    constexpr std::size_t most_names = 20;
    for (const auto& [name, one] : data.items()) {
      const auto value = number_of(one);
      if (!value || *value <= 0 || !is_speed_of_training(name)) { continue; }
      if (steps.size() < most_names || steps.contains(name)) {
        steps[name].push_back({*value, lines_.number()});
      }
    }
  }

  /// Speeds of the steps, else of the epochs: under the name of the summary where they have it, else under
  /// the surest of others, which fall when it does.
  const std::vector<StepSpeed>& speeds_of(const std::string& name) const {
    static const std::vector<StepSpeed> none;
    for (const auto* steps : {&run_.steps, &run_.epochs}) {
      if (const auto same = steps->find(name); same != steps->end()) { return same->second; }
      for (const char* sure : dllogger_names) {
        if (const auto other = steps->find(sure); other != steps->end()) { return other->second; }
      }
      if (!steps->empty()) { return steps->begin()->second; }
    }
    return none;
  }

  void add_parameters(const json& data) {
    if (!run_.parameters.is_object()) { run_.parameters = json::object(); }
    run_.parameters.update(data);
  }

  void take_summary(const json& data) {
    for (const char* name : dllogger_names) {
      const auto found = data.find(name);
      if (found == data.end()) { continue; }
      const auto value = number_of(*found);
      if (!value || *value <= 0) {
        lines_.refuse("the summary's {} is {}, it must be a finite number above zero", name,
                      excerpt(dump_json(*found)));
      }
      const auto [known, is_new] = run_.summary.emplace(name, *value);
      if (!is_new && known->second != *value) {
        lines_.refuse(
            "a second summary, with {} {} where the first has {}, and no record \"PARAMETER\" between them: "
            "give a file for each run",
            name, *value, known->second);
      }
    }
  }

  void finish_run() {
    const auto name = throughput_name(run_);
    const auto others = other_throughputs(run_);
    if (run_.records == 0) { refuse_disguised(lines_); }
    if (!name && !others.empty()) {
      lines_.refuse(
          "the summary has {}, which may count samples or tokens, and no throughput in images a second; if "
          "it "
          "counts images, give it as a CSV table with a column images_per_second",
          join(others, ", "));
    }
    if (!name) {
      lines_.refuse(
          "{} of dllogger, and none is a summary (\"step\": []) with {} in images a second: the run did not "
          "finish, or measured something else",
          counted(run_.records, "record"), join({dllogger_names.begin(), dllogger_names.end()}, ", "));
    }
    for (const auto& other : others) { left_out_.add(other); }
    if (*name == dllogger_names.back()) {
      importer_.note(
          fmt::format("{} was taken, which leaves out the loading of data: there is no {} in images a second",
                      *name, dllogger_names.front()));
    }
    TrainingFigure figure{run_.summary[*name], "", *name, {}, {{"source", "dllogger"}, {"metric", *name}}};
    figure.gpus = count_in(run_.parameters, "world_size");
    // Where ConvNets of DeepLearningExamples say on how many GPUs they ran, calc_ips() has counted all of
    // them.
    if (figure.gpus && name->starts_with("train.")) { figure.scope = Scope::trial; }
    if (const auto model = text_in(run_.parameters, "arch"); !model.empty()) {
      figure.environment["model"] = model;
    }
    figure.batch_size = count_in(run_.parameters, "batch_size");
    auto record = trial_of(figure, settings_, lines_);
    mark_fall(record, speeds_of(*name), lines_, importer_);
    importer_.add(record, lines_.position());
    run_ = {};
  }

  LineReader& lines_;
  const ImportSettings& settings_;
  RecordImporter& importer_;
  DlloggerRun run_;
  LeftOut left_out_;
};

/// 8 of "world_size=8" in the line "Namespace(…, world_size=8, …)", which torchvision prints of its options.
std::optional<std::int64_t> option_in(std::string_view line, std::string_view name) {
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const auto value = line.substr(at + name.size());
    const bool begins = at > 0 && (line[at - 1] == ' ' || line[at - 1] == '(');
    if (!begins || !value.starts_with('=')) { continue; }
    const auto count = parse_integer(value.substr(1, value.find_first_of(",)") - 1));
    constexpr std::int64_t most = 1'000'000;
    return count && *count >= 1 && *count <= most ? count : std::nullopt;
  }
  return std::nullopt;
}

/// 10 of "Epoch: [0]  [  10/5005]"; nothing of a line of another form.
std::optional<std::int64_t> step_of(std::string_view line) {
  const auto open = line.find('[', line.find(']'));
  const auto slash = line.find('/', open);
  if (open == line.npos || slash == line.npos) { return std::nullopt; }
  return parse_integer(trim(line.substr(open + 1, slash - open - 1)));
}

}  // namespace

void read_dllogger(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  DlloggerReader(lines, settings, importer).read();
}

void read_torchvision(LineReader& lines, const ImportSettings& settings, RecordImporter& importer) {
  // A line has the speed of its own step, and all steps have as many images: images over time are N of them
  // over the sum of 1 / speed, the harmonic mean.
  double seconds_per_image = 0;
  std::int64_t count = 0, first = 0;
  std::optional<double> loss;
  std::string epoch;
  std::optional<std::int64_t> step, world_size, batch_size;
  std::vector<StepSpeed> speeds;
  LeftOut left_out;
  while (lines.next()) {
    const auto line = without_rank_tag(lines.line());
    if (line.starts_with("Namespace(")) {
      const bool on_cpu = line.find("device='cpu'") != line.npos;
      world_size = on_cpu ? std::nullopt : option_in(line, "world_size");
      if (world_size == 1) {
        world_size.reset();
      }  // the default, which stays where Slurm started the processes
      batch_size = option_in(line, "batch_size");
    }
    const auto speed = line.starts_with("Epoch: [") ? word_behind(line, "img/s") : std::nullopt;
    if (!speed) { continue; }
    if (!lines.has_end()) {
      left_out.add(torn_line);
      break;
    }
    const auto said = step_line(LineFormat::torchvision, line);
    if (!said) { lines.refuse("img/s is \"{}\", it must be a finite number above zero", excerpt(*speed)); }
    loss = parse_number(word_behind(line, "loss").value_or("")).has_value()
               ? parse_number(*word_behind(line, "loss"))
               : loss;
    // "Epoch: [0]  [   0/5005]": an epoch's first step warms up. A run that was resumed may start the same
    // epoch anew.
    const std::string now(line.substr(0, line.find(']')));
    const auto before = std::exchange(step, step_of(line));
    if (now != epoch || (step && before && *step <= *before)) {
      epoch = now;
      ++first;
      continue;
    }
    seconds_per_image += 1 / said->speed;
    ++count;
    speeds.push_back({said->speed, lines.number()});
  }
  if (count == 0) {
    lines.refuse("there is no second line of an epoch with img/s: too few steps were logged");
  }
  TrainingFigure figure{
      static_cast<double>(count) / seconds_per_image, "", "img/s", {}, {{"source", "torchvision"}}};
  figure.gpus = world_size;
  figure.batch_size = batch_size;
  figure.environment["log_lines"] = count;
  auto record = trial_of(figure, settings, lines);
  left_out.report(importer);
  mark_fall(record, speeds, lines, importer);
  importer.note(
      fmt::format("the harmonic mean of the img/s of {}; the first line of each epoch is left out ({})",
                  counted(count, "log line"), counted(first, "epoch")));
  importer.note("torchvision's img/s leave out the loading of data: its clock starts once a batch has come");
  if (loss) {
    record["tenants"] = json::array({{{"tenant_index", 0},
                                      {"nodes", record["nodes"]},
                                      {"images_per_second", record["images_per_second"]},
                                      {"loss_last", *loss}}});
  }
  importer.add(record, lines.position());
}

}  // namespace virtrain::results
