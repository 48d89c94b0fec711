#include "vmctl/kvm_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "common/error.h"
#include "common/sha256.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/time.h"
#include "common/unique_fd.h"
#include "vmctl/devices/host_words.h"
#include "vmctl/devices/version_limits.h"
#include "vmctl/guest_image.h"
#include "vmctl/inventory.h"
#include "vmctl/newc.h"
#include "vmctl/node_settings.h"
#include "vmctl/paths.h"
#include "vmctl/process_info.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

bool has_flag(const Inventory& host, const char* flag) {
  return std::find(host.cpu_flags.begin(), host.cpu_flags.end(), flag) != host.cpu_flags.end();
}

/// Why no probe is worth its time; nothing if one is.
std::optional<std::string> obstacle(const Inventory& host) {
  if (!host.has_kvm_device) return "there is no /dev/kvm";
  if (!has_flag(host, "vmx") && !has_flag(host, "svm"))
    return "/dev/kvm exists, but /proc/cpuinfo has neither vmx nor svm: stock kernels hang under such a KVM";
  if (::access("/dev/kvm", R_OK | W_OK) != 0)
    return "/dev/kvm cannot be opened by this user (join group kvm)";
  return std::nullopt;
}

/// Whether the kernel under KVM prints our init's line within the deadline.
std::optional<std::string> boot_failure(const Inventory& host, const fs::path& kernel, const fs::path& cache,
                                        std::chrono::milliseconds deadline) {
  const auto initrd = cache / fmt::format("probe-{}.initrd", ::getpid());
  const auto init = read_file(sibling_program("virtrain-guest-init")).value_or("");
  write_file_atomically(initrd, newc_archive("init", init));
  CommandOptions options;
  options.deadline = deadline;
  const char* cpu = hides_arch_capabilities(host, qemu_version("/")) ? "host,arch-capabilities=off" : "host";
  std::optional<std::string> failure;
  try {
    const auto result = run_command({"qemu-system-x86_64",
                                     "-accel",
                                     "kvm",
                                     "-machine",
                                     "q35",
                                     "-cpu",
                                     cpu,
                                     "-m",
                                     "256",
                                     "-display",
                                     "none",
                                     "-nodefaults",
                                     "-no-reboot",
                                     "-serial",
                                     "stdio",
                                     "-kernel",
                                     kernel.string(),
                                     "-initrd",
                                     initrd.string(),
                                     "-append",
                                     "console=ttyS0 panic=-1 quiet vt.probe"},
                                    options);
    if (result.out.find(kProbeLine) == std::string::npos)
      failure = "a probe guest ended without booting: " + printable(trim(result.err));
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
constexpr int kEmulatedPatience = 8;

KvmVerdict judge(const fs::path& kernel, const fs::path& cache, std::chrono::milliseconds deadline) {
  const auto host = load_machine();
  if (const auto reason = obstacle(host)) return {Virtualization::tcg, *reason};
  const auto started = monotonic_ns();
  if (host_is_emulated()) deadline *= kEmulatedPatience;
  if (const auto reason = boot_failure(host, kernel, cache, deadline)) return {Virtualization::tcg, *reason};
  const auto took =
      fmt::format("a probe guest booted in {:.1f} s", static_cast<double>(monotonic_ns() - started) / 1e9);
  if (host_is_emulated()) return {Virtualization::kvm_on_emulated, took + "; this host is itself emulated"};
  if (host.is_virtual_machine)
    return {Virtualization::kvm_nested, took + "; this host is itself a virtual machine"};
  return {Virtualization::kvm, took};
}

}  // namespace

KvmVerdict probe_kvm(const fs::path& kernel, const fs::path& cache, std::chrono::milliseconds deadline) {
  fs::create_directories(cache);
  struct stat status {};
  ::stat(kernel.c_str(), &status);
  const auto key =
      sha256(fmt::format("{} {} {} {}", boot_id(), kernel.string(), status.st_size, status.st_mtime));
  const auto file = cache / ("kvm-" + key.substr(0, 16) + ".json");
  if (const auto text = read_file(file)) {
    const auto known = nlohmann::json::parse(*text, nullptr, false);
    const auto virtualization =
        known.is_object() ? parse_virtualization(known.value("virtualization", "")) : std::nullopt;
    if (virtualization) return {*virtualization, known.value("reason", "")};
  }
  auto verdict = judge(kernel, cache, deadline);
  const nlohmann::json json = {{"virtualization", to_string(verdict.virtualization)},
                               {"reason", verdict.reason}};
  write_file_atomically(file, json.dump() + "\n");
  return verdict;
}

namespace {

KvmTrial try_kvm_here() {
  KvmTrial trial;
  const UniqueFd device(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  trial.open_error = device ? 0 : errno;
  if (device) trial.api_version = ::ioctl(device.get(), KVM_GET_API_VERSION, 0);
  try {
    trial.guest = probe_kvm(newest_guest_kernel(), cache_dir());
  } catch (const Error& error) {
    trial.guest.reason = std::string("no probe guest was started: ") + error.what();
  }
  return trial;
}

}  // namespace

std::optional<KvmTrial> try_kvm(const fs::path& root) {
  if (root == "/") return try_kvm_here();
  const auto text = read_file(root / "var/lib/virtrain/kvm.json");
  const auto record = nlohmann::json::parse(text.value_or(""), nullptr, false);
  if (!record.is_object()) return std::nullopt;
  KvmTrial trial;
  trial.open_error = record.value("open_error", 0);
  trial.api_version = record.value("api_version", 0);
  trial.guest.virtualization =
      parse_virtualization(record.value("virtualization", "")).value_or(Virtualization::tcg);
  trial.guest.reason = record.value("reason", "");
  return trial;
}

bool hides_arch_capabilities(const Inventory& host, const std::string& qemu) {
  return host.cpu_vendor == "AuthenticAMD" && !is_since(qemu, 10, 1);
}

std::string fix_kvm_device() {
  constexpr const char* kDevice = "/dev/kvm";
  constexpr mode_t kMode = 0660;
  struct stat status {};
  if (::geteuid() != 0 || ::stat(kDevice, &status) != 0) return {};
  const group* kvm = ::getgrnam("kvm");
  if (kvm == nullptr || (status.st_gid == kvm->gr_gid && (status.st_mode & kMode) == kMode)) return {};
  if (::chown(kDevice, status.st_uid, kvm->gr_gid) != 0 || ::chmod(kDevice, kMode) != 0)
    throw errno_error("give /dev/kvm to group kvm", errno);
  return fmt::format(
      "gave /dev/kvm to group kvm with mode 0660 (it was {:04o}): libvirt would have probed QEMU anew, 80 s "
      "at each "
      "start",
      status.st_mode & 07777);
}

}  // namespace virtrain::vmctl
