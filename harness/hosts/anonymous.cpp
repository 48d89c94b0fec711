#include "harness/hosts/anonymous.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/text.h"

namespace virtrain::harness {
namespace {

namespace fs = std::filesystem;

bool is_hexadecimal(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// Whether the text has hexadecimal digits at each 'x' of the form, and else what the form has.
bool has_form(std::string_view text, std::string_view form) {
  if (text.size() != form.size()) { return false; }
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] == 'x' ? !is_hexadecimal(text.substr(i, 1)) : text[i] != form[i]) { return false; }
  }
  return true;
}

constexpr std::string_view uuid_form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
constexpr std::string_view mac_form = "xx:xx:xx:xx:xx:xx";
constexpr std::string_view interface_of_mac = "enx";  // systemd's name of an interface by its MAC address

bool is_ipv6_address(const std::string& word) {
  std::array<std::uint8_t, 16> bytes{};
  return ::inet_pton(AF_INET6, word.c_str(), bytes.data()) == 1;
}

/// A character of names, numbers and addresses.
bool is_of_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == ':' || c == '_';
}

/// Arguments of the kernel that decide how fast VMs are; others may name disks, servers and users.
constexpr std::array<std::string_view, 22> kept_arguments{"quiet",
                                                          "iommu",
                                                          "intel_iommu",
                                                          "amd_iommu",
                                                          "pci",
                                                          "pcie_acs_override",
                                                          "pcie_aspm",
                                                          "vfio-pci.ids",
                                                          "hugepages",
                                                          "hugepagesz",
                                                          "default_hugepagesz",
                                                          "isolcpus",
                                                          "nohz_full",
                                                          "rcu_nocbs",
                                                          "mitigations",
                                                          "nosmt",
                                                          "transparent_hugepage",
                                                          "numa_balancing",
                                                          "kvm-intel.nested",
                                                          "kvm-amd.nested",
                                                          "intel_idle.max_cstate",
                                                          "processor.max_cstate"};
/// Parts of lines of the kernel's log that checks read.
constexpr std::array<std::string_view, 4> kept_log{"NVRM", "vfio", "nvidia", "AER:"};
/// Elements of nvidia-smi's XML whose text is somebody's.
constexpr std::array<std::string_view, 5> emptied_elements{"serial", "board_id", "process_name",
                                                           "gpu_part_number", "chassis_serial_number"};

std::string kept_command_line(std::string_view text) {
  std::vector<std::string> kept;
  for (const auto word : words_of(trim(text))) {
    if (std::ranges::find(kept_arguments, word.substr(0, word.find('='))) != kept_arguments.end()) {
      kept.emplace_back(word);
    }
  }
  return join(kept, " ") + "\n";
}

template <typename Keep>
std::string kept_lines(std::string_view text, Keep&& keep) {
  if (text.ends_with('\n')) { text.remove_suffix(1); }
  std::string kept;
  for (const auto& line : split(text, '\n')) {
    if (keep(line)) { kept += line + "\n"; }
  }
  return kept;
}

std::string without_elements(std::string text) {
  for (const auto name : emptied_elements) {
    const auto begin = fmt::format("<{}>", name), end = fmt::format("</{}>", name);
    for (auto at = text.find(begin); at != std::string::npos; at = text.find(begin, at + begin.size())) {
      const auto from = at + begin.size();
      const auto to = text.find(end, from);
      if (to == std::string::npos) { break; }
      text.replace(from, to - from, "N/A");
    }
  }
  return text;
}

/// PCI Express extended capability 3, Device Serial Number: eight bytes behind its head.
std::string without_serial_number(std::string config) {
  const auto word = [&](std::size_t at) {
    return static_cast<unsigned>(static_cast<unsigned char>(config[at])) |
           static_cast<unsigned>(static_cast<unsigned char>(config[at + 1])) << 8;
  };
  constexpr std::size_t first = 0x100, length = 12;
  std::size_t at = first;
  for (int steps = 0; steps < 1000 && at >= first && at + length <= config.size(); ++steps) {
    if (word(at) == 3) { std::fill_n(config.begin() + static_cast<std::ptrdiff_t>(at) + 4, 8, '\0'); }
    at = word(at + 2) >> 4;
  }
  return config;
}

}  // namespace

Anonymiser::Anonymiser(std::string hostname) : hostname_(lower(std::move(hostname))) {}

std::string Anonymiser::numbered(const char* kind, std::string_view word,
                                 const std::function<std::string(std::size_t)>& make) {
  auto& known = others_[kind];
  auto [entry, is_new] = known.try_emplace(lower(std::string(word)));
  if (is_new) { entry->second = make(known.size()); }
  return entry->second;
}

std::string Anonymiser::replaced(std::string_view word) {
  const std::string text(word);
  const auto mac = [](std::size_t n) {
    return fmt::format("02:00:00:00:{:02x}:{:02x}", n >> 8 & 0xff, n & 0xff);
  };
  // "GPU-…" and "MIG-…" are UUIDs behind a word.
  const auto uuid = word.size() > uuid_form.size() ? word.substr(word.size() - uuid_form.size()) : word;
  if (has_form(uuid, uuid_form)) {
    return text.substr(0, text.size() - uuid.size()) + numbered("uuid", uuid, [](std::size_t n) {
             return fmt::format("00000000-0000-4000-8000-{:012x}", n);
           });
  }
  if (has_form(word, mac_form)) { return numbered("mac", word, mac); }
  if (word.starts_with(interface_of_mac) && word.size() == interface_of_mac.size() + 12 &&
      is_hexadecimal(word.substr(interface_of_mac.size()))) {
    return numbered("interface", word,
                    [](std::size_t n) { return fmt::format("enx0200000000{:02x}", n & 0xff); });
  }
  if (is_ipv4_address(text)) {
    return numbered("ipv4", word, [](std::size_t n) { return fmt::format("192.0.2.{}", n % 254 + 1); });
  }
  if (is_ipv6_address(text)) {
    return numbered("ipv6", word, [](std::size_t n) { return fmt::format("2001:db8::{:x}", n); });
  }
  const auto small = lower(text);
  const auto first_label = hostname_.substr(0, hostname_.find('.'));
  const bool is_host = may_name_host_ && !first_label.empty() &&
                       (small == hostname_ || small == first_label || small.starts_with(first_label + "."));
  return is_host ? "host" : text;
}

std::string Anonymiser::words(std::string_view text) {
  std::string all;
  for (std::size_t at = 0; at < text.size();) {
    auto end = at;
    while (end < text.size() && is_of_word(text[end])) { ++end; }
    if (end == at) {
      all += text[at++];
      continue;
    }
    auto word = text.substr(at, end - at);
    at = end;
    std::string_view behind;  // a sentence's full stop, or the colon of "host:"
    while (!word.empty() && (word.back() == '.' || word.back() == ':')) {
      behind = text.substr(end - behind.size() - 1, behind.size() + 1);
      word.remove_suffix(1);
    }
    all += replaced(word);
    all += behind;
  }
  return all;
}

std::string Anonymiser::content(const fs::path& path, std::string_view bytes) {
  // A host may be called "node" or "model", which the kernel's own files are full of.
  may_name_host_ = path == "proc/sys/kernel/hostname" || *path.begin() == "etc" || *path.begin() == "var";
  if (path.filename() == "config") { return without_serial_number(std::string(bytes)); }
  if (path == "proc/cmdline") { return kept_command_line(bytes); }
  if (path.filename() == "dmesg.txt") {
    return words(kept_lines(bytes, [](const std::string& line) {
      return std::ranges::any_of(kept_log, [&](auto part) { return line.find(part) != std::string::npos; });
    }));
  }
  if (path.extension() == ".xml") { return words(without_elements(std::string(bytes))); }
  if (*path.begin() == "etc") {
    return words(kept_lines(bytes, [](const std::string& line) { return !trim(line).starts_with('#'); }));
  }
  return words(bytes);
}

fs::path Anonymiser::path(const fs::path& path) {
  fs::path found;
  for (const auto& name : path) { found /= replaced(name.string()); }
  return found;
}

void make_anonymous(const fs::path& folder) {
  Anonymiser anonymous(read_value(folder / "proc/sys/kernel/hostname").value_or(""));
  std::vector<fs::path> files, folders;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_symlink()) { continue; }
    (entry.is_directory() ? folders : files).push_back(entry.path());
  }
  std::ranges::sort(files);
  for (const auto& file : files) {
    const auto bytes = read_file(file);
    if (!bytes) { throw errno_error("read " + file.string(), errno); }
    write_file_atomically(file, anonymous.content(file.lexically_relative(folder), *bytes));
  }
  std::ranges::sort(folders, std::ranges::greater());  // those below others first
  for (const auto& one : folders) {
    const auto name = anonymous.path(one.filename());
    if (name != one.filename()) { fs::rename(one, one.parent_path() / name); }
  }
}

}  // namespace virtrain::harness
