#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/model/precision.h"

namespace virtrain::resnet50 {

using virtrain::Precision;

VIRTRAIN_ENUM_CLASS(OutputFormat, json, tf_cnn_benchmarks)

/// What a run of the trainer is told; the same flags for every backend.
struct Flags {
  int batch_size = 32;  ///< per rank and micro-batch
  int num_batches = 100;
  int num_warmup_batches = 2;
  int num_later_batches = 0;
  int display_every = 1;
  Precision precision = Precision::fp32;
  int image_size = 224;
  int num_classes = 1000;
  std::uint64_t seed = 1;
  int accumulate_steps = 1;
  double residual_gamma = 1;
  double learning_rate = 0.01;
  int num_threads = 0;  ///< 0: as many as the affinity mask has cores
  int bucket_mib = 25;
  int steady_seconds = 0;   ///< the warm-up goes on for at most so long after its steps, until all is level
  int stall_seconds = 600;  ///< without progress for so long, the run ends with an error
  OutputFormat format = OutputFormat::json;
  std::string dump;                 ///< empty: none
  std::string trace;                ///< empty: none
  std::string fusion = "auto";      ///< a level of Backend::fusions, or the fastest
  std::string profile_step;         ///< empty: none
  bool shared_gpu = false;          ///< though others compute on it
  bool register_gradients = false;  ///< in memory of NCCL's
};

/// What a backend can do, for refusals and help.
struct Backend {
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
ParsedFlags parse_flags(int argc, const char* const* argv, const Backend& backend);

/// All flags by their names, for the record "hello".
nlohmann::json to_json(const Flags& flags);

}  // namespace virtrain::resnet50
