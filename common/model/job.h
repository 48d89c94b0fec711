#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/enum_text.h"
#include "common/model/described.h"

// A job that virtrain did not make: how it is started, and which of its lines tell how fast it is.
namespace virtrain {

VIRTRAIN_ENUM_CLASS(JobLaunch, once, per_node, mpirun, torchrun)

/// Whose work one of a job's figures counts: of each_rank, one says it for all.
VIRTRAIN_ENUM_CLASS(FigureScope, job, node, rank, each_rank)

/// Programs whose lines virtrain knows, also where it imports them.
VIRTRAIN_ENUM_CLASS(LineFormat, tf_cnn_benchmarks, horovod, torchvision, torchtitan, megatron, jsonl, mllog,
                    nccl_tests)

/// Whether it is "tokens/s": what is counted, and "/s".
inline bool is_rate_unit(const std::string& text) {
  constexpr std::string_view end = "/s";
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!text.ends_with(end) || text.size() < 3 || text.size() > 32 || !is_letter(text[0])) { return false; }
  for (const char c : std::string_view(text).substr(0, text.size() - end.size())) {
    if (!is_letter(c) && (c < '0' || c > '9') && c != '_') { return false; }
  }
  return true;
}

/// Which lines of a job's output say its throughput.
struct JobThroughput {
  bool operator==(const JobThroughput&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, pattern, {},
                 .text =
                     "RE2 pattern of a line that says the throughput since the line before, as "
                     "(?P<value>...)",
                 .key = "pattern", .most = 1000, .absent = "the lines have a format that virtrain knows",
                 .example = R"(tok/s: (?P<value>[\d.]+))");
  VIRTRAIN_FIELD(std::optional<LineFormat>, format, {},
                 .text = "Program whose lines say the throughput, in place of a pattern", .key = "format",
                 .absent = "a pattern says which lines do", .example = "tf_cnn_benchmarks");
  VIRTRAIN_FIELD(std::string, example, {}, .text = "Line that the pattern matches, which is tried",
                 .key = "example", .most = 4096, .absent = "there is no pattern",
                 .example = "step 10 tok/s: 1234.5");
  VIRTRAIN_FIELD(std::string, unit, {}, .text = "What is counted a second", .key = "unit", .most = 32,
                 .pattern = "^[A-Za-z][A-Za-z0-9_]{0,29}/s$", .fits = is_rate_unit,
                 .refusal =
                     "is not a unit of a throughput (allowed: what is counted, and /s: tokens/s, "
                     "samples/s, images/s, steps/s, B/s)",
                 .absent = "the format says it", .example = "tokens/s");
  VIRTRAIN_FIELD(
      std::optional<FigureScope>, scope, {},
      .text =
          "Whose work a figure counts: the whole job's, that of the node or rank that says it, all of "
          "which are added, or that of each rank, of which one says it for all",
      .key = "scope", .absent = "as the format has it; with a pattern: job", .example = "job");
  VIRTRAIN_FIELD(std::int64_t, skip, 0,
                 .text = "Figures at the start, of each node or rank that says any, that do not count",
                 .key = "skip", .least = 0, .most = 1'000'000);
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, size, {},
                 .text = "With format nccl-tests: size of the row whose bus bandwidth decides", .key = "size",
                 .least = 1, .most = std::int64_t{1} << 50, .unit = ValueUnit::bytes,
                 .absent = "the largest in the table", .example = "128MiB");
};

/// Whether it is the unit of a figure: "%", "s", "TFLOP/s".
inline bool is_figure_unit(const std::string& text) {
  constexpr std::size_t longest = 32;
  if (text.empty() || text.size() > longest) { return false; }
  for (const char c : text) {
    if (c <= ' ' || c > '~') { return false; }
  }
  return true;
}

/// Whether it names a figure: "mfu".
inline bool is_figure_name(const std::string& text) {
  constexpr std::size_t longest = 64;
  if (text.empty() || text.size() > longest || text[0] < 'a' || text[0] > 'z') { return false; }
  for (const char c : text) {
    if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') { return false; }
  }
  return text != "throughput";
}

/// Which lines of a job's output say a figure other than its throughput.
struct JobFigureLines {
  bool operator==(const JobFigureLines&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Name of the figure", .key = "name", .most = 64,
                 .required = true, .pattern = "^[a-z][a-z0-9_]{0,63}$", .fits = is_figure_name,
                 .refusal = "is not a name of a figure (allowed: [a-z][a-z0-9_]*, and not throughput)",
                 .example = "mfu");
  VIRTRAIN_FIELD(std::string, pattern, {},
                 .text =
                     "RE2 pattern of a line that says the figure as (?P<value>...); other named groups are "
                     "settings that tell figures of this name apart, such as (?P<size_bytes>...)",
                 .key = "pattern", .most = 1000, .required = true, .example = R"(mfu: (?P<value>[\d.]+)%)");
  VIRTRAIN_FIELD(std::string, example, {}, .text = "Line that the pattern matches, which is tried",
                 .key = "example", .most = 4096, .required = true, .example = "step 10 mfu: 41.2%");
  VIRTRAIN_FIELD(
      std::string, unit, {}, .text = "Unit of the value", .key = "unit", .most = 32, .required = true,
      .pattern = "^[!-~]{1,32}$", .fits = is_figure_unit,
      .refusal = "is not a unit (allowed: 1 to 32 characters of ASCII without blanks: %, s, TFLOP/s)",
      .example = "%");
  VIRTRAIN_FIELD(FigureScope, scope, FigureScope::job,
                 .text =
                     "Whose figure it is: the whole job's, and then the first node or rank that says it "
                     "counts, or that of "
                     "each node or rank",
                 .key = "scope");
  VIRTRAIN_FIELD(std::int64_t, skip, 0,
                 .text = "Figures at the start, of each node or rank that says any, that do not count",
                 .key = "skip", .least = 0, .most = 1'000'000);
};

/// A command that runs in place of the built-in trainer.
struct Job {
  bool operator==(const Job&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(
      std::vector<std::string>, command, {},
      .text =
          "Words of a command to run in place of the built-in trainer; {batch_size} and other keys "
          "of workload in braces become their values, as do {nodes}, {ranks} and {ranks_per_node}",
      .key = "command", .most = 4096, .most_items = 256, .repeats = true,
      .absent = "the built-in trainer runs",
      .example = R"(["python3", "train.py", "--batch_size={batch_size}"])", .guard = FactRule::must_be_equal,
      .why = "another command is another workload");
  VIRTRAIN_FIELD(
      JobLaunch, launch, JobLaunch::once,
      .text =
          "Where the command starts: once in the first node, once in each node, as a rank of mpirun, "
          "or once in each node with torchrun's settings in its environment",
      .key = "launch", .guard = FactRule::must_be_equal,
      .why = "it decides how many processes work, and where");
  VIRTRAIN_FIELD(
      std::string, payload, {},
      .text =
          "Squashfs image with the root file system that the command runs in (virtrain payload make), at the "
          "same path on each host; from the scenario's folder on, or absolute",
      .key = "payload", .most = 4096, .absent = "the command runs in the node's own files",
      .example = "env.sqfs");
  VIRTRAIN_FIELD(JobThroughput, throughput, {}, .text = "Lines of the command that say how fast it is",
                 .key = "throughput", .absent = "the built-in trainer says it by itself",
                 .guard = FactRule::must_be_equal,
                 .why = "figures that are read in other ways are other figures");
  VIRTRAIN_FIELD(
      std::vector<JobFigureLines>, figures, {},
      .text =
          "Lines of the command that say more than its throughput, which alone decides: each figure "
          "is stored with its unit and shown",
      .key = "figures", .most_items = 64, .absent = "the command has no figure but its throughput",
      .example =
          R"([{"name": "mfu", "pattern": "mfu: (?P<value>[0-9.]+)%", "example": "mfu: 41.2%", "unit": "%"}])",
      .guard = FactRule::must_be_equal, .why = "figures that are read in other ways are other figures");
};

}  // namespace virtrain
