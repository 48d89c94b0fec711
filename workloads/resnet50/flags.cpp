#include "workloads/resnet50/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <utility>

#include "common/error.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "workloads/common/command_line.h"
#include "workloads/resnet50/model.h"

namespace virtrain::resnet50 {
namespace {

std::string allowed_precisions(const Backend& backend) {
  std::vector<std::string> names;
  for (const Precision precision : backend.precisions) { names.emplace_back(to_string(precision)); }
  return "allowed on this " + backend.name + ": --precision " + join(names, "|");
}

void check_precision(const Flags& flags, bool use_fp16, bool precision_given, const Backend& backend) {
  const auto possible = [&](Precision precision) {
    return std::find(backend.precisions.begin(), backend.precisions.end(), precision) !=
           backend.precisions.end();
  };
  if (use_fp16 && precision_given && flags.precision != Precision::fp16) {
    throw usage("--use_fp16 contradicts --precision " + std::string(to_string(flags.precision)));
  }
  const Precision wanted = use_fp16 ? Precision::fp16 : flags.precision;
  if (!possible(wanted)) {
    throw usage((use_fp16 ? "--use_fp16" : "--precision " + std::string(to_string(wanted))) +
                " is not possible here (" + allowed_precisions(backend) + ")");
  }
}

/// CLI11's range has no objection to what is neither less nor more than anything.
void check_numbers(const Flags& flags) {
  for (const auto& [name, value] : {std::pair("--learning_rate", flags.learning_rate),
                                    std::pair("--residual_gamma", flags.residual_gamma)}) {
    if (std::isnan(value)) { throw usage(std::string(name) + " is not a number (allowed: 0 to 10)"); }
  }
}

void check_combinations(const Flags& flags) {
  if (!flags.dump.empty() &&
      (flags.num_batches != 1 || flags.num_warmup_batches != 0 || flags.num_later_batches != 0)) {
    throw usage(
        "--dump describes one step from the initial parameters (allowed with it: --num_batches=1 "
        "--num_warmup_batches=0 --num_later_batches=0)");
  }
  if (!flags.dump.empty() && flags.steady_seconds != 0) {
    throw usage("--dump describes the very first step (allowed with it: --steady_seconds=0)");
  }
  // The record "hello" carries all of them, and no record has more than 4,096 bytes.
  if (flags.dump.size() + flags.trace.size() + flags.profile_step.size() > 1024) {
    throw usage("--dump, --trace, --profile_step: combined path length exceeds 1024 bytes");
  }
  if (!flags.dump.empty() && flags.accumulate_steps != 1) {
    throw usage("--dump holds one batch (allowed with it: --accumulate_steps=1)");
  }
  const int final_size = build_model(flags.image_size, flags.num_classes).final_size;
  if (flags.batch_size * final_size * final_size < 2) {
    throw usage("--batch_size 1 at --image_size " + std::to_string(flags.image_size) +
                " leaves one value to normalize in the last blocks (allowed: --batch_size 2 or more, or "
                "--image_size 33 or more)");
  }
}

template <typename Value>
std::map<std::string, Value> by_name(std::initializer_list<Value> values) {
  std::map<std::string, Value> names;
  for (const Value value : values) { names.emplace(to_string(value), value); }
  return names;
}

/// For CLI11 a number beyond 64 bits is the largest that they hold.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, seed);
  return failure == std::errc() && rest == end ? ""
                                               : text + " is not a seed (allowed: 0 to 18446744073709551615)";
}

void add_training_options(CLI::App& app, Flags& flags) {
  const auto add = [&app](const char* name, auto& value, const char* words, auto least, auto most) {
    app.add_option(name, value, words)->check(CLI::Range(least, most))->capture_default_str();
  };
  add("--batch_size", flags.batch_size, "Images per rank and micro-batch", 1, 4096);
  add("--num_batches", flags.num_batches, "Counted steps", 1, 1'000'000);
  add("--num_later_batches", flags.num_later_batches, "Steps after the counted ones, which count for nothing",
      0, 100'000);
  add("--num_warmup_batches", flags.num_warmup_batches, "Steps before the counted ones", 0, 100'000);
  add("--steady_seconds", flags.steady_seconds,
      "Then more such steps until step times, and a GPU's clocks and temperature, are steady, for at most "
      "this many seconds (0: none)",
      0, 3600);
  add("--display_every", flags.display_every, "Counted steps per sample", 1, 1'000'000);
  add("--image_size", flags.image_size, "Height and width of an image", 32, 1024);
  add("--num_classes", flags.num_classes, "Outputs of the last layer", 2, 100'000);
  app.add_option("--seed", flags.seed, "Of parameters and data")->check(check_seed)->capture_default_str();
  add("--accumulate_steps", flags.accumulate_steps, "Micro-batches per step", 1, 1024);
  add("--residual_gamma", flags.residual_gamma, "Initial scale of the last norm of each block", 0.0, 10.0);
  add("--learning_rate", flags.learning_rate, "Of SGD with momentum 0.9, weight decay 1e-4", 0.0, 10.0);
}

/// Where the backend has levels of fusion, or takes steps apart; elsewhere the flags are there and allow
/// nothing.
void add_backend_options(CLI::App& app, Flags& flags, const Backend& backend) {
  std::vector<std::string> fusions = backend.fusions;
  fusions.insert(fusions.begin(), flags.fusion);
  app.add_option(
         "--fusion", flags.fusion,
         "How much is computed inside the convolutions; auto: each level that is possible is timed once, and "
         "the fastest is kept; highest: the first that runs, whatever its time")
      ->check(CLI::IsMember(fusions))
      ->capture_default_str();
  const std::string elsewhere = backend.on_gpu ? "" : " (not by this backend)";
  CLI::Option* const profile = app.add_option(
      "--profile_step", flags.profile_step,
      "Before the run, time each operation of a step alone and write them to this file, a JSON "
      "object a line" +
          elsewhere);
  CLI::Option* const shared =
      app.add_flag("--shared_gpu", flags.shared_gpu, "Train although others compute on the GPU" + elsewhere);
  CLI::Option* const registered = app.add_flag(
      "--register_gradients", flags.register_gradients,
      "Several ranks: gradients lie in memory that NCCL has allocated and registered, to be measured" +
          elsewhere);
  if (backend.on_gpu) { return; }
  for (CLI::Option* const option : {profile, shared, registered}) {
    option->check([](const std::string&) { return "only the GPU's trainer can do that"; });
  }
}

void add_machine_options(CLI::App& app, Flags& flags) {
  app.add_option("--num_threads", flags.num_threads,
                 "Threads of this rank on the CPU (default: cores it may run on); the CUDA backend has none")
      ->check(CLI::Range(1, 1024));
  app.add_option("--bucket_mib", flags.bucket_mib, "Gradients that one all-reduce carries, in MiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--stall_seconds", flags.stall_seconds,
                 "Seconds without a finished step after which the run ends with an error")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
}

}  // namespace

ParsedFlags parse_flags(int argc, const char* const* argv, const Backend& backend) {
  ParsedFlags parsed;
  Flags& flags = parsed.flags;
  flags.steady_seconds = backend.steady_seconds;
  CLI::App app(
      "Trains ResNet-50 v1.5 on synthetic data and reports its speed as JSON lines.\n"
      "It prints 'hello' and 'ready', waits for the line 'go' on standard input, and trains.",
      backend.executable);
  app.footer(
      "Examples:\n  echo go | " + backend.executable +
      " --batch_size 16 --num_batches 10\n"
      "  mpirun -np 2 " +
      backend.executable + " --batch_size=16 --format tf_cnn_benchmarks\n  echo go | " + backend.executable +
      " --image_size 64 --batch_size 8 --num_batches 1 --num_warmup_batches 0 --dump step.safetensors");
  const auto precisions = by_name({Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16});
  const auto formats = by_name({OutputFormat::json, OutputFormat::tf_cnn_benchmarks});
  bool use_fp16 = false;
  std::string precision = to_string(flags.precision);
  std::string format = to_string(flags.format);
  add_training_options(app, flags);
  CLI::Option* precision_option =
      app.add_option("--precision", precision,
                     "Of activations and convolutions; " + allowed_precisions(backend))
          ->check(CLI::IsMember(precisions))
          ->capture_default_str();
  app.add_flag("--use_fp16", use_fp16, "Same as --precision fp16");
  add_machine_options(app, flags);
  add_backend_options(app, flags, backend);
  app.add_option("--format", format, "json, or tf_cnn_benchmarks' table (which waits for no 'go')")
      ->check(CLI::IsMember(formats))
      ->capture_default_str();
  const CLI::Option* dump =
      app.add_option("--dump", flags.dump, "Write the first step to this safetensors file, for a reference");
  app.add_option("--trace", flags.trace,
                 "Write when each rank computed and communicated in its first counted steps to this file, in "
                 "Chrome's trace format (with several ranks: FILE.json becomes FILE.RANK.json)");
  parsed.help = parse_command_line(app, argc, argv);
  if (parsed.help) { return parsed; }
  flags.precision = precisions.at(precision);
  flags.format = formats.at(format);
  check_precision(flags, use_fp16, precision_option->count() > 0, backend);
  if (use_fp16) { flags.precision = Precision::fp16; }
  if (dump->count() > 0 && app.get_option("--steady_seconds")->count() == 0) { flags.steady_seconds = 0; }
  check_numbers(flags);
  check_combinations(flags);
  return parsed;
}

nlohmann::json to_json(const Flags& flags) {
  return {{"batch_size", flags.batch_size},
          {"num_batches", flags.num_batches},
          {"num_warmup_batches", flags.num_warmup_batches},
          {"num_later_batches", flags.num_later_batches},
          {"display_every", flags.display_every},
          {"precision", to_string(flags.precision)},
          {"use_fp16", flags.precision == Precision::fp16},
          {"image_size", flags.image_size},
          {"num_classes", flags.num_classes},
          {"seed", flags.seed},
          {"accumulate_steps", flags.accumulate_steps},
          {"residual_gamma", flags.residual_gamma},
          {"learning_rate", flags.learning_rate},
          {"num_threads", flags.num_threads},
          {"bucket_mib", flags.bucket_mib},
          {"steady_seconds", flags.steady_seconds},
          {"stall_seconds", flags.stall_seconds},
          {"format", to_string(flags.format)},
          {"dump", text_or_null(flags.dump)},
          {"trace", text_or_null(flags.trace)},
          {"fusion", flags.fusion},
          {"profile_step", text_or_null(flags.profile_step)},
          {"shared_gpu", flags.shared_gpu},
          {"register_gradients", flags.register_gradients}};
}

}  // namespace virtrain::resnet50
