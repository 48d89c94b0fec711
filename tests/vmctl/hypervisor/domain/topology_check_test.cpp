#include "vmctl/hypervisor/domain/topology_check.h"

#include <filesystem>

#include "tests/support/catch.h"
#include "tests/support/domain_schema.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/hypervisor/domain/guest_layout.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;

PlacedDevice whole(const std::string& address) {
  for (const auto& device :
       read_host_devices(std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts/hgx-h200").devices) {
    if (device.function.address == address) { return placed({GrantKind::passthrough, address}, device); }
  }
  FAIL("no device " << address);
  throw 0;
}

/// Two GPUs of an HGX board with the adapter of the first, one GPU on each socket.
DomainSpec planned() {
  DomainSpec spec;
  spec.name = "virtrain-e1-1";
  spec.memory_bytes = 4ULL << 30;
  spec.vcpus = 2;
  spec.numa_cells = {{0, {0}, 2ULL << 30}, {1, {1}, 2ULL << 30}};
  spec.devices = {whole("0000:18:00.0"), whole("0000:78:00.0"), whole("0000:19:00.0")};
  return spec;
}

/// What the guest shows when all is as planned. The addresses were seen in a guest of this shape.
std::vector<PciFunction> as_planned(const DomainSpec& spec) {
  const std::vector<std::string> addresses{"0000:43:00.0", "0000:a1:00.0", "0000:44:00.0"};
  const std::vector<std::vector<std::string>> bridges{{"0000:40:00.0", "0000:41:00.0", "0000:42:00.0"},
                                                      {"0000:a0:00.0"},
                                                      {"0000:40:00.0", "0000:41:00.0", "0000:42:01.0"}};
  std::vector<PciFunction> guest;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    PciFunction function;
    function.address = addresses[i];
    function.vendor = spec.devices[i].vendor;
    function.device = spec.devices[i].device;
    function.numa_node = i == 1 ? 1 : 0;
    function.bridges = bridges[i];
    function.root_complex = i == 1 ? "pci0000:a0" : "pci0000:40";
    function.link_possible = spec.devices[i].link;
    guest.push_back(function);
  }
  return guest;
}

std::vector<TopologyDifference> differences(const DomainSpec& spec, const std::vector<PciFunction>& guest,
                                            const std::string& peers = {}) {
  return check_guest_topology(spec, guest, peers).differences;
}

constexpr const char* all_reach =
    " \tGPU0\tGPU1\t\n GPU0\tX\tOK\t\n GPU1\tOK\tX\t\n\nLegend:\n\n  X    = Self\n";
constexpr const char* none_reach = " \tGPU0\tGPU1\t\n GPU0\tX\tCNS\t\n GPU1\tCNS\tX\t\n";

TEST_CASE("a guest that is as planned has no differences") {
  const auto spec = planned();
  CHECK(differences(spec, as_planned(spec)).empty());
  CHECK(differences(spec, as_planned(spec), all_reach).empty());  // over NVLink
}

TEST_CASE("a device that the guest does not show, with its XML") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest.erase(guest.begin());
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 1);
  CHECK(found[0].words == "0000:18:00.0 (in the guest 0000:43:00.0): the guest does not show it");
  CHECK_THAT(found[0].xml, Contains("<hostdev") && Contains("bus=\"0x18\"") && Contains("ua-gpu0"));
  const auto seen = check_guest_topology(spec, guest);
  CHECK(seen.missing == std::vector<std::string>{"0000:18:00.0"});
  CHECK(seen.gpu_numa_nodes == std::vector<int>{1});  // of the other GPU
}

TEST_CASE("another device in its place") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest[1].device = "0x1234";
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("the guest has 0x10de:0x1234 there"));
}

TEST_CASE("a NUMA node that is not the host's, with the expander bus that would mend it") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest[1].numa_node = -1;
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words,
             Contains("NUMA node 1 of the host is the guest's node 1, but the guest shows -1"));
  CHECK_THAT(found[0].xml,
             Contains("pcie-expander-bus") && Contains("<node>1</node>") && Contains("busNr=\"160\""));
}

TEST_CASE("a switch that the guest does not have, with the controllers that would make it") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest[2].bridges = {"0000:40:01.0"};
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("are below one PCIe switch on the host and are not in the guest"));
  CHECK_THAT(found[0].xml, Contains("pcie-switch-upstream-port"));
}

TEST_CASE("root complexes that the guest has merged") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest[1].root_complex = "pci0000:40";
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 2);  // with each of the two others
  CHECK_THAT(found[0].words, Contains("are below two root complexes on the host and below one in the guest"));
}

TEST_CASE("a link that can do less than on the host, which no XML mends") {
  const auto spec = planned();
  auto guest = as_planned(spec);
  guest[0].link_possible.width = 8;
  const auto found = differences(spec, guest);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("32.0 GT/s PCIe x16 on the host and 32.0 GT/s PCIe x8 in the guest"));
  CHECK(found[0].xml.empty());
}

TEST_CASE("peers: NVLink that does not work, a clique that does not, and reach that nothing explains") {
  auto spec = planned();
  const auto guest = as_planned(spec);
  auto found = differences(spec, guest, none_reach);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("should reach each other over NVLink, the guest's driver says CNS"));
  CHECK(check_guest_topology(spec, guest, none_reach).peer_differences.size() == 1);
  for (auto& device : spec.devices) { device.nvlink_peers.clear(); }
  CHECK(differences(spec, guest, none_reach).empty());
  found = differences(spec, guest, all_reach);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("which nothing in the XML says"));
  spec.clique = Clique::all;
  CHECK(differences(spec, guest, all_reach).empty());
  found = differences(spec, guest, none_reach);
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].xml, Contains("x-nv-gpudirect-clique"));
  found = differences(spec, guest, " \tGPU0\t\n GPU0\tX\t\n");
  REQUIRE(found.size() == 1);
  CHECK_THAT(found[0].words, Contains("sees 1 GPU, 2 were given"));
}

TEST_CASE("NCCL's topology file: the host's switches and links under the guest's addresses") {
  auto spec = planned();
  check_golden("nccl-topology.xml", check_guest_topology(spec, {}).nccl_topology);
  spec.devices.erase(spec.devices.begin(), spec.devices.begin() + 2);
  CHECK(check_guest_topology(spec, {}).nccl_topology.empty());
}

}  // namespace
}  // namespace virtrain::vmctl
