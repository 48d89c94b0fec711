#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"

namespace virtrain::probe {

VIRTRAIN_ENUM_CLASS(Collective, all_reduce, all_gather, broadcast)

enum class OutputFormat { table, jsonl };

/// Probes of one process, and probes that need ranks.
inline const std::vector<std::string> single_probes{"triad", "memory_copy", "gemm"};
/// Probes of the model in one process, where they are asked for by name.
inline const std::vector<std::string> model_probes{"convolutions"};
/// Probes of a GPU in one process, where they are asked for by name.
inline const std::vector<std::string> gpu_probes{"gpu_gemm", "device_copy", "host_to_device",
                                                 "device_to_host", "peer_copy"};
/// Probes of any number of ranks with a GPU each, where they are asked for by name.
inline const std::vector<std::string> nccl_probes{"nccl_all_reduce", "nccl_all_gather", "nccl_broadcast"};
inline const std::vector<std::string> rank_probes{"all_reduce", "all_gather", "broadcast", "round_trip"};

/// Command-line options of virtrain-probe.
struct Flags {
  std::vector<std::string> probes;  ///< empty: all that this number of ranks can measure
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 64ULL << 20;
  std::int64_t factor = 2;  ///< from one size of a sweep to the next
  int iterations = 20;
  int warmup_iterations = 5;
  int threads = 0;          ///< 0: as many as the affinity mask has cores
  std::uint64_t bytes = 0;  ///< of one array or copy; 0: see --help
  int repetitions = 10;     ///< of what one process measures: the best counts
  int gemm_size = 0;        ///< rows and columns of each matrix; 0: 2048, of a GPU 4096
  int batch_size = 16;      ///< of convolutions
  int image_size = 224;     ///< likewise: height and width
  int gpu = 0;              ///< CUDA's number of it; of several ranks on a host, the first rank's
  int stall_seconds = 600;  ///< ranks, or a probe of a GPU, that get no further for so long: an error
  std::string transport;    ///< kept with every figure of ranks; empty: not known
  OutputFormat format = OutputFormat::table;
  std::vector<std::string> given;  ///< of the command line: "--gemm_size"
};

/// Flags, or the help text if it was asked for.
struct ParsedFlags {
  Flags flags;
  std::optional<std::string> help;
};

/// Throws Error(usage) for unknown, out-of-range or contradictory flags, with what is allowed.
ParsedFlags parse_flags(int argc, const char* const* argv);

/// The probes to measure with so many ranks. Throws Error(usage) where one needs fewer or more of them, or
/// where a flag was given that none of them reads.
std::vector<std::string> chosen_probes(const Flags& flags, int ranks);

/// Whether it is one of gpu_probes.
bool is_gpu_probe(const std::string& name);

/// The collective of one of nccl_probes; nothing for other names.
std::optional<Collective> nccl_collective(const std::string& name);

/// Sizes of a sweep: min_bytes, times factor each, up to max_bytes.
std::vector<std::uint64_t> sweep_sizes(const Flags& flags);

nlohmann::json to_json(const Flags& flags);

}  // namespace virtrain::probe
