#include "vmctl/devices/host_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/devices/pci.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds topology_deadline{10};  // NVML may hang with a card that fell off the bus
/// Where a recorded host keeps what `nvidia-smi topo -m` printed there.
constexpr const char* recorded_topology = "var/lib/virtrain/nvidia-smi-topo.txt";

std::optional<DeviceClass> class_of(const PciFunction& function) {
  if (function.vendor == nvidia && function.is_display()) { return DeviceClass::gpu; }
  if (function.vendor == nvidia && function.class_code.starts_with("0x0680")) {
    return DeviceClass::nvswitch;
  }
  if (is_there(function.folder / "infiniband")) { return DeviceClass::rdma_nic; }
  if (function.class_code.starts_with("0x06")) {
    return std::nullopt;  // bridges are lent to nobody
  }
  return DeviceClass::other;
}

/// "Model: \t\t NVIDIA A100-PCIE-40GB" lines of the driver's own file.
void read_driver_words(const fs::path& root, HostDevice& device) {
  const auto file = root / "proc/driver/nvidia/gpus" / device.function.address / "information";
  for (const auto& line : split(read_file(file).value_or(""), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) { continue; }
    const auto key = trim(std::string_view(line).substr(0, colon));
    const auto value = trim(std::string_view(line).substr(colon + 1));
    if (key == "Model") { device.name = std::string(value); }
    if (key == "GPU UUID") { device.uuid = std::string(value); }
    if (key == "Device Minor") {
      if (const auto minor = parse_integer(value)) { device.minor = static_cast<int>(*minor); }
    }
  }
}

void read_mig_instances(const fs::path& root, HostDevice& device) {
  if (!device.minor) { return; }
  const auto folder =
      root / "proc/driver/nvidia/capabilities" / ("gpu" + std::to_string(*device.minor)) / "mig";
  for (const auto& child : entries_of(folder)) {
    const auto name = child.filename().string();
    if (name.starts_with("gi")) { device.mig_instances.push_back(name); }
  }
}

/// "num_heads=1, …, max_instance=7": the number behind the last key; nothing without it.
std::optional<int> most_instances_of(const std::string& description) {
  constexpr std::string_view key = "max_instance=";
  const auto at = description.find(key);
  if (at == std::string::npos) { return std::nullopt; }
  const auto rest = std::string_view(description).substr(at + key.size());
  const auto count = parse_integer(trim(rest.substr(0, rest.find(','))));
  return count && *count > 0 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

std::vector<VgpuType> mdev_types(const fs::path& folder) {
  std::vector<VgpuType> types;
  for (const auto& child : entries_of(folder / "mdev_supported_types")) {
    VgpuType type{child.filename().string(), read_value(child / "name").value_or(""), {}, {}};
    if (const auto count = parse_integer(read_value(child / "available_instances").value_or(""))) {
      type.available_instances = static_cast<int>(*count);
    }
    type.most_instances = most_instances_of(read_value(child / "description").value_or(""));
    types.push_back(std::move(type));
  }
  return types;
}

/// Lines "ID    : vGPU Name" below a header of that very form; the header alone means full.
std::vector<VgpuType> vendor_vfio_types(const fs::path& folder) {
  std::vector<VgpuType> types;
  for (const auto& line : split(read_file(folder / "nvidia/creatable_vgpu_types").value_or(""), '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string::npos) { continue; }
    const auto id = trim(std::string_view(line).substr(0, colon));
    if (parse_integer(id)) {
      types.push_back({std::string(id), std::string(trim(line.substr(colon + 1))), {}, {}});
    }
  }
  return types;
}

/// Mediated devices are folders below their parent, by UUID.
std::vector<std::string> existing_mdevs(const fs::path& folder) {
  constexpr std::size_t uuid_length = 36;
  std::vector<std::string> found;
  for (const auto& child : entries_of(folder)) {
    const auto name = child.filename().string();
    if (name.size() != uuid_length || !is_there(child / "mdev_type")) { continue; }
    found.push_back(fmt::format("{} (type {})", name, link_name(child / "mdev_type")));
  }
  return found;
}

/// The file says 0 where there is none.
std::vector<std::string> existing_vgpu(const fs::path& folder) {
  const auto type = read_value(folder / "nvidia/current_vgpu_type").value_or("0");
  return type == "0" ? std::vector<std::string>() : std::vector{"type " + type};
}

/// "4: ACTIVE" is ACTIVE.
std::string after_colon(const std::string& text) {
  const auto colon = text.find(':');
  return std::string(trim(colon == std::string::npos ? text : text.substr(colon + 1)));
}

std::vector<NetworkPort> read_ports(const fs::path& folder) {
  const auto interfaces = entries_of(folder / "net");
  std::vector<NetworkPort> ports;
  for (const auto& adapter : entries_of(folder / "infiniband")) {
    for (const auto& port : entries_of(adapter / "ports")) {
      NetworkPort found;
      found.name = adapter.filename().string() + "/" + port.filename().string();
      found.state = after_colon(read_value(port / "state").value_or(""));
      found.rate = read_value(port / "rate").value_or("");
      found.link_layer = read_value(port / "link_layer").value_or("");
      if (!interfaces.empty()) {
        found.interface = interfaces.front().filename().string();
        if (const auto mtu = parse_integer(read_value(interfaces.front() / "mtu").value_or(""))) {
          found.mtu_bytes = static_cast<int>(*mtu);
        }
      }
      ports.push_back(std::move(found));
    }
  }
  return ports;
}

/// "AMD 0x74a1", "0x15b3:0x1021": where no database knows the device.
std::string ids_in_words(const PciFunction& pci) {
  if (pci.vendor == "0x1002") { return "AMD " + pci.device; }
  if (pci.vendor == "0x8086") { return "Intel " + pci.device; }
  return pci.vendor + ":" + pci.device;
}

HostDevice describe(const fs::path& root, PciFunction function, DeviceClass device_class) {
  HostDevice device;
  device.function = std::move(function);
  device.device_class = device_class;
  read_driver_words(root, device);
  const auto& pci = device.function;
  if (device.name.empty()) { device.name = pci_name(root, pci.vendor, pci.device).value_or(""); }
  if (device.name.empty()) { device.name = ids_in_words(pci); }
  std::tie(device.mechanism, device.mechanism_reason) = mechanism_of(pci);
  if (device.mechanism == Mechanism::mdev) {
    device.vgpu_types = mdev_types(pci.folder);
    device.vgpus = existing_mdevs(pci.folder);
  }
  if (device.mechanism == Mechanism::vendor_vfio) {
    device.vgpu_types = vendor_vfio_types(pci.folder);
    device.vgpus = existing_vgpu(pci.folder);
  }
  if (device_class == DeviceClass::gpu) { read_mig_instances(root, device); }
  if (device_class == DeviceClass::rdma_nic) { device.ports = read_ports(pci.folder); }
  device.interfaces = entry_names(pci.folder / "net");
  return device;
}

/// Reads nvidia-smi's NVLink topology, live or recorded. nvidia-smi needs the driver: without it the text is
/// empty.
std::string read_topology(const fs::path& root, const std::vector<HostDevice>& devices) {
  if (root != "/") { return read_file(root / recorded_topology).value_or(""); }
  const bool has_driver =
      std::ranges::any_of(devices, [](const auto& device) { return device.function.driver == "nvidia"; });
  if (!has_driver) { return ""; }
  CommandOptions options;
  options.deadline = topology_deadline;
  try {
    return run_command({"nvidia-smi", "topo", "-m"}, options).out;
  } catch (const Error&) {
    return "";  // not installed, or stuck: placement then goes without NVLink
  }
}

void add_nvlinks(const fs::path& root, std::vector<HostDevice>& devices) {
  std::vector<std::string> gpus;
  for (const auto& device : devices) {
    if (device.minor) { gpus.push_back(device.function.address); }
  }
  const auto peers = nvlink_peers(read_topology(root, devices), gpus);
  for (auto& device : devices) {
    const auto found = peers.find(device.function.address);
    if (found != peers.end()) { device.nvlink_peers = found->second; }
  }
}

}  // namespace

std::pair<Mechanism, std::string> mechanism_of(const PciFunction& function) {
  if (function.is_dead()) {
    return {Mechanism::none,
            "it answers with ones only, lost after a reset, as some are when VFIO resets them, or from the "
            "bus (switch "
            "the host off and on)"};
  }
  const auto has = [&](const char* name) { return is_there(function.folder / name); };
  if (!function.physical_function.empty() && has("nvidia/creatable_vgpu_types")) {
    return {Mechanism::vendor_vfio, "a virtual function of a driver with vendor-specific VFIO"};
  }
  if (has("mdev_supported_types")) { return {Mechanism::mdev, "a parent of mediated devices"}; }
  if (!function.iommu_group) {
    return {Mechanism::none, "it is in no IOMMU group (doctor's IOM-1: switch the IOMMU on)"};
  }
  if (function.driver == "vfio-pci" || function.has_driver_for_vfio()) {
    return {Mechanism::passthrough, "bound to " + function.driver + " already"};
  }
  if (!function.virtual_functions.empty()) {
    return {Mechanism::none, "its virtual functions are on: they are what a VM gets"};
  }
  if (function.vendor == nvidia && function.driver == "nvidia" && function.virtual_functions_possible > 0) {
    return {Mechanism::undecided,
            "SR-IOV is off: passthrough as it is; sriov-manage -e shows whether vGPUs are mdev or "
            "vendor-specific VFIO"};
  }
  return {Mechanism::passthrough,
          function.driver.empty() ? "no driver is bound" : "after " + function.driver + " is unbound"};
}

HostDevices read_host_devices(const fs::path& root) {
  HostDevices found;
  std::set<std::string> addresses;
  for (auto& function : read_pci_functions(root)) {
    addresses.insert(function.address);
    const auto device_class = class_of(function);
    if (!device_class) { continue; }
    auto& into = *device_class == DeviceClass::other ? found.others : found.devices;
    into.push_back(describe(root, std::move(function), *device_class));
  }
  for (const auto& parent : entries_of(root / "sys/class/mdev_bus")) {
    if (addresses.contains(parent.filename().string())) { continue; }
    PciFunction function;
    function.address = parent.filename().string();
    function.folder = parent;
    found.others.push_back(describe(root, std::move(function), DeviceClass::other));
  }
  add_nvlinks(root, found.devices);
  return found;
}

std::vector<HostDevice> read_devices(const fs::path& root, const std::vector<std::string>& addresses) {
  std::vector<HostDevice> devices;
  for (const auto& address : addresses) {
    auto function = read_pci_function(root, address);
    if (!function) { continue; }
    const auto device_class = class_of(*function).value_or(DeviceClass::other);
    devices.push_back(describe(root, std::move(*function), device_class));
  }
  return devices;
}

std::optional<std::string> loaded_nvidia_driver(const fs::path& root) {
  const auto text = read_file(root / "proc/driver/nvidia/version").value_or("");
  for (const auto word : words_of(std::string_view(text).substr(0, text.find('\n')))) {
    if (word.find('.') != std::string_view::npos &&
        word.find_first_not_of("0123456789.") == std::string_view::npos) {
      return std::string(word);
    }
  }
  return std::nullopt;
}

std::map<std::string, std::vector<std::string>> nvlink_peers(const std::string& topology,
                                                             const std::vector<std::string>& gpus) {
  std::map<std::string, std::vector<std::string>> peers;
  for (const auto& line : split(topology, '\n')) {
    const auto cells = words_of(line);
    if (cells.size() <= gpus.size() || !cells[0].starts_with("GPU")) { continue; }
    const auto row = parse_integer(cells[0].substr(3));
    // The header starts with GPU0 too, but its next word is GPU1.
    if (!row || *row < 0 || static_cast<std::size_t>(*row) >= gpus.size() || cells[1].starts_with("GPU")) {
      continue;
    }
    for (std::size_t column = 0; column < gpus.size(); ++column) {
      if (cells[column + 1].starts_with("NV")) {
        peers[gpus[static_cast<std::size_t>(*row)]].push_back(gpus[column]);
      }
    }
  }
  return peers;
}

}  // namespace virtrain::vmctl
