#include "workloads/resnet50/flags.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <type_traits>

#include "common/error.h"
#include "common/model/described.h"
#include "common/model/workload.h"
#include "common/text/described_json.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "workloads/common/program.h"

namespace virtrain::resnet50 {
namespace {

// The options, from the description of the record that they fill.

/// Refuses what lies outside a field's range, or is no number; CLI::Range has no objection to "nan".
CLI::Validator real_range(const Property& is) {
  const auto range = [is](const std::string& text) {
    const auto number = parse_number(text);
    const bool fits =
        number && *number >= static_cast<double>(is.least) && *number <= static_cast<double>(is.most);
    return fits ? std::string()
                : fmt::format("{} is not allowed (allowed: {} to {})", text, is.least, is.most);
  };
  return {range, fmt::format("FLOAT in [{} - {}]", is.least, is.most)};
}

/// CLI11 takes a number beyond 64 bits for the largest that they hold.
std::string seed_refusal(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, failure] = std::from_chars(text.data(), end, seed);
  return failure == std::errc() && rest == end ? ""
                                               : text + " is not a seed (allowed: 0 to 18446744073709551615)";
}

/// Adds the option of one field. The trainer takes any seed of 64 bits; a scenario's has to fit JSON.
template <typename Value>
void add_option(CLI::App& app, const Property& is, Value& into) {
  const std::string name = std::string("--") + is.flag;
  if constexpr (std::is_same_v<Value, bool>) {
    app.add_flag(name, into, is.text);
  } else if constexpr (DescribedEnum<Value>) {
    const auto keep = [&into](const std::string& word) { into = enum_of<Value>(word).value_or(into); };
    app.add_option_function<std::string>(name, keep, is.text)
        ->check(CLI::IsMember(enum_names<Value>()))
        ->default_str(to_string(into));
  } else {
    CLI::Option* const option = app.add_option(name, into, is.text)->default_str(value_text(into));
    if constexpr (std::is_same_v<Value, std::uint64_t>) {
      option->check(seed_refusal);
    } else if constexpr (std::is_same_v<Value, double>) {
      option->check(real_range(is));
    } else if constexpr (!std::is_same_v<Value, std::string>) {
      option->check(CLI::Range(is.least, is.most));
    }
  }
}

/// Adds an option for each field of the record that has a flag.
template <typename Record>
void add_options(CLI::App& app, Record& into) {
  for_each_field<Record>([&](const auto& field) {
    if constexpr (!std::is_same_v<decltype(field.member), Variables Record::*>) {
      if (field.is.flag != nullptr) { add_option(app, field.is, into.*field.member); }
    }
  });
}

/// Writes every flag with its value, for the record "hello".
template <typename Record>
void add_configuration(const Record& flags, nlohmann::json& out) {
  for_each_field<Record>([&](const auto& field) {
    if (field.is.flag == nullptr) { return; }
    const auto value = value_json(flags.*field.member);
    out[field.is.flag] = value == "" ? nlohmann::json() : value;
  });
}

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
