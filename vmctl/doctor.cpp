#include "vmctl/doctor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <linux/kvm.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "common/subprocess.h"
#include "common/text.h"
#include "common/unique_fd.h"
#include "common/units.h"
#include "vmctl/cleanup.h"
#include "vmctl/devices/device_checks.h"
#include "vmctl/inventory.h"
#include "vmctl/kvm_probe.h"
#include "vmctl/libvirt_daemon.h"
#include "vmctl/libvirt_hypervisor.h"
#include "vmctl/paths.h"
#include "vmctl/supermin.h"

namespace virtrain::vmctl {

const char* to_string(Severity severity) {
  switch (severity) {
    case Severity::blocks:
      return "B";
    case Severity::invalidates:
      return "I";
    case Severity::warns:
      return "W";
    case Severity::notes:
      return "N";
  }
  return "?";
}

const char* to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return "ok";
    case CheckStatus::failed:
      return "failed";
    case CheckStatus::skipped:
      return "skipped";
  }
  return "unknown";
}

namespace {

namespace fs = std::filesystem;
constexpr const char* kUri = "qemu:///system";

Finding ok(std::string id, Severity severity, std::string found) {
  return {std::move(id), severity, CheckStatus::ok, std::move(found), "", true};
}
Finding failed(std::string id, Severity severity, std::string found, std::string fix) {
  return {std::move(id), severity, CheckStatus::failed, std::move(found), std::move(fix), true};
}
Finding skipped(std::string id, Severity severity, std::string found) {
  return {std::move(id), severity, CheckStatus::skipped, std::move(found), "", true};
}

// KVM findings warn: without KVM the same VMs run emulated, marked as such.

Finding check_kvm_device() {
  constexpr int kApi = 12;
  const UniqueFd device(::open("/dev/kvm", O_RDWR | O_CLOEXEC));
  const int reason = errno;
  if (!device)
    return failed("KVM-1", Severity::warns, "/dev/kvm: " + errno_error("", reason).message(),
                  reason == EACCES
                      ? "join group kvm; until then VMs are emulated"
                      : "enable VT-x or AMD-V in the firmware, load kvm_intel or kvm_amd; until then VMs "
                        "are emulated");
  const int version = ::ioctl(device.get(), KVM_GET_API_VERSION, 0);
  if (version != kApi)
    return failed("KVM-1", Severity::warns, fmt::format("KVM API {}", version), "update the kernel");
  return ok("KVM-1", Severity::warns, "/dev/kvm opens, API 12");
}

Finding check_kvm_boots() {
  try {
    const auto verdict = probe_kvm(newest_guest_kernel(), cache_dir());
    if (uses_kvm(verdict.virtualization)) return ok("KVM-2", Severity::warns, verdict.reason);
    return failed(
        "KVM-2", Severity::warns, verdict.reason,
        "VMs run emulated (TCG) here and their ratios are not comparable; use a host with working KVM");
  } catch (const Error& error) {
    return skipped("KVM-2", Severity::warns, error.what());
  }
}

Finding check_nesting(const Inventory& host) {
  if (!host.is_virtual_machine) return ok("KVM-3", Severity::invalidates, "the host is no virtual machine");
  return failed("KVM-3", Severity::invalidates, "the host is itself a virtual machine",
                "figures are nested and say so; measure on bare metal");
}

Finding check_kvm_mode() {
  struct stat status {};
  if (::stat("/dev/kvm", &status) != 0) return skipped("KVM-4", Severity::warns, "there is no /dev/kvm");
  const group* owner = ::getgrgid(status.st_gid);
  const auto found = fmt::format("{:04o} group {}", status.st_mode & 07777, owner ? owner->gr_name : "?");
  const bool right =
      owner != nullptr && std::string(owner->gr_name) == "kvm" && (status.st_mode & 0660) == 0660;
  if (right) return ok("KVM-4", Severity::warns, found);
  return failed(
      "KVM-4", Severity::warns, found,
      "chgrp kvm /dev/kvm; chmod 660 /dev/kvm (libvirt otherwise probes QEMU for 80 s at every start; `run` "
      "as root does it)");
}

Finding check_libvirt() {
  std::string why;
  if (libvirt_answers(kUri, &why)) {
    try {
      const auto versions = connect_libvirt(kUri)->versions();
      return ok("VIRT-1", Severity::blocks, "libvirt " + versions.libvirt + ", " + versions.hypervisor);
    } catch (const Error& error) {
      why = error.what();
    }
  }
  const bool installed = fs::exists("/usr/sbin/libvirtd") || fs::exists("/usr/sbin/virtqemud");
  if (installed && ::geteuid() == 0)
    return ok("VIRT-1", Severity::blocks, "libvirt is installed, not running; `run` starts and stops it");
  if (installed)
    return failed("VIRT-1", Severity::blocks, why, "start libvirtd, or run as root; join group libvirt");
  return failed("VIRT-1", Severity::blocks, "libvirt is not installed",
                "apt-get install libvirt-daemon-system libvirt-clients");
}

Finding check_program(const char* id, const std::vector<std::string>& command, const char* package) {
  try {
    const auto result = run_command(command);
    const auto line = result.out.substr(0, result.out.find('\n'));
    if (result.exit_status == 0) return ok(id, Severity::blocks, std::string(trim(line)));
    return failed(id, Severity::blocks, std::string(trim(result.err)), std::string("reinstall ") + package);
  } catch (const Error& error) {
    return failed(id, Severity::blocks, error.message(), std::string("apt-get install ") + package);
  }
}

Finding check_guest_kernel() {
  try {
    return ok("IMG-2", Severity::blocks, "guests boot " + find_guest_kernel().version);
  } catch (const Error& error) {
    return failed("IMG-2", Severity::blocks, error.message(), "apt-get install linux-image-cloud-amd64");
  }
}

Finding check_memory(const Inventory& host) {
  constexpr std::uint64_t kLeast = 2ULL << 30;
  const auto found =
      format_size(host.available_memory_bytes) + " available of " + format_size(host.memory_bytes);
  if (host.available_memory_bytes >= kLeast) return ok("MEM-0", Severity::warns, found);
  return failed("MEM-0", Severity::warns, found,
                "two small VMs need about 2 GiB (guest memory and 350 MiB each)");
}

Finding check_cores(const Inventory& host) {
  std::vector<int> ids;
  for (const auto& core : host.cores) ids.push_back(core.id);
  const auto found = fmt::format("{} usable: {}", ids.size(), format_cpu_list(ids));
  if (ids.size() >= 2) return ok("CPU-0", Severity::warns, found);
  return failed("CPU-0", Severity::warns, found,
                "trials of two nodes need two cores, or oversubscribe: true");
}

Finding check_dnsmasq_folder() {
  constexpr const char* kFolder = "/var/lib/libvirt/dnsmasq";
  if (fs::exists(kFolder)) return ok("NET-1", Severity::warns, std::string(kFolder) + " exists");
  if (::geteuid() == 0)
    return ok("NET-1", Severity::warns, std::string(kFolder) + " is missing; `run` makes it");
  return failed("NET-1", Severity::warns, std::string(kFolder) + " is missing",
                std::string("mkdir -p ") + kFolder);
}

Finding check_apparmor() {
  const bool on = read_value("/sys/module/apparmor/parameters/enabled").value_or("N") == "Y";
  return ok(
      "SEC-1", Severity::notes,
      on ? "AppArmor is on: look for denials of QEMU in dmesg if a VM cannot open its image" : "no AppArmor");
}

Finding check_gpus(const Inventory& host) {
  auto none = skipped("GPU-0", Severity::notes, "no NVIDIA GPU found; scenarios with the cpu backend run");
  std::vector<std::string> addresses;
  for (const auto& device : host.devices)
    if (device.device_class == DeviceClass::gpu) addresses.push_back(device.function.address);
  if (addresses.empty()) return none;
  return ok("GPU-0", Severity::notes, join(addresses, " "));
}

/// Addresses that live runs hold.
std::vector<std::string> leased_devices() {
  std::vector<std::string> addresses;
  if (!fs::exists(state_dir() / "leases.db")) return addresses;
  for (const auto& [address, owner] : LeaseJournal().device_owners())
    if (is_alive(owner)) addresses.push_back(address);
  return addresses;
}

Finding check_leaks() {
  try {
    std::unique_ptr<Hypervisor> hypervisor;
    if (libvirt_answers(kUri)) hypervisor = connect_libvirt(kUri);
    std::unique_ptr<LeaseJournal> journal;
    if (fs::exists(state_dir() / "leases.db")) journal = std::make_unique<LeaseJournal>();
    const auto view = find_leftovers(hypervisor.get(), journal.get());
    if (view.leftovers.empty()) return ok("LEAK-1", Severity::warns, "nothing left behind");
    std::vector<std::string> names;
    for (const auto& leftover : view.leftovers)
      names.push_back(std::string(to_string(leftover.kind)) + " " + leftover.name);
    return failed("LEAK-1", Severity::warns, join(names, ", "), "virtrain clean");
  } catch (const Error& error) {
    return skipped("LEAK-1", Severity::warns, error.what());
  }
}

}  // namespace

bool blocks(const Finding& finding) {
  return finding.severity == Severity::blocks && finding.status == CheckStatus::failed;
}

std::vector<Finding> examine_host(const Inventory& host) {
  return {check_kvm_device(),
          check_kvm_boots(),
          check_nesting(host),
          check_kvm_mode(),
          check_libvirt(),
          check_program("VIRT-2", {"qemu-system-x86_64", "--version"}, "qemu-system-x86"),
          check_program("IMG-1", {"supermin", "--version"}, "supermin"),
          check_guest_kernel(),
          check_program("MPI-1", {"mpirun.openmpi", "--version"}, "openmpi-bin"),
          check_memory(host),
          check_cores(host),
          check_dnsmasq_folder(),
          check_apparmor(),
          check_gpus(host),
          check_leaks()};
}

std::vector<Finding> examine_devices(const Inventory& inventory) {
  DeviceHost host{"/", inventory, leased_devices()};
  find_users(host.root, host.inventory.devices);
  std::vector<Finding> findings;
  for (const auto& check : device_checks()) findings.push_back(examine(check, host));
  return findings;
}

std::vector<Finding> examine_all(const Inventory& inventory) {
  auto findings = examine_host(inventory);
  const auto devices = examine_devices(inventory);
  findings.insert(findings.end(), devices.begin(), devices.end());
  return findings;
}

}  // namespace virtrain::vmctl
