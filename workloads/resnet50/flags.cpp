#include "workloads/resnet50/flags.h"

#include <CLI/CLI.hpp>

#include <algorithm>

#include "common/error.h"
#include "common/text/text.h"
#include "workloads/common/command_line.h"
#include "workloads/common/described_options.h"

namespace virtrain::resnet50 {
namespace {

std::string allowed_precisions(const BackendAbility& backend) {
  std::vector<std::string> names;
  for (const Precision precision : backend.precisions) { names.emplace_back(to_string(precision)); }
  return "allowed on this " + backend.name + ": --precision " + join(names, "|");
}

void check_precision(const Flags& flags, bool use_fp16, bool precision_given, const BackendAbility& backend) {
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

void check_combinations(const Flags& flags) {
  if (!flags.dump.empty() &&
      (flags.steps != 1 || flags.warmup_steps != 0 || flags.later_steps.value_or(0) != 0)) {
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
  if (const auto refusal = normalization_refusal(flags, "--"); !refusal.empty()) { throw usage(refusal); }
}

/// Where the backend has levels of fusion, or takes steps apart; elsewhere the flags are there and allow
/// nothing.
void restrict_to_backend(CLI::App& app, const Flags& flags, const BackendAbility& backend) {
  std::vector<std::string> fusions = backend.fusions;
  fusions.insert(fusions.begin(), flags.fusion);
  app.get_option("--fusion")->check(CLI::IsMember(fusions));
  if (backend.on_gpu) { return; }
  for (const char* const name : {"--profile_step", "--shared_gpu", "--register_gradients"}) {
    CLI::Option* const option = app.get_option(name);
    option->description(option->get_description() + " (not by this backend)");
    option->check([](const std::string&) { return "only the GPU's trainer can do that"; });
  }
}

}  // namespace

ParsedFlags parse_flags(int argc, const char* const* argv, const BackendAbility& backend) {
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
  bool use_fp16 = false;
  add_options<Workload>(app, flags);
  add_options<Flags>(app, flags);
  app.add_flag("--use_fp16", use_fp16, "Same as --precision fp16");
  CLI::Option* const precision = app.get_option("--precision");
  precision->description(precision->get_description() + "; " + allowed_precisions(backend));
  CLI::Option* const threads = app.get_option("--num_threads");
  threads->description(threads->get_description() +
                       " (default: cores it may run on); the CUDA backend has none");
  restrict_to_backend(app, flags, backend);
  parsed.help = parse_command_line(app, argc, argv);
  if (parsed.help) { return parsed; }
  check_precision(flags, use_fp16, precision->count() > 0, backend);
  if (use_fp16) { flags.precision = Precision::fp16; }
  if (!flags.dump.empty() && app.get_option("--steady_seconds")->count() == 0) { flags.steady_seconds = 0; }
  check_combinations(flags);
  return parsed;
}

nlohmann::json to_json(const Flags& flags) {
  nlohmann::json out{{"use_fp16", flags.precision == Precision::fp16}};
  add_configuration<Workload>(flags, out);
  add_configuration<Flags>(flags, out);
  return out;
}

}  // namespace virtrain::resnet50
