#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace virtrain {

/// Cores this process may run on.
std::vector<int> allowed_cpus();
/// Cpus_allowed_list of /proc/self/status, as the kernel writes it.
std::string allowed_cpus_text();
/// "AMD EPYC": model name in /proc/cpuinfo.
std::string cpu_model();

/// Where the threads of one rank run.
struct ThreadPlacement {
  int threads = 1;
  std::vector<int> cpus;  ///< one per thread; empty: not pinned, because they are not as many as our cores
};

/// Divides `cpus` among the `sharers` ranks of this host that have the very same mask; `index` is ours among
/// them. `requested` threads, or 0 for as many as this rank's share has cores.
ThreadPlacement place_threads(const std::vector<int>& cpus, int sharers, int index, int requested);

/// Sets OpenMP's number of threads and pins each thread of its pool.
void apply(const ThreadPlacement& placement);

/// Last-level caches that these CPUs have, each counted once, in bytes; 32 MiB if the kernel does not say.
/// `root` is "/" except in tests.
std::uint64_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& root = "/");

/// Memory that can be had without swapping (MemAvailable), bounded by this process's own limit.
std::uint64_t available_memory_bytes();

}  // namespace virtrain
