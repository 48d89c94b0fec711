#include "common/error.h"
#include "workloads/common/program.h"
#include "workloads/probe/flags.h"
#include "workloads/probe/run.h"

#include <cstdio>
#include <exception>

namespace {

using namespace virtrain;
using namespace virtrain::probe;

constexpr const char* executable = "virtrain-probe";

int measure_and_report(const Flags& flags) {
  const std::unique_ptr<Peers> peers = join_peers();
  int status = 1;
  try {
    const std::int64_t wrong = run(flags, *peers);
    if (wrong == 0) return 0;
    if (peers->rank() == 0) {
      report_failure(executable, "check the data",
                     std::to_string(wrong) + " elements were wrong; the figures do not count");
    }
    return 1;
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    status = usage_or_failure(error);
  } catch (const std::exception& error) {
    report_failure(executable, "measure", error.what());
  }
  peers->abort(status);  // the others may wait for us
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const ParsedFlags parsed = parse_flags(argc, argv);
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return 0;
    }
    return measure_and_report(parsed.flags);
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    return usage_or_failure(error);
  } catch (const std::exception& error) {
    report_failure(executable, "start", error.what());
    return 1;
  }
}
