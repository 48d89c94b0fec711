#include "workloads/common/lone_peer.h"

#include <catch2/catch.hpp>

#include <cstdlib>

using namespace virtrain;

TEST_CASE("one of several processes that mpirun has not started does not take itself for the only one") {
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "PMI_SIZE"}) {
    setenv(name, "1", 1);  // srun --pty bash: alone
    CHECK_NOTHROW(refuse_other_launchers());
    setenv(name, "8", 1);
    CHECK_THROWS_WITH(refuse_other_launchers(),
                      Catch::Contains("one of 8") && Catch::Contains("mpirun -np 8"));
    unsetenv(name);
  }
  CHECK_NOTHROW(refuse_other_launchers());
}
