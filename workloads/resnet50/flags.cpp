#include "workloads/resnet50/flags.h"

#include "common/error.h"
#include "common/text.h"
#include "workloads/resnet50/model.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <map>

namespace virtrain::resnet50 {
namespace {

constexpr const char* operation = "parse flags";

Error usage(const std::string& message) {
  return Error(operation, ErrorCode::usage, message);
}

std::string allowed_precisions(const Backend& backend) {
  std::vector<std::string> names;
  for (const Precision precision : backend.precisions) names.emplace_back(to_string(precision));
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

void check_combinations(const Flags& flags) {
  if (!flags.dump.empty() && (flags.num_batches != 1 || flags.num_warmup_batches != 0)) {
    throw usage(
        "--dump describes one step from the initial parameters (allowed with it: --num_batches=1 "
        "--num_warmup_batches=0)");
  }
  if (flags.dump.size() > 1024) throw usage("--dump: the path is longer than 1024 bytes");
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

}  // namespace

const char* to_string(Precision precision) {
  switch (precision) {
    case Precision::fp32:
      return "fp32";
    case Precision::bf16:
      return "bf16";
    case Precision::fp16:
      return "fp16";
  }
  return "?";
}

const char* to_string(OutputFormat format) {
  return format == OutputFormat::json ? "json" : "tf_cnn_benchmarks";
}

ParsedFlags parse_flags(int argc, const char* const* argv, const Backend& backend) {
  ParsedFlags parsed;
  Flags& flags = parsed.flags;
  bool use_fp16 = false;
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
  const std::map<std::string, Precision> precisions{
      {"fp32", Precision::fp32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}};
  const std::map<std::string, OutputFormat> formats{{"json", OutputFormat::json},
                                                    {"tf_cnn_benchmarks", OutputFormat::tf_cnn_benchmarks}};
  std::string precision = "fp32";
  std::string format = "json";
  app.add_option("--batch_size", flags.batch_size, "Images per rank and micro-batch")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--num_batches", flags.num_batches, "Counted steps")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--num_warmup_batches", flags.num_warmup_batches, "Steps before the counted ones")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option("--display_every", flags.display_every, "Counted steps per sample")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  CLI::Option* precision_option =
      app.add_option("--precision", precision,
                     "Of activations and convolutions; " + allowed_precisions(backend))
          ->check(CLI::IsMember({"fp32", "bf16", "fp16"}))
          ->capture_default_str();
  app.add_flag("--use_fp16", use_fp16, "Same as --precision fp16");
  app.add_option("--image_size", flags.image_size, "Height and width of an image")
      ->check(CLI::Range(32, 1024))
      ->capture_default_str();
  app.add_option("--num_classes", flags.num_classes, "Outputs of the last layer")
      ->check(CLI::Range(2, 100'000))
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Of parameters and data")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--accumulate_steps", flags.accumulate_steps, "Micro-batches per step")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--residual_gamma", flags.residual_gamma, "Initial scale of the last norm of each block")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--learning_rate", flags.learning_rate, "Of SGD with momentum 0.9, weight decay 1e-4")
      ->check(CLI::Range(0.0, 10.0))
      ->capture_default_str();
  app.add_option("--num_threads", flags.num_threads, "Threads of this rank (default: cores it may run on)")
      ->check(CLI::Range(1, 1024));
  app.add_option("--bucket_mib", flags.bucket_mib, "Gradients that one all-reduce carries, in MiB")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--format", format, "json, or tf_cnn_benchmarks' table (which waits for no 'go')")
      ->check(CLI::IsMember({"json", "tf_cnn_benchmarks"}))
      ->capture_default_str();
  app.add_option("--dump", flags.dump, "Write the first step to this safetensors file, for a reference");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.help = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    throw usage(std::string(error.what()) + " (--help lists what is allowed)");
  }
  flags.precision = precisions.at(precision);
  flags.format = formats.at(format);
  check_precision(flags, use_fp16, precision_option->count() > 0, backend);
  if (use_fp16) flags.precision = Precision::fp16;
  check_combinations(flags);
  return parsed;
}

nlohmann::json to_json(const Flags& flags) {
  return {{"batch_size", flags.batch_size},
          {"num_batches", flags.num_batches},
          {"num_warmup_batches", flags.num_warmup_batches},
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
          {"format", to_string(flags.format)},
          {"dump", flags.dump.empty() ? nlohmann::json(nullptr) : nlohmann::json(flags.dump)}};
}

}  // namespace virtrain::resnet50
