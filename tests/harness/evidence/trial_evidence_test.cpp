#include "harness/evidence/trial_evidence.h"

#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

vmctl::PlacedDevice device(vmctl::DeviceClass device_class, int numa_node) {
  vmctl::PlacedDevice one;
  one.device_class = device_class;
  one.numa_node = numa_node;
  return one;
}

}  // namespace

TEST_CASE("a node's devices and where they lie come from its placement") {
  using enum vmctl::DeviceClass;
  NodePlacement placed;
  placed.hostname = "t1n2";
  placed.numa_node = 1;
  placed.devices = {device(gpu, 1), device(gpu, 0), device(rdma_nic, 0)};
  const auto seen = placed_evidence(placed, {1, 1});
  CHECK(seen.hostname == "t1n2");
  CHECK(seen.devices == 3);
  CHECK(seen.gpu_numa_nodes == std::vector{1, 0});
  CHECK(seen.core_numa_nodes == std::vector{1, 1});
  CHECK(seen.memory_numa_node == 1);
}

TEST_CASE("of a node without devices no place is judged") {
  NodePlacement placed;
  placed.hostname = "t1n1";
  placed.numa_node = 0;
  const auto seen = placed_evidence(placed, {0});
  CHECK(seen.devices == 0);
  CHECK(seen.core_numa_nodes.empty());
  CHECK_FALSE(seen.memory_numa_node);
}
