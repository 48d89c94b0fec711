#include "tests/vmctl/doctor/checks/examples.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/catch.h"
#include "vmctl/devices/device_users.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

const Change as_it_is = [](HostTree&) {};

Change writes(const fs::path& file, const std::string& text) {
  return [=](const HostTree& tree) { tree.write(file, text); };
}

Change both(const Change& first, const Change& second) {
  return [=](HostTree& tree) {
    first(tree);
    second(tree);
  };
}

namespace {

/// Trees of some hundred small files are made and removed two hundred times, which a disk takes a minute for.
fs::path quick_folder() {
  return fs::is_directory("/dev/shm") ? "/dev/shm" : fs::temp_directory_path();
}

}  // namespace

HostTree::HostTree(const std::string& host)
    : root(quick_folder() / fmt::format("virtrain-checks-{}", ::getpid())) {
  fs::remove_all(root);
  fs::copy(fs::path(VIRTRAIN_BINARY_DIR) / "hosts" / host, root,
           fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

HostTree::~HostTree() {
  std::error_code ignored;
  fs::remove_all(root, ignored);
}

void HostTree::write(const fs::path& file, const std::string& text) const {
  fs::create_directories((root / file).parent_path());
  fs::remove(root / file);
  std::ofstream(root / file) << text << "\n";
}

void HostTree::link(const fs::path& file, const std::string& target) const {
  fs::create_directories((root / file).parent_path());
  fs::remove(root / file);
  fs::create_symlink(target, root / file);
}

namespace {

void put(std::string& bytes, std::size_t at, unsigned word) {
  bytes[at] = static_cast<char>(word & 0xff);
  bytes[at + 1] = static_cast<char>(word >> 8);
}

}  // namespace

void HostTree::write_config(const std::string& address, unsigned capability, unsigned control,
                            unsigned ability) const {
  std::string bytes(4096, '\0');
  // An unrelated capability first (AER), which points to the one at 0x148.
  put(bytes, 0x100, 0x0001);
  put(bytes, 0x102, 0x1480 | 2);
  put(bytes, 0x148, capability);
  put(bytes, 0x14a, 1);
  put(bytes, 0x148 + 4, ability);
  put(bytes, 0x148 + 6, control);
  std::ofstream(root / "sys/bus/pci/devices" / address / "config", std::ios::binary) << bytes;
}

void HostTree::write_express_config(const std::string& address, unsigned device_control,
                                    unsigned link_control_2) const {
  std::string bytes(256, '\0');
  put(bytes, 0x06, 0x0010);  // it has capabilities: power management first, which points to PCI Express
  put(bytes, 0x34, 0x40);
  put(bytes, 0x40, 0x6001);
  put(bytes, 0x60, 0x0010);
  put(bytes, 0x62, 0x0002);
  put(bytes, 0x60 + 0x08, device_control);
  put(bytes, 0x60 + 0x30, link_control_2);
  std::ofstream(root / "sys/bus/pci/devices" / address / "config", std::ios::binary) << bytes;
}

void HostTree::write_gpu_reports(const std::map<std::string, std::string>& by_address) const {
  std::string xml = "<?xml version=\"1.0\" ?>\n<nvidia_smi_log>";
  for (const auto& [address, inside] : by_address) {
    xml += fmt::format("<gpu id=\"0000{}\">{}</gpu>", address, inside);
  }
  write("var/lib/virtrain/nvidia-smi-query.xml", xml + "</nvidia_smi_log>");
}

void HostTree::process(int pid, const std::string& name) const {
  write(fmt::format("proc/{}/comm", pid), name);
}

DeviceDemand& HostTree::plan() {
  if (!demand_) { demand_.emplace(); }
  return *demand_;
}

void HostTree::want(const std::vector<DeviceGrant>& grants, std::uint64_t memory_bytes,
                    std::optional<int> numa_node) {
  VmDemand vm{{}, memory_bytes, numa_node};
  const DeviceHost all{root, load_inventory(root)};
  for (const auto& grant : grants) {
    const auto* device = all.find(grant.address);
    vm.devices.push_back(placed(grant, device == nullptr ? HostDevice{} : *device));
  }
  plan().vms.push_back(std::move(vm));
}

DeviceHost HostTree::host() const {
  DeviceHost host{root,   load_inventory(root), leased, quarantined, read_host_words(root), try_kvm(root),
                  demand_};
  find_users(root, host.inventory.devices);
  find_users(root, host.inventory.other_devices);
  return host;
}

Finding HostTree::examine(const std::string& id) const {
  for (const auto& check : device_checks()) {
    if (id == check.id) { return vmctl::examine(check, host()); }
  }
  FAIL("no check " << id);
  return {};
}

}  // namespace virtrain::vmctl
