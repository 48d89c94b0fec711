#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace virtrain::probe {

enum class OutputFormat { table, jsonl };

/// What one process measures alone, and what needs ranks.
inline const std::vector<std::string> single_probes{"triad", "memory_copy", "gemm"};
inline const std::vector<std::string> rank_probes{"all_reduce", "all_gather", "broadcast", "round_trip"};

/// What a run of virtrain-probe is told.
struct Flags {
  std::vector<std::string> probes;  ///< empty: all that this number of ranks can measure
  std::uint64_t min_bytes = 8;
  std::uint64_t max_bytes = 64ULL << 20;
  std::int64_t factor = 2;  ///< from one size of a sweep to the next
  int iterations = 20;
  int warmup_iterations = 5;
  int threads = 0;          ///< 0: as many as the affinity mask has cores
  std::uint64_t bytes = 0;  ///< of one array of triad and memory_copy; 0: 4 times the last-level cache
  int repetitions = 10;     ///< of triad, memory_copy and gemm: the best counts
  int gemm_size = 2048;     ///< rows and columns of each matrix
  std::string transport;    ///< kept with every figure of ranks; empty: not known
  OutputFormat format = OutputFormat::table;
};

/// Flags, or the help text if it was asked for.
struct ParsedFlags {
  Flags flags;
  std::optional<std::string> help;
};

/// Throws Error(usage) for unknown, out-of-range or contradictory flags, with what is allowed.
ParsedFlags parse_flags(int argc, const char* const* argv);

/// The probes to measure with so many ranks. Throws Error(usage) where one needs fewer or more of them.
std::vector<std::string> chosen_probes(const Flags& flags, int ranks);

/// Sizes of a sweep: min_bytes, times factor each, up to max_bytes.
std::vector<std::uint64_t> sweep_sizes(const Flags& flags);

nlohmann::json to_json(const Flags& flags);

}  // namespace virtrain::probe
