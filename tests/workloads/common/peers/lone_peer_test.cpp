#include <cstdlib>

#include "tests/support/catch.h"
#include "workloads/common/peers/peers.h"

using namespace virtrain;

TEST_CASE("one of several processes that mpirun has not started does not take itself for the only one") {
  for (const char* name : {"SLURM_PROCID", "PMI_RANK"}) {
    setenv(name, "0", 1);  // srun --pty bash
    CHECK_NOTHROW(refuse_other_launchers());
    setenv(name, "7", 1);
    CHECK_THROWS_WITH(refuse_other_launchers(),
                      virtrain::test::Contains("rank 7 of a job") && virtrain::test::Contains("mpirun"));
    unsetenv(name);
  }
  CHECK_NOTHROW(refuse_other_launchers());
}
