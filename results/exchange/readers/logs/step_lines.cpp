// The lines are those of tensorflow/benchmarks (benchmark_cnn.py), horovod
// (examples/*_synthetic_benchmark.py), pytorch/vision (references/classification/utils.py),
// pytorch/torchtitan (components/metrics.py) and NVIDIA/Megatron-LM (megatron/training/training.py,
// training_log).
#include "results/exchange/readers/logs/step_lines.h"

#include <algorithm>
#include <array>

#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "results/exchange/readers/rank_tag.h"

namespace virtrain::results {
namespace {

constexpr std::array line_formats = {
    LineFormatFacts{LineFormat::tf_cnn_benchmarks, "images/s", FigureScope::job},
    LineFormatFacts{LineFormat::horovod, "images/s", FigureScope::each_rank},
    LineFormatFacts{LineFormat::torchvision, "images/s", FigureScope::each_rank},
    LineFormatFacts{LineFormat::torchtitan, "tokens/s", FigureScope::each_rank},
    LineFormatFacts{LineFormat::megatron, "samples/s", FigureScope::job},
    LineFormatFacts{LineFormat::jsonl, nullptr, FigureScope::job},
    LineFormatFacts{LineFormat::mllog, nullptr, FigureScope::job},
    LineFormatFacts{LineFormat::nccl_tests, "B/s", FigureScope::job},
};

/// Above zero; commas between thousands are passed over.
std::optional<double> speed_of(std::optional<std::string_view> word) {
  const auto value = parse_grouped_number(word.value_or(""));
  return value && *value > 0 ? value : std::nullopt;
}

StepReading read_speed(std::string_view word, StepLine step = {}) {
  const auto speed = speed_of(word);
  if (!speed) { return {step, excerpt(word)}; }
  step.speed = *speed;
  return {step};
}

/// Without what colours a terminal: "ESC[31m".
std::string without_colours(std::string_view line) {
  std::string plain;
  while (!line.empty()) {
    if (line.starts_with("\x1b[")) {
      const auto end = line.find('m');
      line.remove_prefix(end == line.npos ? line.size() : end + 1);
    } else {
      plain += line[0];
      line.remove_prefix(1);
    }
  }
  return plain;
}

/// "10<tab>images/sec: 204.8 +/- 0.1 (jitter = 0.6)<tab>9.228"
std::optional<StepReading> tf_cnn_line(std::string_view line) {
  constexpr std::string_view label = "\timages/sec:";
  const auto at = line.find(label);
  const auto step = at == line.npos ? std::nullopt : parse_integer(trim(line.substr(0, at)));
  if (!step || *step < 1) { return std::nullopt; }
  const auto words = words_of(line.substr(at + label.size()));
  if (words.empty()) { return std::nullopt; }
  const bool is_mean = words.size() > 1 && words[1] == "+/-";
  return read_speed(words[0], {0, is_mean, static_cast<double>(*step)});
}

/// "Iter #0: 100.0 img/sec per GPU"
std::optional<StepReading> horovod_line(std::string_view line) {
  line = trim(line);
  if (!line.starts_with("Iter #")) { return std::nullopt; }
  const auto words = words_of(line.substr(std::min(line.size(), line.find(':') + 1)));
  return words.empty() ? std::nullopt : std::optional(read_speed(words[0]));
}

/// "Epoch: [0]  [  10/5005]  eta: …  lr: 0.1  img/s: 350.1  loss: 6.9 …"
std::optional<StepReading> torchvision_line(std::string_view line) {
  const auto speed = line.starts_with("Epoch: [") ? word_behind(line, "img/s") : std::nullopt;
  return speed ? std::optional(read_speed(*speed)) : std::nullopt;
}

/// "[titan] … step: 80  loss:  7.9  grad_norm: …  tps: 57,729  tflops: 78.76  mfu: 7.96%"; a validation's
/// line has other words for its step.
std::optional<StepReading> torchtitan_line(std::string_view line) {
  const auto plain = without_colours(line);
  const auto step = word_behind(plain, "step");
  const auto speed = word_behind(plain, "tps");
  const bool is_training = word_behind(plain, "mfu").has_value() && plain.find("valid") == std::string::npos;
  if (!step || !speed || !is_training) { return std::nullopt; }
  return read_speed(*speed);
}

/// "iteration 50/ 5000 | consumed samples: 51200 | elapsed time per iteration (ms): 61674.3 | … | global
/// batch size: 1024 | …": its words for throughput have changed with versions, its times have not.
std::optional<StepReading> megatron_line(std::string_view line) {
  if (line.find("iteration ") == line.npos) { return std::nullopt; }
  const auto time = word_behind(line, "elapsed time per iteration (ms)");
  const auto batch = speed_of(word_behind(line, "global batch size"));
  if (!time || !batch) { return std::nullopt; }
  auto read = read_speed(*time, {0, false, {}, speed_of(word_behind(line, "consumed samples"))});
  constexpr double ms_per_second = 1000;
  if (read.misread.empty()) { read.step.speed = *batch / read.step.speed * ms_per_second; }
  return read;
}

/// {"throughput": 1234.5, "work": 100000}
std::optional<StepReading> json_line(std::string_view line) {
  constexpr JsonLimits limits{.bytes = 4096, .depth = 8, .values = 1000};
  line = trim(line);
  constexpr std::string_view name_of_speed = "\"throughput\":";
  if (!line.starts_with('{')) { return std::nullopt; }
  const auto object = parse_json_or_null(line, limits);
  const auto number = [&](const char* name) -> std::optional<double> {
    const auto found = object.find(name);
    if (found == object.end() || !found->is_number()) { return std::nullopt; }
    const auto value = found->get<double>();
    return value > 0 && value < 9e300 ? std::optional(value) : std::nullopt;
  };
  const auto speed = object.is_object() ? number("throughput") : std::nullopt;
  if (speed) { return StepReading{{*speed, false, {}, number("work")}}; }
  // Python writes NaN and Infinity, which JSON does not have.
  const auto at = line.find(name_of_speed);
  const bool has_speed = at != line.npos && (object.is_null() || object.contains("throughput"));
  if (!has_speed) { return std::nullopt; }
  auto word = trim(line.substr(at + name_of_speed.size()));
  word = word.substr(0, word.find_first_of(",} "));
  return word.empty() ? std::nullopt : std::optional(StepReading{{}, excerpt(word)});
}

}  // namespace

const LineFormatFacts& facts_of(LineFormat format) {
  return *std::ranges::find(line_formats, format, &LineFormatFacts::format);
}

std::optional<StepReading> read_step(LineFormat format, std::string_view line) {
  line = without_rank_tag(line);
  switch (format) {
    case LineFormat::tf_cnn_benchmarks:
      return tf_cnn_line(line);
    case LineFormat::horovod:
      return horovod_line(line);
    case LineFormat::torchvision:
      return torchvision_line(line);
    case LineFormat::torchtitan:
      return torchtitan_line(line);
    case LineFormat::megatron:
      return megatron_line(line);
    case LineFormat::jsonl:
      return json_line(line);
    case LineFormat::mllog:       // its rates need the lines before: MllogRates
    case LineFormat::nccl_tests:  // its figures need the whole table: read_nccl_output()
      break;
  }
  return std::nullopt;
}

std::optional<StepLine> step_line(LineFormat format, std::string_view line) {
  const auto read = read_step(format, line);
  return read && read->misread.empty() ? std::optional(read->step) : std::nullopt;
}

std::optional<std::string_view> word_behind(std::string_view line, std::string_view name) {
  for (auto at = line.find(name); at != line.npos; at = line.find(name, at + 1)) {
    const bool begins = at == 0 || line[at - 1] == ' ';
    const auto rest = line.substr(at + name.size());
    if (!begins || !rest.starts_with(": ")) { continue; }
    const auto words = words_of(rest.substr(2, 64));
    if (!words.empty()) { return words[0]; }
  }
  return std::nullopt;
}

}  // namespace virtrain::results
