#include "vmctl/machine/host_words.h"

#include <sys/klog.h>

#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds program_deadline{10};  // NVML may hang with a card that fell off the bus
constexpr std::size_t most_bytes = 8U << 20;

/// Runs a program and returns its output; nothing if it is not installed, fails or hangs.
std::optional<std::string> output_of(const std::vector<std::string>& command) {
  CommandOptions options;
  options.deadline = program_deadline;
  options.max_output_bytes = most_bytes;
  try {
    auto result = run_command(command, options);
    if (result.exit_status == 0) { return std::move(result.out); }
  } catch (const Error&) { return std::nullopt; }
  return std::nullopt;
}

/// "Fabric Manager version is : 535.129.03", "libvirtd (libvirt) 9.0.0", "QEMU emulator version 7.2.22 (…)":
/// the first word that begins with a digit.
std::string version_in(const std::string& text) {
  const auto first_line = text.substr(0, text.find('\n'));
  for (const auto word : words_of(first_line)) {
    if (word.front() >= '0' && word.front() <= '9') { return std::string(word); }
  }
  return "";
}

/// Output of a program on this host, or its recorded output.
std::optional<std::string> words_from(const fs::path& root, const std::vector<std::string>& command,
                                      const char* recorded) {
  return root == "/" ? output_of(command) : read_file(root / "var/lib/virtrain" / recorded);
}

/// The text between two others; empty without them.
std::string between(const std::string& line, std::string_view before, char after) {
  const auto begin = line.find(before);
  const auto end = begin == line.npos ? line.npos : line.find(after, begin + before.size());
  return end == line.npos ? "" : line.substr(begin + before.size(), end - begin - before.size());
}

}  // namespace

/// syslog(2). Others than root may not read it on most hosts.
std::optional<std::string> kernel_log() {
  constexpr int read_all = 3;
  constexpr int buffer_size = 10;
  const int size = ::klogctl(buffer_size, nullptr, 0);
  if (size <= 0) { return std::nullopt; }
  std::string text(static_cast<std::size_t>(size), '\0');
  const int length = ::klogctl(read_all, text.data(), size);
  if (length < 0) { return std::nullopt; }
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::map<std::string, std::string> vgpu_schedulers(const std::string& log) {
  std::map<std::string, std::string> policies;
  // "NVRM: GPU at 0000:3b:00.0 has software scheduler DISABLED with policy BEST_EFFORT."
  for (const auto& line : split(log, '\n')) {
    const auto card = between(line, "GPU at ", ' ');
    const auto policy = between(line, "policy ", '.');
    if (card.empty() || policy.empty() || line.find("software scheduler") == line.npos) { continue; }
    policies[card] = policy;
  }
  return policies;
}

std::string vgpu_scheduler_words(const std::string& log) {
  std::set<std::string> different;
  std::vector<std::string> each;
  for (const auto& [card, policy] : vgpu_schedulers(log)) {
    different.insert(policy);
    each.push_back(card + " " + policy);
  }
  return different.size() == 1 ? *different.begin() : join(each, ", ");
}

std::map<std::string, std::string> words_to_record() {
  std::map<std::string, std::string> words;
  const auto add = [&](const char* name, std::optional<std::string> text) {
    if (text && !text->empty()) { words[name] = std::move(*text); }
  };
  add("dmesg.txt", kernel_log());
  add("nvidia-smi-query.xml", output_of({"nvidia-smi", "-q", "-x"}));
  add("nvidia-smi-topo.txt", output_of({"nvidia-smi", "topo", "-m"}));
  add("nv-fabricmanager-version.txt", output_of({"nv-fabricmanager", "--version"}));
  add("fmpm-list.json", output_of({"fmpm", "-l"}));
  add("libvirtd-version.txt", output_of({"libvirtd", "--version"}));
  add("qemu-version.txt", output_of({"qemu-system-x86_64", "--version"}));
  return words;
}

std::optional<std::string> fabric_partition_list(const fs::path& root) {
  return words_from(root, {"fmpm", "-l"}, "fmpm-list.json");
}

std::map<std::string, std::string> write_orderings(const std::string& text) {
  std::map<std::string, std::string> orderings;
  std::string device;
  for (const auto& line : split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() > 1 && words[0] == "Device:") { device = words[1]; }
    // The last column is what holds: by the next start of the card, or now.
    if (words.size() > 1 && words[0] == "PCI_WR_ORDERING") { orderings[device] = words.back(); }
  }
  return orderings;
}

std::string qemu_version(const fs::path& root) {
  const auto version =
      version_in(words_from(root, {"qemu-system-x86_64", "--version"}, "qemu-version.txt").value_or(""));
  return version.empty() ? "" : "QEMU " + version;
}

HostWords read_host_words(const fs::path& root) {
  const bool live = root == "/";
  const auto said = [&](const std::vector<std::string>& command, const char* recorded) {
    return words_from(root, command, recorded);
  };
  std::error_code ignored;
  HostWords words;
  words.kernel_log = live ? kernel_log() : read_file(root / "var/lib/virtrain/dmesg.txt");
  if (!live || fs::exists("/proc/driver/nvidia/gpus", ignored)) {
    words.gpus = read_gpu_reports(said({"nvidia-smi", "-q", "-x"}, "nvidia-smi-query.xml").value_or(""));
  }
  words.fabric_manager =
      version_in(said({"nv-fabricmanager", "--version"}, "nv-fabricmanager-version.txt").value_or(""));
  for (const auto* daemon : {"libvirtd", "virtqemud"}) {  // one for all drivers, or one each
    if (words.versions.libvirt.empty()) {
      words.versions.libvirt = version_in(said({daemon, "--version"}, "libvirtd-version.txt").value_or(""));
    }
  }
  words.versions.hypervisor = qemu_version(root);
  if (!live || fs::exists("/sys/module/mlx5_core", ignored)) {
    words.write_ordering =
        write_orderings(said({"mlxconfig", "q", "PCI_WR_ORDERING"}, "mlxconfig-query.txt").value_or(""));
  }
  return words;
}

}  // namespace virtrain::vmctl
