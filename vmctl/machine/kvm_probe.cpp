#include "vmctl/machine/kvm_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/kvm.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <string_view>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/guest/archives.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/version_limits.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* qemu_program = "qemu-system-x86_64";

/// Why no probe is worth its time; nothing if one is. A user takes these out of the way within a boot, so
/// they are looked up each time.
std::optional<std::string> obstacle(const Inventory& host, const KvmSubject& subject) {
  if (!host.has_kvm_device) { return "there is no /dev/kvm"; }
  if (!contains(host.cpu_flags, std::string("vmx")) && !contains(host.cpu_flags, std::string("svm"))) {
    return "/dev/kvm exists, but /proc/cpuinfo has neither vmx nor svm: stock kernels hang under such a KVM";
  }
  if (::access("/dev/kvm", R_OK | W_OK) != 0) {
    return "/dev/kvm cannot be opened by this user (join group kvm)";
  }
  if (subject.qemu.empty()) {
    return fmt::format("no probe guest could be started: {} is not on PATH", qemu_program);
  }
  if (::access(subject.kernel.c_str(), R_OK) != 0) {
    return fmt::format("no probe guest could be started: {} cannot be read", subject.kernel.string());
  }
  return std::nullopt;
}

constexpr std::string_view initrd_prefix = "probe-", initrd_suffix = ".initrd";

/// Those of probes that were interrupted.
void remove_old_initrds(const fs::path& cache) {
  for (const auto& name : entry_names(cache)) {
    if (!name.starts_with(initrd_prefix) || !name.ends_with(initrd_suffix)) { continue; }
    const auto pid = parse_integer(
        name.substr(initrd_prefix.size(), name.size() - initrd_prefix.size() - initrd_suffix.size()));
    std::error_code ignored;
    if (pid && !process_info(static_cast<pid_t>(*pid))) { fs::remove(cache / name, ignored); }
  }
}

/// Whether the kernel under KVM prints our init's line within the deadline.
std::optional<std::string> boot_failure(const Inventory& host, const fs::path& kernel, const fs::path& cache,
                                        std::chrono::milliseconds deadline) {
  remove_old_initrds(cache);
  const auto initrd = cache / fmt::format("{}{}{}", initrd_prefix, ::getpid(), initrd_suffix);
  const auto init = read_file(sibling_program("virtrain-guest-init")).value_or("");
  write_file_atomically(initrd, newc_archive("init", init));
  CommandOptions options;
  options.deadline = deadline;
  options.ends_with_us = true;  // a guest that hangs would else run for ever after Ctrl-C
  const char* cpu =
      cpu_traits(host, qemu_version("/")).hide_arch_capabilities ? "host,arch-capabilities=off" : "host";
  std::optional<std::string> failure;
  try {
    auto command = split(fmt::format("{} -accel kvm -machine q35 -cpu {} -m 256 -display none -nodefaults "
                                     "-no-reboot -serial stdio",
                                     qemu_program, cpu),
                         ' ');
    command.insert(command.end(), {"-kernel", kernel.string(), "-initrd", initrd.string(), "-append",
                                   "console=ttyS0 panic=-1 quiet vt.probe"});
    const auto result = run_command(command, options);
    if (result.out.find(probe_line) == std::string::npos) {
      failure = "a probe guest ended without booting: " + printable(trim(result.err));
    }
  } catch (const Error& error) {
    failure = error.code() == ErrorCode::timeout
                  ? fmt::format("a probe guest did not boot within {} s", deadline.count() / 1000)
                  : "no probe guest could be started: " + error.message();
  }
  std::error_code ignored;
  fs::remove(initrd, ignored);
  return failure;
}

/// A hypervisor without hardware of its own is one that emulates: its vendor string says so.
bool host_is_emulated() {
  return read_value("/sys/class/dmi/id/sys_vendor").value_or("") == "QEMU" &&
         read_file("/proc/cpuinfo").value_or("").find("QEMU TCG") != std::string::npos;
}

/// A guest that boots in one second on hardware needs ten where the host itself is emulated.
constexpr int emulated_patience = 8;

/// Whether others leave a guest too little of this host's cores to boot in time.
bool host_is_busy(const Inventory& host) {
  double load = 0;
  return ::getloadavg(&load, 1) == 1 && load >= static_cast<double>(host.cores.size());
}

struct Judgement {
  KvmVerdict verdict;
  bool keep = false;
};

Judgement judge(const Inventory& host, const fs::path& kernel, const fs::path& cache,
                std::chrono::milliseconds deadline) {
  const bool busy = host_is_busy(host);  // before the probe adds to it
  const bool emulated = host_is_emulated();
  const auto started = monotonic_ns();
  const auto failure = boot_failure(host, kernel, cache, emulated ? deadline * emulated_patience : deadline);
  const std::chrono::nanoseconds took(monotonic_ns() - started);
  const bool keep = keeps_verdict(!failure, took, busy);
  if (failure) { return {{Virtualization::tcg, *failure}, keep}; }
  const auto words =
      fmt::format("a probe guest booted in {:.1f} s", std::chrono::duration<double>(took).count());
  if (emulated) {
    return {{Virtualization::kvm_on_emulated, words + "; this host is itself emulated"}, keep};
  }
  if (host.is_virtual_machine) {
    return {{Virtualization::kvm_nested, words + "; this host is itself a virtual machine"}, keep};
  }
  return {{Virtualization::kvm, words}, keep};
}

std::optional<KvmVerdict> kept_verdict(const fs::path& file) {
  const auto known = parse_json_or_null(read_file(file).value_or(""));
  if (!known.is_object()) { return std::nullopt; }
  const auto virtualization = enum_of<Virtualization>(known.value("virtualization", ""));
  if (!virtualization) { return std::nullopt; }
  return KvmVerdict{*virtualization, known.value("reason", "")};
}

void keep_verdict(const fs::path& file, const KvmVerdict& verdict) {
  const nlohmann::json json = {{"virtualization", to_string(verdict.virtualization)},
                               {"reason", verdict.reason}};
  write_file_atomically(file, json.dump() + "\n");
}

}  // namespace

std::string kvm_verdict_key(const KvmSubject& subject) {
  struct stat kernel {};
  struct stat qemu {};
  struct stat device {};
  ::stat(subject.kernel.c_str(), &kernel);
  ::stat(subject.qemu.c_str(), &qemu);
  ::stat(subject.device.c_str(), &device);
  const auto text = fmt::format("{} {} {} {} {} {} {} {:o} {} {} {}", boot_id(), subject.kernel.string(),
                                kernel.st_size, kernel.st_mtime, subject.qemu.string(), qemu.st_size,
                                qemu.st_mtime, device.st_mode, device.st_uid, device.st_gid, ::geteuid());
  return sha256(text).substr(0, 16);
}

bool keeps_verdict(bool booted, std::chrono::nanoseconds took, bool busy) {
  constexpr std::chrono::seconds soon_learnt_again(3);
  return booted || (took >= soon_learnt_again && !busy);
}

KvmVerdict probe_kvm(const fs::path& kernel, const fs::path& cache, std::chrono::milliseconds deadline) {
  fs::create_directories(cache);
  const auto host = load_machine();
  const KvmSubject subject{kernel, on_path(qemu_program), "/dev/kvm"};
  if (const auto reason = obstacle(host, subject)) { return {Virtualization::tcg, *reason}; }
  const auto file = cache / ("kvm-" + kvm_verdict_key(subject) + ".json");
  if (auto known = kept_verdict(file)) { return *std::move(known); }
  auto [verdict, keep] = judge(host, kernel, cache, deadline);
  if (keep) { keep_verdict(file, verdict); }
  return verdict;
}

namespace {

KvmTrial try_kvm_here() {
  KvmTrial trial;
  const UniqueFd device(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  trial.open_error = device ? 0 : errno;
  if (device) { trial.api_version = ::ioctl(device.get(), KVM_GET_API_VERSION, 0); }
  try {
    trial.guest = probe_kvm(find_guest_kernel().file, cache_dir());
  } catch (const Error& error) {
    trial.guest.reason = std::string("no probe guest was started: ") + error.what();
  }
  return trial;
}

}  // namespace

std::optional<KvmTrial> try_kvm(const fs::path& root) {
  if (root == "/") { return try_kvm_here(); }
  const auto text = read_file(root / "var/lib/virtrain/kvm.json");
  const auto record = parse_json_or_null(text.value_or(""));
  if (!record.is_object()) { return std::nullopt; }
  KvmTrial trial;
  trial.open_error = record.value("open_error", 0);
  trial.api_version = record.value("api_version", 0);
  trial.guest.virtualization =
      enum_of<Virtualization>(record.value("virtualization", "")).value_or(Virtualization::tcg);
  trial.guest.reason = record.value("reason", "");
  return trial;
}

CpuTraits cpu_traits(const Inventory& host, const std::string& qemu) {
  const bool is_amd = host.cpu_vendor == "AuthenticAMD";
  return {.hide_arch_capabilities = is_amd && !is_since(qemu, 10, 1), .threads_need_topoext = is_amd};
}

}  // namespace virtrain::vmctl
