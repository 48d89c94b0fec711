#include "vmctl/doctor/doctor.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/leftovers.h"

namespace virtrain::vmctl {

namespace {

namespace fs = std::filesystem;
constexpr const char* uri = system_libvirt;

Finding ok(std::string id, Severity severity, std::string found) {
  return {std::move(id), severity, CheckStatus::ok, std::move(found), "", true};
}
Finding failed(std::string id, Severity severity, std::string found, std::string fix) {
  return {std::move(id), severity, CheckStatus::failed, std::move(found), std::move(fix), true};
}
Finding skipped(std::string id, Severity severity, std::string found) {
  return {std::move(id), severity, CheckStatus::skipped, std::move(found), "", true};
}

Finding check_mode(HostMode mode) {
  const auto& privileges = try_privileges();
  const auto lacks = what_it_lacks(mode);
  const auto& why = privileges.lacks_user_namespaces.empty() ? privileges.lacks_isolation
                                                             : privileges.lacks_user_namespaces;
  if (lacks.empty()) {
    return ok("MODE-1", Severity::notes, fmt::format("mode {}: everything", to_string(mode)));
  }
  return failed("MODE-1", Severity::notes,
                fmt::format("mode {}, without {}{}", to_string(mode), lacks,
                            mode == best_mode(privileges) ? fmt::format(" ({})", why) : ""),
                "run as root on a host that allows namespaces");
}

/// Without root's privileges a run starts a libvirt daemon of its own.
Finding check_private_libvirt() {
  if (fs::exists("/usr/sbin/libvirtd") || fs::exists("/usr/sbin/virtqemud")) {
    return ok("VIRT-1", Severity::blocks, "libvirt is installed; each run starts a daemon of its own");
  }
  return failed("VIRT-1", Severity::blocks, "libvirt is not installed",
                "apt-get install libvirt-daemon-system libvirt-clients");
}

Finding check_libvirt() {
  std::string why;
  auto state = look_at_libvirt(uri, &why);
  if (state == DaemonState::answers) {
    try {
      LibvirtDeadlines deadlines;
      deadlines.version = deadlines.query;  // doctor says that it is slow, and `run` waits
      const auto versions = connect_libvirt(uri, deadlines)->versions();
      return ok("VIRT-1", Severity::blocks, "libvirt " + versions.libvirt + ", " + versions.hypervisor);
    } catch (const Error& error) {
      why = error.what();
      if (error.code() == ErrorCode::timeout) { state = DaemonState::busy; }
    }
  }
  if (state == DaemonState::busy) {
    return ok(
        "VIRT-1", Severity::blocks,
        "libvirt's daemon runs and does not answer yet: for up to 80 s after its start it looks at QEMU; "
        "`run` waits for it");
  }
  const bool installed = fs::exists("/usr/sbin/libvirtd") || fs::exists("/usr/sbin/virtqemud");
  if (installed && ::geteuid() == 0) {
    return ok("VIRT-1", Severity::blocks, "libvirt is installed, not running; `run` starts and stops it");
  }
  if (installed) {
    return failed("VIRT-1", Severity::blocks, why, "start libvirtd, or run as root; join group libvirt");
  }
  return failed("VIRT-1", Severity::blocks, "libvirt is not installed",
                "apt-get install libvirt-daemon-system libvirt-clients");
}

Finding check_program(const char* id, const std::vector<std::string>& command, const char* package) {
  try {
    const auto result = run_command(command);
    const auto line = result.out.substr(0, result.out.find('\n'));
    if (result.exit_status == 0) { return ok(id, Severity::blocks, std::string(trim(line))); }
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
  constexpr std::uint64_t least = 2ULL << 30;
  const auto found =
      format_size(host.available_memory_bytes) + " available of " + format_size(host.memory_bytes);
  if (host.available_memory_bytes >= least) { return ok("MEM-0", Severity::warns, found); }
  return failed("MEM-0", Severity::warns, found,
                "two small VMs need about 2 GiB (guest memory and 350 MiB each)");
}

Finding check_cores(const Inventory& host) {
  std::vector<int> ids;
  for (const auto& core : host.cores) { ids.push_back(core.id); }
  const auto found = fmt::format("{} usable: {}", ids.size(), format_cpu_list(ids));
  const auto& quota = host.cpu_quota_cores;
  if (quota && *quota < static_cast<double>(ids.size())) {
    return failed("CPU-0", Severity::warns,
                  fmt::format("{}, but the cgroup of this process grants CPU time for {:.4g}", found, *quota),
                  fmt::format("{}, or plan nodes on fewer cores", vmctl::raise_cpu_quota));
  }
  if (ids.size() >= 2) { return ok("CPU-0", Severity::warns, found); }
  return failed("CPU-0", Severity::warns, found,
                "trials of two nodes need two cores, or oversubscribe: true");
}

Finding check_dnsmasq_folder() {
  constexpr const char* folder = "/var/lib/libvirt/dnsmasq";
  if (fs::exists(folder)) { return ok("NET-1", Severity::warns, std::string(folder) + " exists"); }
  if (::geteuid() == 0) {
    return ok("NET-1", Severity::warns, std::string(folder) + " is missing; `run` makes it");
  }
  return failed("NET-1", Severity::warns, std::string(folder) + " is missing",
                std::string("mkdir -p ") + folder);
}

Finding check_gpus(const Inventory& host) {
  auto none = skipped("GPU-0", Severity::notes, "no NVIDIA GPU found; scenarios with the cpu backend run");
  std::vector<std::string> addresses;
  for (const auto& device : host.devices) {
    if (device.device_class == DeviceClass::gpu) { addresses.push_back(device.function.address); }
  }
  if (addresses.empty()) { return none; }
  return ok("GPU-0", Severity::notes, join(addresses, " "));
}

/// What the journal says of devices: addresses that live runs hold, and what is in quarantine.
void add_journal(DeviceHost& host) {
  if (!fs::exists(state_dir() / "leases.db")) { return; }
  const LeaseJournal journal;
  for (const auto& [address, owner] : journal.device_owners()) {
    if (is_alive(owner)) { host.leased.push_back(address); }
  }
  for (const auto& device : journal.quarantined()) { host.quarantined[device.address] = device.reason; }
}

Finding check_leaks() {
  try {
    std::unique_ptr<Hypervisor> hypervisor;
    if (libvirt_answers(uri)) { hypervisor = connect_libvirt(uri); }
    std::unique_ptr<LeaseJournal> journal;
    if (fs::exists(state_dir() / "leases.db")) { journal = std::make_unique<LeaseJournal>(); }
    const auto view = find_leftovers(hypervisor.get(), journal.get());
    if (view.leftovers.empty()) { return ok("LEAK-0", Severity::warns, "nothing left behind"); }
    std::vector<std::string> names;
    for (const auto& leftover : view.leftovers) {
      names.push_back(std::string(to_string(leftover.kind)) + " " + leftover.name);
    }
    return failed("LEAK-0", Severity::warns, join(names, ", "), "virtrain clean");
  } catch (const Error& error) { return skipped("LEAK-0", Severity::warns, error.what()); }
}

}  // namespace

std::vector<Finding> examine_host(const Inventory& host, HostMode mode) {
  return {check_mode(mode),
          mode == HostMode::system ? check_libvirt() : check_private_libvirt(),
          check_program("VIRT-2", {"qemu-system-x86_64", "--version"}, "qemu-system-x86"),
          check_program("IMG-1", {"supermin", "--version"}, "supermin"),
          check_guest_kernel(),
          check_program("MPI-1", {"mpirun.openmpi", "--version"}, "openmpi-bin"),
          check_memory(host),
          check_cores(host),
          check_dnsmasq_folder(),
          check_gpus(host),
          check_leaks()};
}

namespace {

DeviceHost device_host(const Inventory& inventory, const fs::path& root) {
  DeviceHost host{root, inventory, {}, {}, read_host_words(root), try_kvm(root), {}};
  if (root == "/") { add_journal(host); }
  find_users(host.root, host.inventory.devices);
  find_users(host.root, host.inventory.other_devices);
  return host;
}

}  // namespace

std::vector<Finding> examine_devices(const Inventory& inventory, const fs::path& root) {
  const auto host = device_host(inventory, root);
  std::vector<Finding> findings;
  for (const auto& check : device_checks()) { findings.push_back(examine(check, host)); }
  return findings;
}

std::vector<Finding> examine_devices(const Inventory& inventory, const std::vector<DeviceDemand>& demands) {
  auto host = device_host(inventory, "/");
  std::vector<Finding> findings;
  for (const auto& demand : demands) {
    host.demand = demand;
    for (std::size_t i = 0; i < device_checks().size(); ++i) {
      auto finding = examine(device_checks()[i], host);
      if (findings.size() == i) {
        findings.push_back(std::move(finding));
      } else if (findings[i].status != CheckStatus::failed && finding.status != CheckStatus::skipped) {
        findings[i] = std::move(finding);
      }
    }
  }
  return findings;
}

}  // namespace virtrain::vmctl
