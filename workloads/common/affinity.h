#pragma once

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

}  // namespace virtrain
