#include "workloads/common/run_program.h"
#include "workloads/stress/flags.h"
#include "workloads/stress/run/run.h"

int main(int argc, char** argv) {
  using namespace virtrain;
  return run_program(
      "virtrain-stress", "stress", [&] { return stress::parse_flags(argc, argv); },
      [](const stress::Flags& flags) { return stress::run(flags); });
}
