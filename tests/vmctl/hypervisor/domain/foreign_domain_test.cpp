#include "vmctl/hypervisor/domain/foreign_domain.h"

#include <fmt/format.h>

#include <filesystem>

#include "common/error.h"
#include "tests/support/catch.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;

std::vector<HostDevice> hgx_devices() {
  return read_host_devices(std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts/hgx-h200").devices;
}

PlacedDevice lent_whole(const std::string& address) {
  for (const auto& device : hgx_devices()) {
    if (device.function.address == address) { return placed({GrantKind::passthrough, address}, device); }
  }
  FAIL("no device " << address);
  throw 0;
}

std::string hostdev(const std::string& host_bus, const std::string& guest_bus) {
  return fmt::format(R"(<hostdev mode='subsystem' type='pci' managed='yes'><source>
    <address domain='0x0000' bus='{}' slot='0x00' function='0x0'/></source>
    <address type='pci' domain='0x0000' bus='{}' slot='0x00' function='0x0'/></hostdev>)",
                     host_bus, guest_bus);
}

std::string port(int index, const std::string& bus, const std::string& slot, const std::string& function) {
  return fmt::format(
      R"(<controller type='pci' index='{}' model='pcie-root-port'><model name='pcie-root-port'/>
    <target chassis='{}' port='0x8'/><address type='pci' domain='0x0000' bus='{}' slot='{}' function='{}'/></controller>)",
      index, index, bus, slot, function);
}

/// As virt-install makes them: root ports in the functions of one slot; here one of a later index stands in
/// an earlier slot, so that buses are not numbered as libvirt counts them.
std::string foreign(const std::string& more, const std::string& before = {}) {
  return "<domain type='kvm'><name>theirs</name>" + before +
         "<devices><controller type='pci' index='0' model='pcie-root'/>" + port(1, "0x00", "0x02", "0x0") +
         port(2, "0x00", "0x02", "0x1") + port(3, "0x00", "0x01", "0x0") +
         "<controller type='usb' index='0'/>" + more + "</devices></domain>";
}

TEST_CASE("topology of others: addresses of a VM like ours, as they were seen in its guest") {
  DomainSpec spec;
  spec.name = "virtrain-e1-1";
  spec.memory_bytes = 4ULL << 30;
  spec.vcpus = 2;
  spec.numa_cells = {{0, {0}, 2ULL << 30}, {1, {1}, 2ULL << 30}};
  spec.devices = {lent_whole("0000:18:00.0"), lent_whole("0000:78:00.0"), lent_whole("0000:19:00.0")};
  const auto domain = read_foreign_domain(domain_xml(spec));
  REQUIRE(domain.devices.size() == 3);
  CHECK(domain.devices[0].host_address == "0000:18:00.0");
  CHECK(domain.devices[0].guest_address == "0000:43:00.0");
  CHECK(domain.devices[1].guest_address == "0000:a1:00.0");
  CHECK(domain.devices[2].guest_address == "0000:44:00.0");
  CHECK(domain.devices[0].cell == 0);
  CHECK(domain.devices[1].cell == 1);

  const auto topology = nccl_topology_of(domain, hgx_devices());
  // The GPU and the adapter share a switch of the host, the other GPU is alone on the other socket.
  CHECK_THAT(topology, Contains("<cpu numaid=\"0\">\n    <pci busid=\"ffff:ff:01.0\" class=\"0x060400\""));
  CHECK_THAT(topology, Contains("      <pci busid=\"0000:43:00.0\" class=\"0x030200\""));
  CHECK_THAT(topology, Contains("      <pci busid=\"0000:44:00.0\" class=\"0x020700\""));
  CHECK_THAT(topology, Contains("<cpu numaid=\"1\">\n    <pci busid=\"0000:a1:00.0\" class=\"0x030200\""));
}

TEST_CASE("topology of others: buses are numbered in the order of slots, not of libvirt's indexes") {
  const auto domain = read_foreign_domain(
      foreign(hostdev("0x18", "0x01") + hostdev("0x19", "0x02") + hostdev("0x78", "0x03")));
  CHECK(domain.name == "theirs");
  REQUIRE(domain.devices.size() == 3);
  CHECK(domain.devices[0].guest_address == "0000:02:00.0");
  CHECK(domain.devices[1].guest_address == "0000:03:00.0");
  CHECK(domain.devices[2].guest_address == "0000:01:00.0");
}

/// An expander bus and a device below it: libvirt's XML of both kinds is alike.
std::string expander(const std::string& model, int number, const std::string& below) {
  return fmt::format(
      "<controller type='pci' index='7' model='{}'><target busNr='{}'><node>1</node></target>"
      "<address type='pci' bus='0x00' slot='0x03' function='0x0'/></controller>{}",
      model, number, below);
}

TEST_CASE("topology of others: a conventional expander bus hides a bridge, one of PCIe does not") {
  const auto pci =
      read_foreign_domain(foreign(expander("pci-expander-bus", 254, hostdev("0x18", "0x07")))).devices;
  REQUIRE(pci.size() == 1);
  CHECK(pci[0].guest_address == "0000:ff:00.0");
  CHECK(pci[0].cell == 1);
  const auto pcie =
      read_foreign_domain(foreign(expander("pcie-expander-bus", 200,
                                           port(8, "0x07", "0x00", "0x0") + hostdev("0x18", "0x08"))))
          .devices;
  REQUIRE(pcie.size() == 1);
  CHECK(pcie[0].guest_address == "0000:c9:00.0");
}

TEST_CASE("topology of others: what the file lacks is named, with its addresses") {
  auto xml = foreign(
      hostdev("0x18", "0x01") + hostdev("0x99", "0x02") +
      "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='af5972fb'/></source>"
      "<address type='pci' bus='0x03' slot='0' function='0'/></hostdev>");
  const auto left_out = left_out_of_topology(read_foreign_domain(xml), hgx_devices(), {});
  REQUIRE(left_out.size() == 2);
  CHECK(left_out[0] == "0000:99:00.0 (0000:03:00.0 in the guest): this host has no such device");
  CHECK_THAT(left_out[1], Contains("mediated device") && Contains("af5972fb") && Contains("0000:01:00.0"));
  HostDevice disk;
  disk.function.address = "0000:99:00.0";
  CHECK(left_out_of_topology(read_foreign_domain(xml), hgx_devices(), {disk}).size() == 1);
}

TEST_CASE("topology of others: what has no address in the guest, or none that libvirt knows, is named") {
  const auto domain = read_foreign_domain(
      foreign(hostdev("0x18", "0x01") +
              "<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x30' slot='0x00' "
              "function='0x0'/></source><address type='unassigned'/></hostdev></devices><qemu:commandline>"
              "<qemu:arg value='-device'/><qemu:arg value='vfio-pci,host=48:00.0,bus=pcie.0'/>"
              "<qemu:arg value='{\"driver\":\"vfio-pci\",\"host\":\"0000:60:00.0\"}'/>"
              "<qemu:arg value='virtio-net,host=1'/></qemu:commandline>"
              "<q:commandline xmlns:q='x'><q:arg "
              "value='vfio-pci,x-host=1,sysfsdev=/sys/devices/pci0000:75/0000:78:00.0'/>"
              "</q:commandline><devices>"));
  CHECK(domain.devices.size() == 1);
  const auto words = left_out_of_topology(domain, hgx_devices(), {});
  REQUIRE(words.size() == 4);
  CHECK_THAT(words[0], Contains("0000:48:00.0: it is assigned by qemu:commandline"));
  CHECK_THAT(words[1], Contains("0000:60:00.0: it is assigned by qemu:commandline"));
  CHECK_THAT(words[2], Contains("0000:78:00.0: it is assigned by qemu:commandline"));
  CHECK_THAT(words[3], Contains("0000:30:00.0: its address is of type unassigned"));
}

TEST_CASE("topology of others: addresses behind Intel VMD have domains of five digits") {
  auto xml = hostdev("0xe1", "0x01");
  xml.replace(xml.find("domain='0x0000'"), 15, "domain='0x10000'");
  CHECK(read_foreign_domain(foreign(xml)).devices.at(0).host_address == "10000:e1:00.0");
}

TEST_CASE("topology of others: the guest's NUMA node is where memory of the device's host node is") {
  const auto tune =
      "<numatune><memnode cellid='0' mode='strict' nodeset='2-5,^3'/>"
      "<memnode cellid='1' mode='strict' nodeset='1'/></numatune>";
  const auto domain = read_foreign_domain(foreign(hostdev("0x78", "0x01"), tune));
  CHECK(domain.host_nodes_of_cells == std::vector<std::vector<int>>{{2, 4, 5}, {1}});
  CHECK_THAT(nccl_topology_of(domain, hgx_devices()), Contains("<cpu numaid=\"1\">"));
}

TEST_CASE("topology of others: what is refused, in words") {
  const auto refused = [](const std::string& xml) -> std::string {
    try {
      read_foreign_domain(xml);
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::bad_input);
      return error.message();
    }
    return "not refused";
  };
  CHECK_THAT(refused(foreign(hostdev("0x18", "0x01") + hostdev("0x30", "0x01"))),
             Contains("have one address in the guest"));
  CHECK_THAT(refused(foreign(hostdev("0x18", "0x01") + hostdev("0x18", "0x02"))),
             Contains("is assigned twice"));
  CHECK_THAT(refused("no XML"), Contains("it is not XML") || Contains("no <domain>"));
  CHECK_THAT(refused("<network/>"), Contains("virsh dumpxml"));
  CHECK_THAT(refused(foreign("") + foreign("")), Contains("more than one <domain>"));
  CHECK_THAT(refused(std::string(2 << 20, ' ')), Contains("more than 1 MiB"));
  CHECK_THAT(refused(foreign(hostdev("0x18", "0x09"))), Contains("no PCI controller provides bus 9"));
  CHECK_THAT(refused(foreign(hostdev("0x18", "99999999999"))), Contains("not a number from 0 to 255"));
  CHECK_THAT(refused(foreign(port(1, "0x00", "0x05", "0x0"))), Contains("two PCI controllers have index 1"));
  CHECK_THAT(
      refused(foreign("<hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x18' "
                      "slot='0x00' function='0x0'/></source></hostdev>")),
      Contains("has no address in the guest yet"));
  CHECK_THAT(refused(foreign(port(8, "0x09", "0x00", "0x0") + port(9, "0x08", "0x00", "0x0") +
                             hostdev("0x18", "0x09"))),
             Contains("no PCI controller provides bus 9"));
  CHECK_THAT(
      refused(foreign(
          "<controller type='pci' index='200' model='pcie-expander-bus'><target busNr='255'/></controller>" +
          port(201, "0xc8", "0x00", "0x0"))),
      Contains("more than 256 buses"));
  CHECK_THAT(refused(foreign("", "<numatune><memnode cellid='0' nodeset='0-99999999'/></numatune>")),
             Contains("is not a list of NUMA nodes"));
}

TEST_CASE("topology of others: a domain without a GPU of this host has none") {
  CHECK_THROWS_AS(nccl_topology_of(read_foreign_domain(foreign("")), hgx_devices()), Error);
  CHECK_THROWS_AS(nccl_topology_of(read_foreign_domain(foreign(hostdev("0x00", "0x01"))), hgx_devices()),
                  Error);
}

}  // namespace
}  // namespace virtrain::vmctl
