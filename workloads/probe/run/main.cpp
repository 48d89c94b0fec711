#include <algorithm>

#include "workloads/common/run_program.h"
#include "workloads/probe/flags.h"
#include "workloads/probe/run/run.h"

namespace {

using namespace virtrain;
using namespace virtrain::probe;

/// Probes of one process wait for its GPU, all others for other ranks.
std::string words_of_a_stall(const Flags& flags) {
  if (std::none_of(flags.probes.begin(), flags.probes.end(), is_gpu_probe)) {
    return stall_words(flags.stall_seconds);
  }
  return "nothing came of it for " + std::to_string(flags.stall_seconds) +
         " s: the GPU may be broken or gone (nvidia-smi and the kernel's log say so), or it is too slow for "
         "so much (then --stall_seconds gives it longer)";
}

int measure_and_report(const Flags& flags) {
  Watchdog watchdog(std::chrono::seconds(flags.stall_seconds), [&](const std::string& doing) {
    report_failure(executable, doing, words_of_a_stall(flags));
  });
  watchdog.expect("join the other ranks");
  const std::unique_ptr<Peers> peers = join_peers();
  const std::int64_t wrong = run(flags, *peers, watchdog);
  watchdog.expect("leave the other ranks");
  if (wrong == 0) { return 0; }
  if (peers->rank() == 0) {
    report_failure(executable, "check the data",
                   std::to_string(wrong) + " elements were wrong; the figures do not count");
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_program(
      executable, "start", [&] { return parse_flags(argc, argv); }, measure_and_report);
}
