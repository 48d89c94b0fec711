#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>

#include "common/enum_text.h"

namespace virtrain::stress {

VIRTRAIN_ENUM_CLASS(Kind, cpu, llc, membw, disk, net, gemm, power, l2, h2d, d2h, allreduce)

/// Command-line options of virtrain-stress.
struct Flags {
  Kind kind = Kind::cpu;
  double share = 1;                               ///< of the time
  std::optional<std::uint64_t> bytes_per_second;  ///< of the others, of all threads together
  int threads = 0;          ///< 0: cores it may run on (cpu, llc, membw), one (disk, net)
  std::uint64_t bytes = 0;  ///< working set of all threads (llc, membw), file size (disk), vector of each
                            ///< rank (allreduce), rounded down to whole elements; 0: the kind's own
  double seconds = 0;       ///< 0: until "stop" or the end of standard input
  /// CUDA's number of it; of membw: the GPU's memory instead of the host's; of allreduce: NCCL instead of
  /// MPI, and the first rank's GPU
  std::optional<int> gpu;
  /// Time after which a load on a GPU or on ranks fails, where a piece or a sum gets no further.
  int stall_seconds = 600;
  std::string file;       ///< of disk
  std::string serial;     ///< of disk: the number of a whole disk, in place of a file
  std::string peer_host;  ///< of net, sending
  std::string peer_port;
  std::optional<int> listen_port;  ///< of net, receiving; 0: any
};

/// Whether a GPU is loaded: gemm, power, l2, h2d, d2h, and membw where a GPU is named.
bool loads_gpu(const Flags& flags);

/// Flags, or the help text if it was asked for.
struct ParsedFlags {
  Flags flags;
  std::optional<std::string> help;
};

/// Throws Error(usage) for unknown, out-of-range or contradictory flags, with what is allowed.
ParsedFlags parse_flags(int argc, const char* const* argv);

nlohmann::json to_json(const Flags& flags);

}  // namespace virtrain::stress
