#include "vmctl/devices/host_device.h"

#include <filesystem>
#include <fstream>

#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "vmctl/devices/device_users.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
using Addresses = std::vector<std::string>;

/// Written by scripts/reference/make_host_trees.py when the tests are configured.
const fs::path hosts = fs::path(VIRTRAIN_BINARY_DIR) / "hosts";

std::vector<HostDevice> devices_of(const std::string& host) {
  REQUIRE(fs::exists(hosts / host));
  auto devices = read_host_devices(hosts / host).devices;
  find_users(hosts / host, devices);
  return devices;
}

const HostDevice& at(const std::vector<HostDevice>& devices, const std::string& address) {
  for (const auto& device : devices) {
    if (device.function.address == address) { return device; }
  }
  FAIL("no device " << address);
  throw 0;
}

TEST_CASE("R750xa: four GPUs in two NVLink pairs, one pair a socket, and two ports of a ConnectX-6") {
  const auto devices = devices_of("r750xa");
  REQUIRE(devices.size() == 6);
  const auto& gpu = at(devices, "0000:31:00.0");
  CHECK(gpu.device_class == DeviceClass::gpu);
  CHECK(gpu.name == "NVIDIA A100-PCIE-40GB");
  CHECK(gpu.uuid == "GPU-00000001-0000-4000-8000-000000000001");
  CHECK(gpu.minor == 1);
  CHECK(gpu.function.numa_node == 0);
  CHECK(gpu.function.driver == "nvidia");
  CHECK(gpu.function.driver_override.empty());
  CHECK(gpu.function.root_complex == "pci0000:30");
  CHECK(gpu.function.bridges == Addresses{"0000:30:02.0"});
  CHECK(gpu.function.link == PciLink{"2.5 GT/s PCIe", 16});  // an idle card saves power
  CHECK(gpu.function.link_possible == PciLink{"16.0 GT/s PCIe", 16});
  CHECK(gpu.function.reset_methods == Addresses{"flr", "bus"});
  CHECK(gpu.function.iommu_group == 23);
  CHECK(gpu.function.iommu_group_members == Addresses{"0000:31:00.0"});
  REQUIRE(gpu.function.bars.size() == 3);
  CHECK(gpu.function.bars[0].bytes == 16ULL << 20);
  CHECK_FALSE(gpu.function.bars[0].is_64bit);
  CHECK(gpu.function.bars[1].index == 1);
  CHECK(gpu.function.bars[1].bytes == 64ULL << 30);
  CHECK(gpu.function.bars[1].is_64bit);
  CHECK(gpu.function.bars[2].index == 3);
  CHECK(gpu.mechanism == Mechanism::passthrough);
  CHECK(gpu.mechanism_reason == "after nvidia is unbound");
  CHECK(gpu.users.empty());

  CHECK(at(devices, "0000:17:00.0").nvlink_peers == Addresses{"0000:31:00.0"});
  CHECK(gpu.nvlink_peers == Addresses{"0000:17:00.0"});
  CHECK(at(devices, "0000:b1:00.0").nvlink_peers == Addresses{"0000:ca:00.0"});

  const auto& nic = at(devices, "0000:98:00.0");
  CHECK(nic.device_class == DeviceClass::rdma_nic);
  REQUIRE(nic.ports.size() == 1);
  CHECK(nic.ports[0].name == "mlx5_0/1");
  CHECK(nic.ports[0].interface == "ib0");
  CHECK(nic.ports[0].state == "ACTIVE");
  CHECK(nic.ports[0].rate == "100 Gb/sec (2X HDR)");
  CHECK(nic.ports[0].link_layer == "InfiniBand");
  CHECK(nic.ports[0].mtu_bytes == 2044);
  CHECK(at(devices, "0000:98:00.1").ports.at(0).state == "DOWN");
}

TEST_CASE("HGX H200: GPUs behind switches, NVSwitches, SR-IOV off, and who has a GPU open") {
  const auto devices = devices_of("hgx-h200");
  REQUIRE(devices.size() == 20);
  const auto& gpu = at(devices, "0000:18:00.0");
  CHECK(gpu.function.bridges == Addresses{"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"});
  CHECK(gpu.mechanism == Mechanism::undecided);
  CHECK(gpu.nvlink_peers.size() == 7);
  REQUIRE(gpu.users.size() == 1);
  CHECK(gpu.users[0].pid == 2200);
  CHECK(gpu.users[0].process == "nvidia-persiste");
  CHECK(gpu.users[0].path == "/dev/nvidia0");
  CHECK(at(devices, "0000:30:00.0").users.empty());
  CHECK(at(devices, "0000:05:00.3").device_class == DeviceClass::nvswitch);
}

TEST_CASE("a host of mediated devices: types of each parent, and how many are left") {
  const auto devices = devices_of("mdev-host");
  const auto& t4 = at(devices, "0000:3b:00.0");
  CHECK(t4.mechanism == Mechanism::mdev);
  REQUIRE(t4.vgpu_types.size() == 2);
  CHECK(t4.vgpu_types[0].id == "nvidia-230");
  CHECK(t4.vgpu_types[0].name == "GRID T4-4C");
  CHECK(t4.vgpu_types[0].available_instances == 4);
  CHECK(at(devices, "0000:5e:00.0").vgpu_types.at(1).available_instances == 0);
}

TEST_CASE("a host of vendor-specific VFIO: the virtual functions carry the vGPUs, the card itself none") {
  const auto devices = devices_of("vendor-vfio-host");
  REQUIRE(devices.size() == 5);
  const auto& card = at(devices, "0000:41:00.0");
  CHECK(card.mechanism == Mechanism::none);
  CHECK(card.function.virtual_functions.size() == 4);
  const auto& taken = at(devices, "0000:41:00.4");
  CHECK(taken.mechanism == Mechanism::vendor_vfio);
  CHECK(taken.vgpu_types.empty());  // the header alone: full
  const auto& free_function = at(devices, "0000:41:00.7");
  CHECK(free_function.function.physical_function == "0000:41:00.0");
  REQUIRE(free_function.vgpu_types.size() == 2);
  CHECK(free_function.vgpu_types[1].id == "1153");
  CHECK(free_function.vgpu_types[1].name == "NVIDIA L40S-24C");
}

TEST_CASE("a host with MIG: GPU instances of the cut card only") {
  const auto devices = devices_of("mig-host");
  CHECK(at(devices, "0000:07:00.0").mig_instances == Addresses{"gi1", "gi2"});
  CHECK(at(devices, "0000:47:00.0").mig_instances.empty());
  CHECK(at(devices, "0000:47:00.0").users.at(0).pid == 4242);
}

TEST_CASE("a laptop: graphics of the processor are no GPU of ours") {
  CHECK(devices_of("laptop").empty());
}

TEST_CASE("a function without IOMMU group cannot be passed, and says what to do") {
  PciFunction function;
  function.vendor = "0x10de";
  function.driver = "nvidia";
  const auto [mechanism, reason] = mechanism_of(function);
  CHECK(mechanism == Mechanism::none);
  CHECK_THAT(reason, virtrain::test::Contains("IOMMU"));
  function.iommu_group = 7;
  CHECK(mechanism_of(function).first == Mechanism::passthrough);
}

TEST_CASE("nvidia-smi's matrix: other words, a single GPU, and text that is none of it") {
  const Addresses two{"0000:01:00.0", "0000:02:00.0"};
  CHECK(nvlink_peers("\tGPU0\tGPU1\nGPU0\t X \tPHB\nGPU1\tPHB\t X \n", two).empty());
  CHECK(nvlink_peers("\tGPU0\tCPU Affinity\nGPU0\t X \t0-7\n", {"0000:01:00.0"}).empty());
  CHECK(nvlink_peers("NVIDIA-SMI has failed because it couldn't communicate\n", two).empty());
  CHECK(nvlink_peers("GPU0\t X \tNV4\nGPU9\tNV4\t X \n", two) ==
        std::map<std::string, Addresses>{{"0000:01:00.0", {"0000:02:00.0"}}});
}

TEST_CASE("names come from pci.ids where no driver says better") {
  const fs::path root = fs::temp_directory_path() / "virtrain-pci-ids-test";
  fs::remove_all(root);
  fs::create_directories(root / "usr/share/misc");
  std::ofstream(root / "usr/share/misc/pci.ids")
      << "# comment\n10dd  Other Vendor\n\t20f1  Wrong\n10de  NVIDIA Corporation\n\t20b0  GA100 [A100 SXM4 "
         "40GB]\n"
         "\t20f1  GA100 [A100 PCIe 40GB]\n\t\t10de 145f  A100-PCIE-40GB\n10df  Emulex\n\t9999  Wrong\n";
  CHECK(pci_name(root, "0x10de", "0x20f1") == "NVIDIA Corporation GA100 [A100 PCIe 40GB]");
  CHECK(pci_name(root, "0x10de", "0x9999") == "NVIDIA Corporation");
  fs::remove_all(root);
}

TEST_CASE("the tree that is shipped for plans is the one that the script writes") {
  CHECK(run_command({"diff", "-r", "--no-dereference", (hosts / "r750xa").string(),
                     std::string(VIRTRAIN_SOURCE_DIR) + "/tests/data/r750xa"})
            .out.empty());
}

}  // namespace
}  // namespace virtrain::vmctl
