#include "vmctl/hypervisor/domain/device_xml.h"

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/domain_schema.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;
namespace fs = std::filesystem;

/// One of the hosts that scripts/reference/make_host_trees.py has written.
HostDevice host_device(const std::string& host, const std::string& address) {
  for (auto& device : read_host_devices(fs::path(VIRTRAIN_BINARY_DIR) / "hosts" / host).devices) {
    if (device.function.address == address) { return device; }
  }
  FAIL(host << " has no device " << address);
  throw 0;
}

PlacedDevice whole(const std::string& host, const std::string& address) {
  return placed({GrantKind::passthrough, address}, host_device(host, address));
}

/// A virtual function of an adapter, not yet made.
PlacedDevice virtual_function(const std::string& host, const std::string& physical, int index) {
  const auto device = host_device(host, physical);
  return placed(
      {GrantKind::virtual_function, virtual_function_address(device.function, index).value(), physical},
      device);
}

DomainSpec with_devices(std::vector<PlacedDevice> devices) {
  DomainSpec spec;
  spec.name = "virtrain-e1-1";
  spec.uuid = "6a0e7b53-5f34-4d4b-8e07-0c8d7c4c3d11";
  spec.mark = {"e1", "t1n1"};
  spec.vcpus = 4;
  spec.memory_bytes = 64ULL << 30;
  spec.vcpu_cores = {0, 2, 4, 6};
  spec.emulator_cores = {64};
  spec.numa_node = 0;
  spec.numa_cells = {{0, {0, 1, 2, 3}, 64ULL << 30}};
  spec.virtualization = Virtualization::kvm;
  spec.kernel = "/var/cache/virtrain/images/abc/kernel";
  spec.initrd = "/var/cache/virtrain/images/abc/initrd";
  spec.root_image = "/var/cache/virtrain/images/abc/root";
  spec.kernel_command_line = guest_command_line({"t1n1", "", {}});
  spec.console_log = "/var/lib/virtrain/logs/e1/t1n1.console";
  spec.devices = std::move(devices);
  return spec;
}

void check_xml(const std::string& golden, const DomainSpec& spec) {
  const auto text = domain_xml(spec);
  check_golden(golden, text);
  check_schema("domain", text);
}

TEST_CASE("XML of an NVLink pair of the R750xa: two root complexes of one NUMA node") {
  check_xml("domain-r750xa-pair.xml",
            with_devices({whole("r750xa", "0000:17:00.0"), whole("r750xa", "0000:31:00.0")}));
}

TEST_CASE("XML of two GPUs with their adapters on an HGX board: a switch for each, cells for both sockets") {
  auto spec = with_devices({whole("hgx-h200", "0000:18:00.0"), whole("hgx-h200", "0000:78:00.0"),
                            whole("hgx-h200", "0000:19:00.0"), whole("hgx-h200", "0000:79:00.0")});
  spec.vcpu_cores = {0, 1, 112, 113};
  spec.numa_node.reset();
  spec.numa_cells = {{0, {0, 1}, 32ULL << 30}, {1, {2, 3}, 32ULL << 30}};
  spec.memory_by_cell = true;
  spec.hugepages = true;
  spec.clique = Clique::all;
  check_xml("domain-hgx.xml", spec);
}

TEST_CASE("iommufd is asked for each whole device, where it is asked for") {
  auto gpu = whole("r750xa", "0000:17:00.0");
  CHECK_THAT(domain_xml(with_devices({gpu})), !Contains("iommufd"));
  gpu.vfio = Vfio::iommufd;
  CHECK_THAT(domain_xml(with_devices({gpu})), Contains("<driver iommufd=\"yes\""));
}

TEST_CASE("XML of a mediated device") {
  const auto t4 = host_device("mdev-host", "0000:3b:00.0");
  check_xml("domain-mdev.xml", with_devices({placed({GrantKind::mdev, t4.function.address, "", "nvidia-230",
                                                     "aa618089-8b16-4d01-a136-25a0f3c73123"},
                                                    t4)}));
}

TEST_CASE("XML of a vendor-specific VFIO vGPU: never managed, for that would take the vGPU away") {
  auto spec = with_devices({placed({GrantKind::vendor_vfio, "0000:41:00.5", "0000:41:00.0", "1153"},
                                   host_device("vendor-vfio-host", "0000:41:00.5"))});
  check_xml("domain-vendor-vfio.xml", spec);
}

TEST_CASE("XML of adapters' virtual functions: Ethernet with its MAC, InfiniBand as it is") {
  auto ethernet = virtual_function("hgx-h200", "0000:79:00.0", 1);
  ethernet.mac = "52:54:01:00:00:01";
  auto spec = with_devices({virtual_function("r750xa", "0000:98:00.0", 0), ethernet});
  CHECK(spec.devices[0].grant.address == "0000:98:00.2");
  CHECK(spec.devices[1].grant.address == "0000:79:00.2");
  spec.numa_cells = {{1, {0, 1, 2, 3}, 64ULL << 30}};
  check_xml("domain-nic-vf.xml", spec);
}

TEST_CASE("without devices the XML has no PCI controllers, and with them no clique unless asked") {
  CHECK_THAT(domain_xml(with_devices({})), !Contains("type=\"pci\"") && !Contains("maxphysaddr"));
  const auto pair = domain_xml(with_devices({whole("r750xa", "0000:17:00.0")}));
  CHECK_THAT(pair, Contains("<maxphysaddr mode=\"passthrough\"") && Contains("<cache mode=\"passthrough\"") &&
                       Contains("nosharepages") && !Contains("qemu:override"));
  auto emulated = with_devices({whole("r750xa", "0000:17:00.0")});
  emulated.virtualization = Virtualization::tcg;
  CHECK_THAT(domain_xml(emulated), !Contains("maxphysaddr") && Contains("<hostdev"));
}

TEST_CASE("a CPU feature that kills QEMU on some hosts can be hidden") {
  auto spec = with_devices({});
  spec.cpu_traits = {.hide_arch_capabilities = true, .threads_need_topoext = true};
  auto text = domain_xml(spec);
  CHECK_THAT(text,
             Contains("<feature policy=\"disable\" name=\"arch-capabilities\"") && !Contains("topoext"));
  spec.threads_per_core = 2;
  text = domain_xml(spec);
  CHECK_THAT(text, Contains("threads=\"2\"") && Contains("<feature policy=\"require\" name=\"topoext\""));
  check_schema("domain", text);
}

TEST_CASE("cliques join NVIDIA's GPUs below one switch, or all of them, and never one alone") {
  auto near = whole("hgx-h200", "0000:18:00.0");
  auto nearer = near;
  nearer.grant.address = "0000:1a:00.0";
  const auto far = whole("hgx-h200", "0000:30:00.0");
  const auto nic = whole("hgx-h200", "0000:19:00.0");
  using Numbers = std::vector<int>;
  CHECK(cliques({near, far, nearer, nic}, Clique::auto_) == Numbers{0, -1, 0, -1});
  CHECK(cliques({near, far, nic}, Clique::auto_) == Numbers{-1, -1, -1});
  CHECK(cliques({near, far, nic}, Clique::all) == Numbers{0, 0, -1});
  CHECK(cliques({near, nic}, Clique::all) == Numbers{-1, -1});
  CHECK(cliques({near, nearer}, Clique::off) == Numbers{-1, -1});
  auto other_vendor = near;
  other_vendor.vendor = "0x1002";
  CHECK(cliques({near, other_vendor}, Clique::all) == Numbers{-1, -1});
  auto vgpu = near;
  vgpu.grant.kind = GrantKind::vendor_vfio;
  CHECK(cliques({near, vgpu}, Clique::all) == Numbers{-1, -1});
}

TEST_CASE("devices and NUMA cells that contradict themselves are refused") {
  const auto refused = [](auto change) {
    auto spec = with_devices({whole("r750xa", "0000:17:00.0")});
    change(spec);
    try {
      domain_xml(spec);
      return false;
    } catch (const Error& error) { return error.code() == ErrorCode::bad_input; }
  };
  CHECK_FALSE(refused([](DomainSpec&) {}));
  CHECK(refused([](DomainSpec& s) { s.devices[0].grant.address = "mtty"; }));
  CHECK(refused([](DomainSpec& s) { s.devices[0].grant.kind = GrantKind::mdev; }));
  CHECK(refused([](DomainSpec& s) { s.numa_cells[0].memory_bytes = 1; }));
  CHECK(refused([](DomainSpec& s) { s.numa_cells[0].vcpus = {0}; }));
  CHECK(refused([](DomainSpec& s) { s.numa_cells.push_back({1, {}, 0}); }));
  CHECK(refused([](DomainSpec& s) {
    s.numa_cells.clear();
    s.memory_by_cell = true;
  }));
}

}  // namespace
}  // namespace virtrain::vmctl
