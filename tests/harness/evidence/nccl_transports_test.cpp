#include "harness/evidence/nccl_transports.h"

#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using Ways = std::map<std::string, std::string>;

Ways ways_in(const std::vector<std::string>& lines, std::int64_t ranks) {
  NcclTransports transports;
  for (const auto& line : lines) { transports.take(line, ranks); }
  return transports.by_pair();
}

// Lines that NCCL 2.8 to 2.27 printed on machines of others, as found in public logs.
TEST_CASE("NCCL's words for the ways between ranks, of all its versions") {
  CHECK(ways_in({"g3094:44814:45294 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM",
                 "aig-a100:1278748:1278770 [1] NCCL INFO Channel 00/0 : 2[2] -> 0[0] via P2P/CUMEM/read",
                 "3767c65d25c4:880:888 [1] NCCL INFO Channel 01/0 : 3[3] -> 0[0] via P2P/direct pointer/read",
                 "x:1:2 [3] NCCL INFO Channel 02 : 3[ca000] -> 2[65000] via SHM/direct/direct"},
                4) == Ways{{"0-1", "P2P/CUMEM"},
                           {"0-2", "P2P/CUMEM/read"},
                           {"0-3", "P2P/direct pointer/read"},
                           {"2-3", "SHM/direct/direct"}});
  CHECK(ways_in(
            {"n0:192:1188 [0] NCCL INFO Channel 01/0 : 0[0] -> 4[0] [send] via NET/Socket/0",
             "n0:192:1188 [0] NCCL INFO Channel 00/0 : 8[0] -> 0[0] [receive] via NET/Socket/1",
             "n0:9:9 [1] NCCL INFO Channel 03/0 : 9[1] -> 1[1] [receive] via NET/IB/8(0)/GDRDMA(PCI)/Shared",
             "n0:9:9 [1] NCCL INFO Channel 04/0 : 1[1] -> 9[1] [send] via NET/IB/7"},
            16) == Ways{{"0-4", "NET/Socket"}, {"0-8", "NET/Socket"}, {"1-9", "NET/IB, NET/IB/GDRDMA(PCI)"}});
}

TEST_CASE("lines that tell no way between two of the ranks change nothing") {
  const std::string good = "n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via ";
  for (const std::string& line :
       {std::string(), good, good + "/", good + "P2P\x01", good + "P2P, SHM", good + std::string(65, 'P'),
        std::string("NCCL INFO Channel 00/02 : 0 1"), std::string("NCCL INFO Channel via  ->  : "),
        std::string("n:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 2[2] via P2P/IPC"),
        std::string("n:1:2 [0] NCCL INFO Channel 00/0 : -1[0] -> 1[1] via P2P/IPC"),
        std::string("n:1:2 [0] NCCL INFO Channel 00/0 : 1[0] -> 1[1] via P2P/IPC"),
        std::string("n:1:2 [0] NCCL INFO Channel 00/0 : a[0] -> 1[1] via P2P/IPC"),
        std::string("Channel 00/0 : 0[0] -> 1[1] via P2P/IPC")}) {
    INFO(line);
    CHECK(ways_in({line}, 2).empty());
  }
  CHECK(ways_in({good + "P2P/IPC\r"}, 2) == Ways{{"0-1", "P2P/IPC"}});
}

TEST_CASE("a node's ways are those of its own ranks") {
  NcclTransports transports;
  const std::string channel = "n:1:2 [0] NCCL INFO Channel 00/0 : ";
  for (const char* line : {"0[0] -> 1[1] via P2P/IPC", "1[1] -> 2[0] [send] via NET/Socket/0",
                           "2[0] -> 3[1] via SHM/direct/direct", "3[1] -> 0[0] [send] via NET/IB/0"}) {
    transports.take(channel + line, 4);
  }
  CHECK(transports.of_ranks(0, 2) == "NET/IB, NET/Socket, P2P/IPC");
  CHECK(transports.of_ranks(2, 3) == "NET/Socket, SHM/direct/direct");
  CHECK(transports.of_ranks(4, 8).empty());
}

vmctl::PlacedDevice gpu(const std::string& address, std::vector<std::string> peers) {
  vmctl::PlacedDevice device;
  device.grant.address = address;
  device.nvlink_peers = std::move(peers);
  return device;
}

/// Two nodes, the first with a bridged pair of GPUs, the second with two that are not.
TenantPlacement bridged_and_not() {
  TenantPlacement tenant;
  tenant.workload.backend = Backend::cuda;
  tenant.gpus_per_node = tenant.ranks_per_node = 2;
  tenant.nodes.resize(2);
  tenant.nodes[0].devices = {gpu("0000:17:00.0", {"0000:65:00.0"}), gpu("0000:65:00.0", {"0000:17:00.0"})};
  tenant.nodes[1].devices = {gpu("0000:ca:00.0", {"0000:e3:00.0"}), gpu("0000:98:00.0", {})};
  return tenant;
}

TEST_CASE("ranks are planned to reach each other where NVLinks join all GPUs of their node") {
  const auto tenant = bridged_and_not();
  CHECK(planned_transports(tenant) == Ways{{"0-1", "P2P"}});
  auto swapped = tenant;
  std::swap(swapped.nodes[0], swapped.nodes[1]);
  CHECK(planned_transports(swapped) == Ways{{"2-3", "P2P"}});

  auto adapter = tenant;  // no GPU of its own
  adapter.nodes[0].devices.push_back(gpu("0000:31:00.0", {}));
  adapter.nodes[0].devices.back().device_class = vmctl::DeviceClass::rdma_nic;
  CHECK(planned_transports(adapter) == Ways{{"0-1", "P2P"}});
}

TEST_CASE("nothing is planned where NCCL may have reasons of its own") {
  auto steered = bridged_and_not();
  steered.workload.environment["NCCL_P2P_LEVEL"] = "LOC";
  CHECK(planned_transports(steered).empty());
  auto disabled = bridged_and_not();
  disabled.workload.environment["NCCL_P2P_DISABLE"] = "1";
  CHECK(planned_transports(disabled).empty());
  auto parts = bridged_and_not();
  parts.nodes[0].devices[0].grant.kind = vmctl::GrantKind::mdev;
  CHECK(planned_transports(parts).empty());
  auto crowded = bridged_and_not();
  crowded.ranks_per_node = 4;
  CHECK(planned_transports(crowded).empty());
  auto cpu = bridged_and_not();
  cpu.workload.backend = Backend::cpu;
  CHECK(planned_transports(cpu).empty());
}

}  // namespace
}  // namespace virtrain::harness
