#include "workloads/common/run_program.h"
#include "workloads/probe/flags.h"
#include "workloads/probe/run.h"

namespace {

using namespace virtrain;
using namespace virtrain::probe;

int measure_and_report(const Flags& flags) {
  Watchdog watchdog(std::chrono::seconds(flags.stall_seconds), [&](const std::string& doing) {
    report_failure(executable, doing, stall_words(flags.stall_seconds));
  });
  watchdog.expect("join the other ranks");
  const std::unique_ptr<Peers> peers = join_peers();
  const std::int64_t wrong = run(flags, *peers, watchdog);
  watchdog.expect("leave the other ranks");
  if (wrong == 0) return 0;
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
