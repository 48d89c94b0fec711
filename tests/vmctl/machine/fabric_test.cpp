#include "tests/support/catch.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("the Fabric Manager's mode is its configuration's last word") {
  CHECK(fabric_mode_in("# FABRIC_MODE=2\nLOG_LEVEL=4\nFABRIC_MODE=1\n") == 1);
  CHECK(fabric_mode_in(" FABRIC_MODE = 0 \r\n") == 0);
  CHECK_FALSE(fabric_mode_in("FABRIC_MODE_RESTART=1\n"));
  CHECK_FALSE(fabric_mode_in("FABRIC_MODE=one\n"));
}

TEST_CASE("partitions as fmpm -l lists them, and what is no list has none") {
  const auto partitions = fabric_partitions_in(
      R"({"maxNumPartitions": 63, "numPartitions": 1, "version": 16778240, "partitionInfo": [
           {"isActive": 1, "numGpus": 2, "partitionId": 8, "gpuInfo": [
             {"pciBusId": "00000000:30:00.0", "physicalId": 2, "uuid": "GPU-b"},
             {"pciBusId": "00000000:18:00.0", "physicalId": 1, "uuid": "GPU-a"}]}]})");
  REQUIRE(partitions.size() == 1);
  CHECK(partitions[0].id == 8);
  CHECK(partitions[0].is_active);
  CHECK(partitions[0].gpus == std::vector<std::string>{"0000:18:00.0", "0000:30:00.0"});
  // A GPU that the driver does not have: its address is not known, and so not the partition.
  CHECK(fabric_partitions_in(R"({"partitionInfo": [{"partitionId": 1, "isActive": 1, "gpuInfo": [
      {"pciBusId": "00000000:00:00.0"}]}]})")
            .empty());
  for (const char* text : {"", "Failed to get partition list. fmReturn: -3", "{}", R"({"partitionInfo": 7})",
                           R"({"partitionInfo": [{"partitionId": "x"}]})"}) {
    CHECK(fabric_partitions_in(text).empty());
  }
}

}  // namespace
}  // namespace virtrain::vmctl
