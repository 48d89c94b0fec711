#include <cstdlib>

#include "common/error.h"
#include "tests/support/catch.h"
#include "workloads/common/gpu/gpu_choice.h"

using namespace virtrain;
using virtrain::test::Contains;

TEST_CASE("each rank of a host takes a GPU of its own") {
  unsetenv("NCCL_HOSTID");
  CHECK(gpu_of_rank({0, 1}, 0, 1) == 0);
  CHECK(gpu_of_rank({0, 1}, 3, 4) == 3);
  CHECK(gpu_of_rank({1, 2}, 0, 2) == 1);
  CHECK(gpu_of_rank({1, 2}, 2, 4) == 3);
  CHECK_THROWS_WITH(gpu_of_rank({0, 3}, 0, 2), Contains("3 ranks on this host, but 2 GPUs are visible"));
  CHECK_THROWS_WITH(gpu_of_rank({0, 2}, 3, 4), Contains("from GPU 3 on, but 4 GPUs are visible"));
  CHECK_THROWS_WITH(gpu_of_rank({0, 1}, 0, 0), Contains("0 GPUs are visible"));
}

TEST_CASE("each rank may be shown one GPU, but not the same one") {
  unsetenv("NCCL_HOSTID");
  CHECK(gpu_of_rank({1, 2}, 0, 1) == 0);
  CHECK_THROWS_WITH(gpu_of_rank({0, 2}, 1, 1), Contains("from GPU 1 on, but 1 GPU is visible"));
  CHECK_NOTHROW(refuse_shared_gpu({"GPU-a", "GPU-b"}));
  CHECK_NOTHROW(refuse_shared_gpu({"GPU-a"}));
  CHECK_THROWS_WITH(refuse_shared_gpu({"GPU-a", "GPU-b", "GPU-b"}),
                    Contains("ranks 1 and 2 have the same one, GPU-b"));
}

TEST_CASE(
    "GPUs of cloned VMs are told apart by the start of their kernels, and of two containers by nothing") {
  unsetenv("NCCL_HOSTID");
  const auto gpu = [](const std::string& host, const std::string& boot) {
    return gpu_identity("GPU-a", "0000:01:00.0", host, boot);
  };
  CHECK_NOTHROW(refuse_shared_gpu({gpu("clone", "1c5f"), gpu("clone", "77aa")}));
  CHECK_THROWS_WITH(refuse_shared_gpu({gpu("one", "1c5f"), gpu("two", "1c5f")}),
                    Contains("ranks 0 and 1 have the same one, GPU-a at 0000:01:00.0"));
  CHECK_NOTHROW(refuse_shared_gpu({gpu("one", ""), gpu("two", "")}));
  CHECK_THROWS(refuse_shared_gpu({gpu("one", ""), gpu("one", "")}));
}

TEST_CASE("ranks that NCCL takes for hosts of their own may share a GPU") {
  setenv("NCCL_HOSTID", "first", 1);
  CHECK(gpu_of_rank({0, 2}, 0, 1) == 0);
  CHECK(gpu_of_rank({1, 2}, 0, 1) == 0);
  CHECK(gpu_of_rank({2, 3}, 0, 2) == 0);
  CHECK_NOTHROW(refuse_shared_gpu({"GPU-a", "GPU-a"}));
  CHECK_THROWS_WITH(gpu_of_rank({0, 2}, 0, 0), Contains("0 GPUs are visible"));
  unsetenv("NCCL_HOSTID");
}
