#include "vmctl/machine/host_words.h"

#include <pugixml.hpp>
#include <sys/klog.h>

#include <algorithm>
#include <set>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "common/text/units.h"

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

namespace {

using Node = pugi::xml_node;

std::string text_of(const Node& gpu, const char* path) {
  const auto text = std::string(trim(gpu.select_node(path).node().text().get()));
  return text == "N/A" ? "" : text;
}

/// "Enabled" and "Disabled", "Yes" and "No".
std::optional<bool> flag(const Node& gpu, const char* path) {
  const auto text = text_of(gpu, path);
  if (text == "Enabled" || text == "Yes" || text == "Active") { return true; }
  if (text == "Disabled" || text == "No" || text == "Not Active") { return false; }
  return std::nullopt;
}

/// True where one of them is, false where one says so and none is, else unknown.
std::optional<bool> any_flag(const Node& gpu, const std::vector<const char*>& paths) {
  std::optional<bool> any;
  for (const auto* path : paths) {
    if (const auto one = flag(gpu, path)) { any = any.value_or(false) || *one; }
  }
  return any;
}

/// "250.00 W".
std::optional<double> watts(const Node& gpu, const std::vector<const char*>& paths) {
  for (const auto* path : paths) {
    const auto text = text_of(gpu, path);
    if (const auto number = parse_number(text.substr(0, text.find(' ')))) { return number; }
  }
  return std::nullopt;
}

/// Every "…uncorrectable…" counter since the driver was loaded; their names change from version to version.
std::optional<std::uint64_t> uncorrected_errors(const Node& gpu) {
  std::optional<std::uint64_t> sum;
  for (const auto& counter : gpu.select_node("ecc_errors/volatile").node().children()) {
    if (std::string_view(counter.name()).find("uncorrectable") == std::string_view::npos) { continue; }
    if (const auto count = parse_integer(trim(counter.text().get())); count && *count >= 0) {
      sum = sum.value_or(0) + static_cast<std::uint64_t>(*count);
    }
  }
  return sum;
}

/// "clocks_event_reason_hw_slowdown" (before 535 "clocks_throttle_reason_…") as "hw_slowdown".
std::vector<std::string> slowdowns(const Node& gpu) {
  std::vector<std::string> active;
  for (const auto* block : {"clocks_event_reasons", "clocks_throttle_reasons"}) {
    for (const auto& reason : gpu.child(block).children()) {
      const std::string name = reason.name();
      const auto* const harmful = std::ranges::find_if(
          harmful_slowdowns, [&](const char* one) { return name.ends_with(std::string("reason_") + one); });
      if (harmful != harmful_slowdowns.end() && trim(reason.text().get()) == "Active") {
        active.emplace_back(*harmful);
      }
    }
  }
  return active;
}

GpuReport read_report(const Node& gpu) {
  GpuReport report;
  report.persistence = flag(gpu, "persistence_mode");
  report.mig = flag(gpu, "mig_mode/current_mig");
  report.mig_pending = flag(gpu, "mig_mode/pending_mig");
  report.ecc = flag(gpu, "ecc_mode/current_ecc");
  report.ecc_pending = flag(gpu, "ecc_mode/pending_ecc");
  report.uncorrected_ecc_errors = uncorrected_errors(gpu);
  report.repair_pending =
      any_flag(gpu, {"remapped_rows/remapped_row_pending", "retired_pages/pending_retirement",
                     "retired_pages/pending_blacklist"});
  report.repair_failed = flag(gpu, "remapped_rows/remapped_row_failure");
  report.mixed_vgpu_sizes = flag(gpu, "gpu_virtualization_mode/vgpu_heterogeneous_mode");
  report.virtualization = text_of(gpu, "gpu_virtualization_mode/virtualization_mode");
  for (const auto* product : {"vgpu_software_licensed_product", "grid_licensed_product"}) {  // before 13.0
    if (report.licence.empty()) {
      report.licence = text_of(gpu, (product + std::string("/license_status")).c_str());
    }
  }
  report.fabric_state = text_of(gpu, "fabric/state");
  report.fabric_status = text_of(gpu, "fabric/status");
  report.slowdowns = slowdowns(gpu);
  report.power_limit_w = watts(gpu, {"gpu_power_readings/current_power_limit", "power_readings/power_limit"});
  report.default_power_limit_w =
      watts(gpu, {"gpu_power_readings/default_power_limit", "power_readings/default_power_limit"});
  return report;
}

}  // namespace

std::map<std::string, GpuReport> read_gpu_reports(const std::string& xml) {
  std::map<std::string, GpuReport> reports;
  pugi::xml_document document;
  if (!document.load_string(xml.c_str())) { return reports; }
  for (const auto& gpu : document.child("nvidia_smi_log").children("gpu")) {
    const std::string address = gpu.attribute("id").value();
    if (address.size() == 16) { reports.emplace(kernel_address(address), read_report(gpu)); }
  }
  return reports;
}

}  // namespace virtrain::vmctl
