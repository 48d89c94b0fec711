#include "vmctl/api/pci.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

// Bits of a line of sysfs' "resource" file (include/linux/ioport.h).
constexpr std::uint64_t resource_memory = 0x200;
constexpr std::uint64_t resource_prefetch = 0x2000;
constexpr std::uint64_t resource64_bit = 0x100000;
constexpr const char* pci_devices = "sys/bus/pci/devices";
constexpr std::size_t bar_count = 6;  // further lines are the expansion ROM and SR-IOV's windows

int small_number(const fs::path& file, int otherwise) {
  const auto text = read_value(file);
  const auto number = text ? parse_integer(*text) : std::nullopt;
  return number ? static_cast<int>(*number) : otherwise;
}

PciLink read_link(const fs::path& folder, const std::string& which) {
  PciLink link{read_value(folder / (which + "_link_speed")).value_or(""),
               small_number(folder / (which + "_link_width"), 0)};
  // A function that has no PCIe link reads "Unknown" and 255 lanes.
  if (link.speed.starts_with("Unknown") || link.width == 255) { return {}; }
  return link;
}

/// Lines "0x<start> 0x<end> 0x<flags>".
std::vector<Bar> read_bars(const fs::path& folder) {
  std::vector<Bar> bars;
  const auto lines = split(read_file(folder / "resource").value_or(""), '\n');
  for (std::size_t i = 0; i < std::min(lines.size(), bar_count); ++i) {
    const auto fields = split(lines[i], ' ');
    if (fields.size() != 3) { continue; }
    std::array<std::uint64_t, 3> numbers{};
    for (std::size_t k = 0; k < 3; ++k) { numbers[k] = std::strtoull(fields[k].c_str(), nullptr, 16); }
    const auto [start, end, flags] = numbers;
    if (end <= start || (flags & resource_memory) == 0) { continue; }
    bars.push_back({static_cast<int>(i), start, end - start + 1, (flags & resource64_bit) != 0,
                    (flags & resource_prefetch) != 0});
  }
  return bars;
}

/// A domain has four hex digits, and more behind Intel VMD: "10000:e1:00.0".
bool is_pci_address(const std::string& name) {
  const auto colon = name.find(':');
  return colon != std::string::npos && colon >= 4 && name.size() == colon + 8 && name[colon + 3] == ':' &&
         name[colon + 6] == '.';
}

/// "…/pci0000:16/0000:16:02.0/0000:17:00.0": the root complex and the bridges above the device.
void read_path(const fs::path& folder, PciFunction& function) {
  std::error_code failure;
  const auto real = fs::canonical(folder, failure);
  if (failure) { return; }
  for (const auto& part : real.parent_path()) {
    const auto name = part.string();
    if (is_pci_address(name)) { function.bridges.push_back(name); }
    if (name.starts_with("pci") && name.find(':') != std::string::npos) {
      function.root_complex = name;
      function.bridges.clear();
    }
  }
}

void read_iommu_group(const fs::path& folder, PciFunction& function) {
  const auto name = link_name(folder / "iommu_group");
  const auto number = parse_integer(name);
  if (!number) { return; }
  function.iommu_group = static_cast<int>(*number);
  for (const auto& member : entries_of(folder / "iommu_group/devices")) {
    function.iommu_group_members.push_back(member.filename().string());
  }
}

/// virtfn0, virtfn1, … in the order of their numbers.
void read_virtual_functions(const fs::path& folder, PciFunction& function) {
  function.physical_function = link_name(folder / "physfn");
  function.virtual_functions_possible = small_number(folder / "sriov_totalvfs", 0);
  function.virtual_function_offset = small_number(folder / "sriov_offset", 0);
  function.virtual_function_stride = small_number(folder / "sriov_stride", 0);
  for (int i = 0;; ++i) {
    auto address = link_name(folder / ("virtfn" + std::to_string(i)));
    if (address.empty()) { return; }
    function.virtual_functions.push_back(std::move(address));
  }
}

/// Unknown where a driver that does not let go of the device keeps everybody from looking.
std::string read_override(const fs::path& folder) {
  try {
    const auto driver = read_locked_value(folder / "driver_override").value_or("");
    return driver == "(null)" ? "" : driver;
  } catch (const Error&) { return ""; }
}

/// Only the ids of a virtual function read as ones, so more than these.
bool configuration_is_ones(const fs::path& folder) {
  constexpr std::size_t readable_by_all = 64;
  const auto file = open_to_read(folder / "config");
  const auto bytes = file ? read_at_most(file.get(), readable_by_all) : std::nullopt;
  return bytes && bytes->size() == readable_by_all && bytes->find_first_not_of('\xff') == std::string::npos;
}

PciFunction read_function(const fs::path& folder) {
  PciFunction function;
  function.address = folder.filename().string();
  function.folder = folder;
  function.vendor = read_value(folder / "vendor").value_or("");
  function.device = read_value(folder / "device").value_or("");
  function.class_code = read_value(folder / "class").value_or("");
  function.driver = link_name(folder / "driver");
  function.driver_override = read_override(folder);
  function.numa_node = small_number(folder / "numa_node", -1);
  function.link = read_link(folder, "current");
  function.link_possible = read_link(folder, "max");
  function.bars = read_bars(folder);
  const auto methods = read_value(folder / "reset_method").value_or("");
  for (const auto method : words_of(methods)) { function.reset_methods.emplace_back(method); }
  function.power_state = read_value(folder / "power_state").value_or("");
  // Reading it would wake a function that sleeps.
  if (function.power_state != "D3cold") { function.reads_ones = configuration_is_ones(folder); }
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
    if (line.empty() || line.starts_with('#') || line.starts_with("\t\t")) { continue; }
    if (!is_device) {
      if (!vendor_name.empty()) {
        return vendor_name;  // the vendor's devices end here, without this one
      }
      if (line.starts_with(vendor + "  ")) { vendor_name = std::string(trim(line.substr(vendor.size()))); }
      continue;
    }
    if (!vendor_name.empty() && line.substr(1).starts_with(device + "  ")) {
      return vendor_name + " " + std::string(trim(line.substr(1 + device.size())));
    }
  }
  return vendor_name.empty() ? std::nullopt : std::optional(vendor_name);
}

}  // namespace

bool PciFunction::has_driver_for_vfio() const {
  std::error_code ignored;
  return fs::exists(folder / "vfio-dev", ignored);
}

std::string assignment_in_words(const PciFunction& function) {
  const auto& methods = function.reset_methods;
  return fmt::format(
      "{}, {}",
      function.iommu_group ? fmt::format("IOMMU group {}", *function.iommu_group) : "no IOMMU group",
      methods.empty() ? "no reset method" : "resets by " + join(methods, " "));
}

std::string slot_of(const std::string& address) {
  return address.substr(0, address.find('.'));
}

std::optional<std::string> virtual_function_address(const PciFunction& physical, int index) {
  const auto place = static_cast<std::size_t>(index);
  if (index < 0 || index >= physical.virtual_functions_possible) { return std::nullopt; }
  if (place < physical.virtual_functions.size()) { return physical.virtual_functions[place]; }
  unsigned domain = 0, bus = 0, slot = 0, function = 0;
  if (std::sscanf(physical.address.c_str(), "%x:%x:%x.%x", &domain, &bus, &slot, &function) != 4) {
    return std::nullopt;
  }
  if (physical.virtual_function_offset <= 0 || (index > 0 && physical.virtual_function_stride <= 0)) {
    return std::nullopt;
  }
  // Eight bits of bus, five of slot, three of function, added up as one number.
  const auto routing_id =
      (bus << 8U | slot << 3U | function) + static_cast<unsigned>(physical.virtual_function_offset) +
      static_cast<unsigned>(index) * static_cast<unsigned>(physical.virtual_function_stride);
  return fmt::format("{:04x}:{:02x}:{:02x}.{}", domain, routing_id >> 8U & 0xffU, routing_id >> 3U & 0x1fU,
                     routing_id & 7U);
}

std::vector<PciFunction> read_pci_functions(const fs::path& root) {
  std::vector<PciFunction> functions;
  for (const auto& folder : entries_of(root / pci_devices)) { functions.push_back(read_function(folder)); }
  return functions;
}

std::optional<PciFunction> read_pci_function(const fs::path& root, const std::string& address) {
  const auto folder = root / pci_devices / address;
  std::error_code ignored;
  if (!fs::exists(folder, ignored)) { return std::nullopt; }
  return read_function(folder);
}

std::optional<std::string> pci_name(const fs::path& root, const std::string& vendor,
                                    const std::string& device) {
  for (const auto& base : {root, fs::path("/")}) {
    auto ids = open_stream(base / "usr/share/misc/pci.ids");
    if (!ids) { continue; }
    if (auto name = find_name(ids, hex_digits(vendor), hex_digits(device))) { return name; }
  }
  return std::nullopt;
}

namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_bytes = 4096;  ///< a page, as sysfs has it
constexpr int answer_fd = 3;              ///< the only descriptor that the process keeps

/// Only calls that are safe between fork and exec: this process has threads.
[[noreturn]] void read_and_exit(const char* file, int answer) {
  ::setpgid(0, 0);
  ::dup2(answer, answer_fd);
  ::syscall(SYS_close_range, 0U, answer_fd - 1U, 0U);
  ::syscall(SYS_close_range, answer_fd + 1U, ~0U, 0U);
  std::array<char, most_bytes> text;  // NOLINT: filled by read
  const int descriptor = ::open(file, O_RDONLY | O_CLOEXEC);
  const auto bytes = descriptor < 0 ? -1 : ::read(descriptor, text.data(), text.size());
  ::_exit(bytes >= 0 && ::write(answer_fd, text.data(), static_cast<std::size_t>(bytes)) == bytes ? 0 : 1);
}

/// Whether the file is part of a recorded tree, where no other user can delay the read.
bool is_plain(const fs::path& file) {
  struct statfs status {};
  const bool in_sysfs = ::statfs(file.c_str(), &status) == 0 && status.f_type == SYSFS_MAGIC;
  std::error_code ignored;
  return !in_sysfs && fs::is_regular_file(file, ignored);
}

}  // namespace

std::optional<std::string> read_locked_value(const fs::path& file, std::chrono::milliseconds deadline) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) { return std::nullopt; }
  if (is_plain(file)) { return read_value(file); }
  const auto operation = "read " + file.string();
  auto [from, to] = make_pipe();
  const char* const path = file.c_str();
  const pid_t process = ::fork();
  if (process < 0) { throw errno_error(operation, errno); }
  if (process == 0) { read_and_exit(path, to.get()); }
  to = UniqueFd();
  if (!becomes_readable(from.get(), deadline)) {
    ::kill(process, SIGKILL);
    throw Error(operation, ErrorCode::timeout,
                fmt::format("the kernel has not answered within {} s: a driver holds the device's lock, "
                            "perhaps because it does not let go of it (dmesg)",
                            deadline.count() / 1000));
  }
  std::string text(most_bytes, '\0');
  const auto bytes = ::read(from.get(), text.data(), text.size());
  int status = 0;
  ::waitpid(process, &status, 0);
  if (bytes < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0) { return std::nullopt; }
  text.resize(static_cast<std::size_t>(bytes));
  return std::string(trim(text));
}

}  // namespace virtrain::vmctl
