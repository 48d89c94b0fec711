#include "common/error.h"
#include "workloads/common/program.h"
#include "workloads/stress/flags.h"
#include "workloads/stress/run.h"

#include <cstdio>
#include <exception>

int main(int argc, char** argv) {
  using namespace virtrain;
  constexpr const char* executable = "virtrain-stress";
  try {
    const stress::ParsedFlags parsed = stress::parse_flags(argc, argv);
    if (parsed.help) {
      std::fputs(parsed.help->c_str(), stdout);
      return 0;
    }
    stress::run(parsed.flags);
    return 0;
  } catch (const Error& error) {
    report_failure(executable, error.operation(), error.message());
    return usage_or_failure(error);
  } catch (const std::exception& error) {
    report_failure(executable, "stress", error.what());
    return 1;
  }
}
