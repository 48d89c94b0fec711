#include "vmctl/devices/pci_function.h"

#include <algorithm>
#include <array>
#include <fstream>

#include "common/text.h"
#include "common/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

// Bits of a line of sysfs' "resource" file (include/linux/ioport.h).
constexpr std::uint64_t kResourceMemory = 0x200;
constexpr std::uint64_t kResourcePrefetch = 0x2000;
constexpr std::uint64_t kResource64Bit = 0x100000;
constexpr std::size_t kBarCount = 6;  // further lines are the expansion ROM and SR-IOV's windows

/// Last part of a link's target; empty if there is no such link.
std::string link_name(const fs::path& link) {
  std::error_code failure;
  const auto target = fs::read_symlink(link, failure);
  return failure ? "" : target.filename().string();
}

int small_number(const fs::path& file, int otherwise) {
  const auto text = read_value(file);
  const auto number = text ? parse_integer(*text) : std::nullopt;
  return number ? static_cast<int>(*number) : otherwise;
}

PciLink read_link(const fs::path& folder, const std::string& which) {
  PciLink link{read_value(folder / (which + "_link_speed")).value_or(""),
               small_number(folder / (which + "_link_width"), 0)};
  // What is no PCIe device reads "Unknown" and 255 lanes.
  if (link.speed.starts_with("Unknown") || link.width == 255) return {};
  return link;
}

/// Lines "0x<start> 0x<end> 0x<flags>".
std::vector<Bar> read_bars(const fs::path& folder) {
  std::vector<Bar> bars;
  const auto lines = split(read_file(folder / "resource").value_or(""), '\n');
  for (std::size_t i = 0; i < std::min(lines.size(), kBarCount); ++i) {
    const auto fields = split(lines[i], ' ');
    if (fields.size() != 3) continue;
    std::array<std::uint64_t, 3> numbers{};
    for (std::size_t k = 0; k < 3; ++k) numbers[k] = std::strtoull(fields[k].c_str(), nullptr, 16);
    const auto [start, end, flags] = numbers;
    if (end <= start || (flags & kResourceMemory) == 0) continue;
    bars.push_back({static_cast<int>(i), end - start + 1, (flags & kResource64Bit) != 0,
                    (flags & kResourcePrefetch) != 0});
  }
  return bars;
}

bool is_pci_address(const std::string& name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.';
}

/// "…/pci0000:16/0000:16:02.0/0000:17:00.0": the root complex and the bridges above the device.
void read_path(const fs::path& folder, PciFunction& function) {
  std::error_code failure;
  const auto real = fs::canonical(folder, failure);
  if (failure) return;
  for (const auto& part : real.parent_path()) {
    const auto name = part.string();
    if (is_pci_address(name)) function.bridges.push_back(name);
    if (name.starts_with("pci") && name.find(':') != std::string::npos) {
      function.root_complex = name;
      function.bridges.clear();
    }
  }
}

void read_iommu_group(const fs::path& folder, PciFunction& function) {
  const auto name = link_name(folder / "iommu_group");
  const auto number = parse_integer(name);
  if (!number) return;
  function.iommu_group = static_cast<int>(*number);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder / "iommu_group/devices", ignored))
    function.iommu_group_members.push_back(entry.path().filename().string());
  std::sort(function.iommu_group_members.begin(), function.iommu_group_members.end());
}

/// virtfn0, virtfn1, … in the order of their numbers.
void read_virtual_functions(const fs::path& folder, PciFunction& function) {
  function.physical_function = link_name(folder / "physfn");
  function.virtual_functions_possible = small_number(folder / "sriov_totalvfs", 0);
  for (int i = 0;; ++i) {
    auto address = link_name(folder / ("virtfn" + std::to_string(i)));
    if (address.empty()) return;
    function.virtual_functions.push_back(std::move(address));
  }
}

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  for (auto& word : split(text, ' '))
    if (!word.empty()) found.push_back(std::move(word));
  return found;
}

PciFunction read_function(const fs::path& folder) {
  PciFunction function;
  function.address = folder.filename().string();
  function.folder = folder;
  function.vendor = read_value(folder / "vendor").value_or("");
  function.device = read_value(folder / "device").value_or("");
  function.class_code = read_value(folder / "class").value_or("");
  function.driver = link_name(folder / "driver");
  function.driver_override = read_value(folder / "driver_override").value_or("");
  if (function.driver_override == "(null)") function.driver_override.clear();
  function.numa_node = small_number(folder / "numa_node", -1);
  function.link = read_link(folder, "current");
  function.link_possible = read_link(folder, "max");
  function.bars = read_bars(folder);
  function.reset_methods = words(read_value(folder / "reset_method").value_or(""));
  function.power_state = read_value(folder / "power_state").value_or("");
  read_path(folder, function);
  read_iommu_group(folder, function);
  read_virtual_functions(folder, function);
  return function;
}

/// Without "0x".
std::string hex_digits(const std::string& id) {
  return id.starts_with("0x") ? id.substr(2) : id;
}

/// The file's format: "10de  NVIDIA Corporation", below it "\t20f1  GA100 [A100 PCIe 40GB]".
std::optional<std::string> find_name(std::istream& ids, const std::string& vendor,
                                     const std::string& device) {
  std::string line, vendor_name;
  while (std::getline(ids, line)) {
    const bool is_device = line.starts_with('\t');
    if (line.empty() || line.starts_with('#') || line.starts_with("\t\t")) continue;
    if (!is_device) {
      if (!vendor_name.empty()) return vendor_name;  // the vendor's devices end here, without this one
      if (line.starts_with(vendor + "  ")) vendor_name = std::string(trim(line.substr(vendor.size())));
      continue;
    }
    if (!vendor_name.empty() && line.substr(1).starts_with(device + "  "))
      return vendor_name + " " + std::string(trim(line.substr(1 + device.size())));
  }
  return vendor_name.empty() ? std::nullopt : std::optional(vendor_name);
}

}  // namespace

bool PciFunction::has_driver_for_vfio() const {
  std::error_code ignored;
  return fs::exists(folder / "vfio-dev", ignored);
}

std::vector<PciFunction> read_pci_functions(const fs::path& root) {
  std::vector<PciFunction> functions;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(root / "sys/bus/pci/devices", ignored))
    functions.push_back(read_function(entry.path()));
  std::sort(functions.begin(), functions.end(),
            [](const auto& a, const auto& b) { return a.address < b.address; });
  return functions;
}

std::optional<std::string> pci_name(const fs::path& root, const std::string& vendor,
                                    const std::string& device) {
  for (const auto& base : {root, fs::path("/")}) {
    std::ifstream ids(base / "usr/share/misc/pci.ids");
    if (!ids) continue;
    if (auto name = find_name(ids, hex_digits(vendor), hex_digits(device))) return name;
  }
  return std::nullopt;
}

}  // namespace virtrain::vmctl
