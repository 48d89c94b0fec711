#include "vmctl/devices/pci.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

/// Only calls that are safe between fork and exec: this process has threads. Keeps no descriptor of ours, or
/// a write that never ends would hold our locks and channels; and is of no group that a Ctrl-C reaches.
[[noreturn]] void write_and_exit(const char* file, const char* text, std::size_t bytes) {
  ::setpgid(0, 0);
  ::syscall(SYS_close_range, 0U, ~0U, 0U);
  const int descriptor = ::open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);  // as a shell's ">"
  if (descriptor < 0) { ::_exit(errno); }
  ::_exit(::write(descriptor, text, bytes) < 0 ? errno : 0);
}

bool ends_by(pid_t process, std::chrono::milliseconds deadline) {
  const UniqueFd handle(static_cast<int>(::syscall(SYS_pidfd_open, process, 0U)));
  if (!handle) { throw errno_error("watch process " + std::to_string(process), errno); }
  return becomes_readable(handle.get(), deadline);
}

}  // namespace

void write_sysfs(const fs::path& file, const std::string& text, std::chrono::milliseconds deadline) {
  const auto operation = fmt::format("write {} to {}", trim(text), file.string());
  const char* const path = file.c_str();
  const pid_t process = ::fork();
  if (process < 0) { throw errno_error(operation, errno); }
  if (process == 0) { write_and_exit(path, text.data(), text.size()); }
  if (!ends_by(process, deadline)) {
    ::kill(process, SIGKILL);
    throw Error(operation, ErrorCode::timeout,
                fmt::format("the kernel has not answered within {} s; process {} still waits for it",
                            deadline.count() / 1000, process));
  }
  int status = 0;
  if (::waitpid(process, &status, 0) < 0) { throw errno_error(operation, errno); }
  if (WIFSIGNALED(status)) {
    throw Error(operation, ErrorCode::io, fmt::format("killed by signal {}", WTERMSIG(status)));
  }
  if (WEXITSTATUS(status) != 0) { throw errno_error(operation, WEXITSTATUS(status)); }
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path pci_folder(const std::string& address) {
  return fs::path("/sys/bus/pci/devices") / address;
}

std::string bound_driver(const std::string& address) {
  return link_name(pci_folder(address) / "driver");
}

namespace {

constexpr std::size_t standard_bytes = 256;  // extended capabilities follow
constexpr unsigned acs_id = 0x000d;
constexpr unsigned express_id = 0x10;  // PCI Express, of the capabilities before them
constexpr unsigned ats_id = 0x000f;

/// Little-endian; 0 past the end.
unsigned word_at(const std::string& config, std::size_t offset) {
  if (offset + 2 > config.size()) { return 0; }
  return static_cast<unsigned char>(config[offset]) |
         static_cast<unsigned>(static_cast<unsigned char>(config[offset + 1])) << 8;
}

/// Each has its id, and from bit 20 on where the next one is.
std::optional<std::size_t> extended_capability(const std::string& config, unsigned id) {
  std::size_t offset = standard_bytes;
  for (int hops = 0; hops < 64 && offset >= standard_bytes && offset + 8 <= config.size(); ++hops) {
    if (word_at(config, offset) == id) { return offset; }
    offset = word_at(config, offset + 2) >> 4;
  }
  return std::nullopt;
}

/// A chain that begins at 0x34: a byte of id, a byte of where the next one is.
std::optional<std::size_t> express_capability(const std::string& config) {
  constexpr std::size_t header_bytes = 64;
  constexpr unsigned has_capabilities = 0x10;
  if ((word_at(config, 6) & has_capabilities) == 0) { return std::nullopt; }
  std::size_t offset = word_at(config, 0x34) & 0xfc;
  for (int hops = 0; hops < 48 && offset >= header_bytes && offset + 2 <= config.size(); ++hops) {
    const unsigned word = word_at(config, offset);
    if ((word & 0xff) == express_id) { return offset; }
    offset = word >> 8 & 0xfc;
  }
  return std::nullopt;
}

/// A register of the PCI Express capability; nothing where the configuration space ends before it.
std::optional<unsigned> express_word(const std::string& config, std::size_t offset) {
  const auto capability = express_capability(config);
  if (!capability || *capability + offset + 2 > config.size()) { return std::nullopt; }
  return word_at(config, *capability + offset);
}

}  // namespace

std::string read_pci_config(const PciFunction& function) {
  return read_file(function.folder / "config").value_or("");
}

std::optional<AcsControl> acs_control(const std::string& config) {
  const auto capability = extended_capability(config, acs_id);
  if (!capability) { return std::nullopt; }
  const unsigned control = word_at(config, *capability + 6);
  const auto bit = [&](unsigned which) { return (control >> which & 1U) != 0; };
  const bool can = (word_at(config, *capability + 4) >> 6 & 1U) != 0;
  return AcsControl{bit(2), bit(3), bit(4), bit(6), can};
}

std::optional<bool> ats_enabled(const std::string& config) {
  const auto capability = extended_capability(config, ats_id);
  if (!capability) { return std::nullopt; }
  return (word_at(config, *capability + 6) >> 15 & 1U) != 0;
}

std::optional<bool> relaxed_ordering(const std::string& config) {
  const auto control = express_word(config, 0x08);
  return control ? std::optional((*control >> 4 & 1U) != 0) : std::nullopt;
}

std::optional<double> target_link_speed(const std::string& config) {
  constexpr std::array speeds{0.0, 2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
  const unsigned generation = express_word(config, 0x30).value_or(0) & 0xf;
  return generation == 0 || generation >= speeds.size() ? std::nullopt : std::optional(speeds[generation]);
}

namespace {

/// The last line is the sum: "TOTAL_ERR_COR 0", "TOTAL_ERR_NONFATAL 0", "TOTAL_ERR_FATAL 0".
std::optional<std::uint64_t> total_in(const std::filesystem::path& file) {
  for (const auto& line : split(read_file(file).value_or(""), '\n')) {
    const auto words = words_of(line);
    if (words.size() != 2 || !words[0].starts_with("TOTAL_ERR")) { continue; }
    if (const auto number = parse_integer(words[1]); number && *number >= 0) {
      return static_cast<std::uint64_t>(*number);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<LinkErrors> read_link_errors(const PciFunction& function) {
  const auto correctable = total_in(function.folder / "aer_dev_correctable");
  const auto nonfatal = total_in(function.folder / "aer_dev_nonfatal");
  const auto fatal = total_in(function.folder / "aer_dev_fatal");
  if (!correctable && !nonfatal && !fatal) { return std::nullopt; }
  return LinkErrors{correctable.value_or(0), nonfatal.value_or(0), fatal.value_or(0)};
}

std::map<std::string, AcsControl> acs_above(const std::filesystem::path& root,
                                            const std::vector<const HostDevice*>& devices) {
  std::map<std::string, AcsControl> found;
  for (const auto* device : devices) {
    for (const auto& bridge : device->function.bridges) {
      PciFunction function;
      function.folder = root / "sys/bus/pci/devices" / bridge;
      if (const auto acs = acs_control(read_pci_config(function))) { found.emplace(bridge, *acs); }
    }
  }
  return found;
}

std::vector<std::string> acs_gaps(const std::map<std::string, AcsControl>& bridges) {
  std::vector<std::string> gaps;
  for (const auto& [bridge, acs] : bridges) {
    std::vector<std::string> missing;
    if (!acs.request_redirect) { missing.emplace_back("RR"); }
    if (!acs.completion_redirect) { missing.emplace_back("CR"); }
    if (!acs.upstream_forwarding) { missing.emplace_back("UF"); }
    if (!missing.empty()) { gaps.push_back(fmt::format("{} without {}", bridge, join(missing, " "))); }
  }
  return gaps;
}

bool allows_unsafe_interrupts(const std::filesystem::path& root) {
  return read_value(root / "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts") == "Y";
}

}  // namespace virtrain::vmctl
