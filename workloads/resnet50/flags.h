#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/model/workload.h"

namespace virtrain::resnet50 {

VIRTRAIN_ENUM_CLASS(OutputFormat, json, tf_cnn_benchmarks)

/// Options of a run of the trainer; the same flags for every backend. `backend` and `environment` are the
/// coordinator's: they have no flag.
struct Flags : Workload {
  Flags() {
    steps = 100;
    later_steps = 0;
    bucket_mib = 25;
  }
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, num_classes, 1000, .text = "Outputs of the last layer", .flag = "num_classes",
                 .least = 2, .most = 100'000);
  VIRTRAIN_FIELD(double, residual_gamma, 1, .text = "Initial scale of the last norm of each block",
                 .flag = "residual_gamma", .least = 0, .most = 10);
  VIRTRAIN_FIELD(
      std::int64_t, steady_seconds, 0,
      .text =
          "After the warm-up more such steps until step times, and a GPU's clocks and temperature, "
          "are steady, for at most this many seconds (0: none)",
      .flag = "steady_seconds", .least = 0, .most = 3600);
  VIRTRAIN_FIELD(std::int64_t, stall_seconds, 600,
                 .text = "Seconds without a finished step after which the run ends with an error",
                 .flag = "stall_seconds", .least = 1, .most = 86'400);
  VIRTRAIN_FIELD(
      std::string, fusion, "auto",
      .text =
          "How much is computed inside the convolutions; auto: each level that is possible is timed "
          "once, and the fastest is kept; remembered: what an earlier run has kept, else as highest; "
          "highest: "
          "the first that runs, whatever its time",
      .flag = "fusion");
  VIRTRAIN_FIELD(
      std::string, profile_step, "",
      .text =
          "Before the run, time each operation of a step alone and write them to this file, a JSON "
          "object a line",
      .flag = "profile_step");
  VIRTRAIN_FIELD(bool, shared_gpu, false, .text = "Train although others compute on the GPU",
                 .flag = "shared_gpu");
  VIRTRAIN_FIELD(bool, register_gradients, false,
                 .text =
                     "Several ranks: gradients lie in memory that NCCL has allocated and registered, to be "
                     "measured",
                 .flag = "register_gradients");
  VIRTRAIN_FIELD(OutputFormat, format, OutputFormat::json,
                 .text = "json, or tf_cnn_benchmarks' table (which waits for no 'go')", .flag = "format");
  VIRTRAIN_FIELD(std::string, dump, "",
                 .text = "Write the first step to this safetensors file, for a reference", .flag = "dump");
  VIRTRAIN_FIELD(
      std::string, trace, "",
      .text =
          "Write when each rank computed and communicated in its first counted steps to this file, "
          "in Chrome's trace format (with several ranks: FILE.json becomes FILE.RANK.json)",
      .flag = "trace");
};

/// Abilities of a backend, for refusals and help.
struct BackendAbility {
  std::string executable;                 ///< "virtrain-resnet50-cpu"
  std::string name;                       ///< "CPU"
  std::vector<Precision> precisions;      ///< that this machine can run
  int steady_seconds = 0;                 ///< default of --steady_seconds
  std::vector<std::string> fusions = {};  ///< levels of fusion to choose from; empty: there is no choice
  bool on_gpu = false;  ///< can share it (--shared_gpu) and take a step apart (--profile_step)
};

/// Flags, or the help text if it was asked for.
struct ParsedFlags {
  Flags flags;
  std::optional<std::string> help;
};

/// Throws Error(usage) for unknown, out-of-range, contradictory or impossible flags, with what is allowed.
ParsedFlags parse_flags(int argc, const char* const* argv, const BackendAbility& backend);

/// All flags by their names, for the record "hello".
nlohmann::json to_json(const Flags& flags);

}  // namespace virtrain::resnet50
