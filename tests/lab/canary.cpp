// virtrain-canary as the lab's first level has it: it also drives the one engine that QEMU emulates.
#include "tests/lab/edu_engine.h"
#include "workloads/canary/program.h"

int main(int argc, char** argv) {
  return virtrain::canary::run_canary(argc, argv, &virtrain::canary::edu_engine);
}
