#include "workloads/common/affinity.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"

namespace virtrain {

std::vector<int> allowed_cpus() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof mask, &mask) != 0) { throw errno_error("read the affinity mask", errno); }
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) { cpus.push_back(cpu); }
  }
  return cpus;
}

std::string allowed_cpus_text() {
  return line_value(read_file("/proc/self/status").value_or(""), "Cpus_allowed_list");
}

std::string cpu_model() {
  return line_value(read_file("/proc/cpuinfo").value_or(""), "model name");
}

ThreadPlacement place_threads(const std::vector<int>& cpus, int sharers, int index, int requested) {
  const int count = static_cast<int>(cpus.size());
  const int share = std::max(1, count / sharers);
  ThreadPlacement placement;
  placement.threads = requested > 0 ? requested : share;
  const int first = index * share;
  // With fewer threads than cores the scheduler may choose: another job on these cores would pin to the same
  // ones.
  if (placement.threads == share && first + share <= count) {
    placement.cpus.assign(cpus.begin() + first, cpus.begin() + first + placement.threads);
  }
  return placement;
}

void apply(const ThreadPlacement& placement) {
  omp_set_dynamic(0);
  omp_set_num_threads(placement.threads);
  if (placement.cpus.empty()) { return; }
#pragma omp parallel
  {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(placement.cpus[static_cast<std::size_t>(omp_get_thread_num())], &mask);
    sched_setaffinity(0, sizeof mask, &mask);  // a mask that changed meanwhile costs speed, not correctness
  }
}

}  // namespace virtrain
