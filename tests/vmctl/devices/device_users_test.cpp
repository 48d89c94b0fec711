#include "vmctl/devices/device_users.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// A host with an NVMe disk, a NIC and a parent of mediated devices that is no PCI function.
class SmallHost {
 public:
  SmallHost() {
    add_function("0000:00:11.0", "0x010802");
    fs::create_directories(root / "sys/bus/pci/devices/0000:00:11.0/nvme/nvme0/nvme0n1");
    fs::create_directories(root / "sys/class/block/nvme0n1/nvme0n1p1");
    add_function("0000:00:12.0", "0x020000");
    fs::create_directories(root / "sys/bus/pci/devices/0000:00:12.0/net/eth0");
    add_function("0000:00:1f.0", "0x060100");  // a bridge
    fs::create_directories(root / "sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2");
    write("sys/class/mdev_bus/mtty/mdev_supported_types/mtty-2/available_instances", "24\n");
  }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories((root / file).parent_path());
    std::ofstream(root / file) << text;
  }
  std::vector<HostDevice> devices() const {
    auto found = read_host_devices(root).others;
    find_users(root, found);
    return found;
  }

  const TemporaryFolder temporary;
  const fs::path root = temporary.path;

 private:
  void add_function(const std::string& address, const std::string& class_code) const {
    const auto folder = fs::path("sys/bus/pci/devices") / address;
    write(folder / "class", class_code + "\n");
    write(folder / "vendor", "0x1b36\n");
  }
};

TEST_CASE("devices that are no GPUs: endpoints and parents of mediated devices, not bridges") {
  const auto devices = SmallHost().devices();
  REQUIRE(devices.size() == 3);
  CHECK(devices[0].function.address == "0000:00:11.0");
  CHECK(devices[0].device_class == DeviceClass::other);
  CHECK(devices[2].function.address == "mtty");
  CHECK(devices[2].mechanism == Mechanism::mdev);
  CHECK(devices[2].vgpu_types.at(0).id == "mtty-2");
  CHECK(devices[2].vgpu_types.at(0).available_instances == 24);
  for (const auto& device : devices) { CHECK(device.users.empty()); }
}

TEST_CASE("a mounted partition, swap space, an open disk and a route are users of their devices") {
  const SmallHost host;
  host.write("proc/1/mounts", "proc /proc proc rw 0 0\n/dev/nvme0n1p1 /mnt/disk ext4 rw 0 0\n");
  host.write("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1048572 0 -2\n");
  host.write("proc/net/route", "Iface Destination Gateway\neth0 0002000A 00000000\n");
  host.write("proc/77/comm", "dd\n");
  fs::create_directories(host.root / "proc/77/fd");
  fs::create_symlink("/dev/nvme0n1", host.root / "proc/77/fd/3");
  const auto devices = host.devices();
  const auto& disk = devices.at(0).users;
  REQUIRE(disk.size() == 3);
  CHECK((disk[0].pid == 77 && disk[0].process == "dd" && disk[0].path == "/dev/nvme0n1"));
  CHECK((disk[1].process == "mounted on /mnt/disk" && disk[1].path == "/dev/nvme0n1p1"));
  CHECK((disk[2].process == "swap" && disk[2].pid == 0));
  REQUIRE(devices.at(1).users.size() == 1);
  CHECK((devices.at(1).users[0].process == "route" && devices.at(1).users[0].path == "eth0"));
}

TEST_CASE("volumes on a disk, and a bond or a bridge of a port, are users of their devices") {
  const SmallHost host;
  fs::create_directories(host.root / "sys/class/block/nvme0n1/nvme0n1p1");
  fs::create_directories(host.root / "sys/class/block/nvme0n1p1/holders/dm-0");  // proc/mounts: /dev/mapper/…
  fs::create_directories(host.root / "sys/bus/pci/devices/0000:00:12.0/net/eth0/upper_bond0");
  const auto devices = host.devices();
  REQUIRE(devices.at(0).users.size() == 1);
  CHECK(in_words(devices.at(0).users[0]) == "/dev/nvme0n1p1 is part of dm-0");
  REQUIRE(devices.at(1).users.size() == 1);
  CHECK(in_words(devices.at(1).users[0]) == "eth0 is part of bond0");
}

TEST_CASE("a port with an IPv6 address is used, one that is merely up is not") {
  const SmallHost host;
  const std::string link =
      "fe800000000000000000000000000000 40 00000000000000000000000000000000 00 "
      "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n"
      "ff000000000000000000000000000000 08 00000000000000000000000000000000 00 "
      "00000000000000000000000000000000 00000100 00000004 00000000 00000001     eth0\n";
  host.write("proc/net/ipv6_route", link);
  CHECK(host.devices().at(1).users.empty());
  host.write("proc/net/ipv6_route",
             "20010db8000000000000000000000000 40 00000000000000000000000000000000 00 "
             "00000000000000000000000000000000 00000100 00000001 00000000 00000001     eth0\n" +
                 link);
  REQUIRE(host.devices().at(1).users.size() == 1);
  CHECK(in_words(host.devices().at(1).users[0]) == "eth0 has a route");
}

TEST_CASE("who has a device through iommufd has its own node open") {
  const SmallHost host;
  fs::create_directories(host.root / "sys/bus/pci/devices/0000:00:12.0/vfio-dev/vfio3");
  host.write("proc/77/comm", "qemu-system-x86\n");
  fs::create_directories(host.root / "proc/77/fd");
  fs::create_symlink("/dev/vfio/devices/vfio3", host.root / "proc/77/fd/9");
  REQUIRE(host.devices().at(1).users.size() == 1);
  CHECK(in_words(host.devices().at(1).users[0]) ==
        "qemu-system-x86 (pid 77) has /dev/vfio/devices/vfio3 open");
}

TEST_CASE("a process that draws has its card's node under /dev/dri open") {
  const SmallHost host;
  const auto cards = host.root / "sys/bus/pci/devices/0000:00:12.0/drm";
  fs::create_directories(cards / "card1");
  fs::create_directories(cards / "renderD129");
  host.write("proc/77/comm", "Xorg\n");
  fs::create_directories(host.root / "proc/77/fd");
  fs::create_symlink("/dev/dri/card0", host.root / "proc/77/fd/3");  // another card's
  fs::create_symlink("/dev/dri/renderD129", host.root / "proc/77/fd/4");
  const auto devices = host.devices();
  REQUIRE(devices.at(1).users.size() == 1);
  CHECK(in_words(devices.at(1).users[0]) == "Xorg (pid 77) has /dev/dri/renderD129 open");
}

TEST_CASE("a disk that several controllers may reach is used through its head") {
  const SmallHost host;
  const auto controller = host.root / "sys/bus/pci/devices/0000:00:11.0/nvme/nvme3";
  fs::remove_all(controller.parent_path());
  fs::create_directories(controller / "nvme0c3n1");
  host.write("proc/1/mounts", "/dev/nvme0n1p1 /mnt/disk ext4 rw 0 0\n");
  host.write("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 1048572 0 -2\n");
  const auto disk = host.devices().at(0).users;
  REQUIRE(disk.size() == 2);
  CHECK(disk[0].path == "/dev/nvme0n1p1");
  CHECK(disk[1].path == "/dev/nvme0n1");
}

}  // namespace
}  // namespace virtrain::vmctl
