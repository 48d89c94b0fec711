#pragma once

#include <cstdio>
#include <exception>
#include <string>

#include "workloads/common/program.h"

namespace virtrain {

/// main() of a workload: `parse` gives {help, flags}, `run` takes the flags and gives the exit status. Help
/// is printed; a failure, and SIGTERM, becomes a line on stderr, the record "error" (`operation`, where the
/// failure names none) and its exit status.
template <typename Parse, typename Run>
int run_program(const std::string& executable, const std::string& operation, Parse&& parse, Run&& run) {
  // NCCL and others write there as well; half a line of theirs in a buffer would take a record with it.
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  try {
    const auto parsed = parse();
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return 0;
    }
    report_termination(executable);
    return run(parsed.flags);
  } catch (const std::exception&) { return report_current_failure(executable, operation); }
}

}  // namespace virtrain
