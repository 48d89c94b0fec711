#include <pwd.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <memory>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/text/cpu_list.h"
#include "common/text/units.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/guest/mirror/supermin.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/hypervisor.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/cleanup.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* uri = system_libvirt;

CheckAnswer mode_gives_everything(const HostInMode& host) {
  const auto& privileges = try_privileges();
  const auto lacks = what_it_lacks(host.mode);
  const auto& why = privileges.lacks_user_namespaces.empty() ? privileges.lacks_isolation
                                                             : privileges.lacks_user_namespaces;
  if (lacks.empty()) { return {fmt::format("run mode {}, with every feature", to_string(host.mode))}; }
  return {fmt::format("run mode {}, without {}{}", to_string(host.mode), lacks,
                      host.mode == best_mode(privileges) ? fmt::format(" ({})", why) : ""),
          "run as root on a host that allows namespaces"};
}

CheckAnswer folders_can_be_had(const HostInMode& host) {
  try {
    const auto folders = state_dir().string() + " and " + cache_dir().string();
    const auto closed = host.mode == HostMode::system ? closed_to_qemu() : "";
    if (closed.empty()) { return {folders + " can be written"}; }
    return {closed, "set VIRTRAIN_STATE_DIR and VIRTRAIN_CACHE_DIR, or use --mode namespaces or session",
            Severity::warns};  // qemu.conf may name a user that can
  } catch (const Error& error) {
    return {error.what(), "set VIRTRAIN_STATE_DIR and VIRTRAIN_CACHE_DIR to folders that you may write to"};
  }
}

/// libvirt as a user of a run's own: root's is QEMU's account, everybody else's his own.
CheckAnswer libvirt_has_its_user(const HostInMode& host) {
  if (host.mode == HostMode::system) { return {"libvirt's own user runs the VMs"}; }
  if (::geteuid() == 0) {
    const auto lacks = try_other_user();
    if (lacks.empty()) { return {"root may run libvirt as another user"}; }
    return {lacks + ", and libvirt does not run as root in mode " + to_string(host.mode),
            "add the capabilities CHOWN, SETUID and SETGID, or run as a user"};
  }
  if (const auto* account = ::getpwuid(::geteuid())) {
    return {fmt::format("{} runs the VMs", account->pw_name)};
  }
  return {fmt::format("user id {} has no account, and libvirt starts no VM for one", ::geteuid()),
          "give it a line in /etc/passwd, or run as a user with an account"};
}

bool libvirt_is_installed() {
  return fs::exists("/usr/sbin/libvirtd") || fs::exists("/usr/sbin/virtqemud");
}

CheckAnswer no_libvirt() {
  return {"libvirt is not installed", "apt-get install libvirt-daemon-system libvirt-clients"};
}

CheckAnswer system_libvirt_is_there() {
  std::string why;
  auto state = look_at_libvirt(uri, &why);
  if (state == DaemonState::answers) {
    try {
      LibvirtDeadlines deadlines;
      deadlines.version = deadlines.query;  // doctor says that it is slow, and `run` waits
      const auto versions = connect_libvirt(uri, deadlines)->versions();
      return {"libvirt " + versions.libvirt + ", " + versions.hypervisor};
    } catch (const Error& error) {
      why = error.what();
      if (error.code() == ErrorCode::timeout) { state = DaemonState::busy; }
    }
  }
  if (state == DaemonState::busy) {
    return {
        "libvirt's daemon runs and does not answer yet: for up to 80 s after its start it looks at QEMU; "
        "`run` waits for it"};
  }
  if (!libvirt_is_installed()) { return no_libvirt(); }
  if (::geteuid() == 0) { return {"libvirt is installed, not running; `run` starts and stops it"}; }
  return {why, "start libvirtd, or run as root; join group libvirt"};
}

/// Without root's privileges a run starts a libvirt daemon of its own.
CheckAnswer libvirt_is_there(const HostInMode& host) {
  if (host.mode == HostMode::system) { return system_libvirt_is_there(); }
  return libvirt_is_installed() ? CheckAnswer{"libvirt is installed; each run starts a daemon of its own"}
                                : no_libvirt();
}

CheckAnswer tell_version(const std::vector<std::string>& command, const std::string& package) {
  try {
    const auto result = run_command(command);
    const auto line = result.out.substr(0, result.out.find('\n'));
    if (result.exit_status == 0) { return {std::string(trim(line))}; }
    return {std::string(trim(result.err)), "reinstall " + package};
  } catch (const Error& error) { return {error.message(), "apt-get install " + package}; }
}

CheckAnswer qemu_runs(const HostInMode& /*host*/) {
  return tell_version({"qemu-system-x86_64", "--version"}, "qemu-system-x86");
}

CheckAnswer supermin_runs(const HostInMode& /*host*/) {
  return tell_version({"supermin", "--version"}, "supermin");
}

CheckAnswer mpirun_runs(const HostInMode& /*host*/) {
  return tell_version({"mpirun.openmpi", "--version"}, "openmpi-bin");
}

CheckAnswer guests_have_a_kernel(const HostInMode& /*host*/) {
  try {
    return {"guests boot " + find_guest_kernel().version};
  } catch (const Error& error) { return {error.message(), "apt-get install linux-image-cloud-amd64"}; }
}

CheckAnswer memory_is_enough(const HostInMode& host) {
  constexpr std::uint64_t least = 2ULL << 30;
  const auto available = host.inventory.available_memory_bytes;
  CheckAnswer answer{format_size(available) + " of memory available, of " +
                     format_size(host.inventory.memory_bytes)};
  if (available < least) { answer.fix = "two small VMs need about 2 GiB (guest memory and 350 MiB each)"; }
  return answer;
}

CheckAnswer cores_are_enough(const HostInMode& host) {
  std::vector<int> ids;
  for (const auto& core : host.inventory.cores) { ids.push_back(core.id); }
  const auto found = fmt::format("{}: {}", counted(ids.size(), "usable core"), format_cpu_list(ids));
  const auto& quota = host.inventory.cpu_quota_cores;
  if (quota && *quota < static_cast<double>(ids.size())) {
    return {fmt::format("{}, but the cgroup of this process grants CPU time for {:.4g}", found, *quota),
            fmt::format("{}, or plan nodes on fewer cores", raise_cpu_quota)};
  }
  if (ids.size() >= 2) { return {found}; }
  return {found, "trials of two nodes need two cores, or oversubscribe: true"};
}

CheckAnswer dnsmasq_has_its_folder(const HostInMode& /*host*/) {
  const std::string folder = "/var/lib/libvirt/dnsmasq";
  if (fs::exists(folder)) { return {folder + " exists"}; }
  if (::geteuid() == 0) { return {folder + " is missing; `run` makes it"}; }
  return {folder + " is missing", "mkdir -p " + folder};
}

CheckAnswer gpus_are_listed(const HostInMode& host) {
  Words addresses;
  for (const auto& device : host.inventory.devices) {
    if (device.device_class == DeviceClass::gpu) { addresses.push_back(device.function.address); }
  }
  if (!addresses.empty()) { return {join(addresses, " ")}; }
  return {.found = "no NVIDIA GPU found; scenarios with the cpu backend run", .skipped = true};
}

CheckAnswer nothing_is_left_behind(const HostInMode& /*host*/) {
  try {
    std::unique_ptr<Hypervisor> hypervisor;
    if (libvirt_answers(uri)) { hypervisor = connect_libvirt(uri); }
    std::unique_ptr<LeaseJournal> journal;
    if (LeaseJournal::is_there()) { journal = std::make_unique<LeaseJournal>(); }
    Words names;
    for (const auto& leftover : find_leftovers(hypervisor.get(), journal.get()).leftovers) {
      names.push_back(std::string(to_string(leftover.kind)) + " " + leftover.name);
    }
    if (names.empty()) { return {"nothing left behind"}; }
    return {join(names, ", "), "virtrain clean"};
  } catch (const Error& error) { return {.found = error.what(), .skipped = true}; }
}

}  // namespace

std::span<const Check<HostInMode>> host_checks() {
  using HostCheck = Check<HostInMode>;
  static constexpr std::array checks = {
      HostCheck{"MODE-1", Severity::notes, "runs start in the mode that has every feature", when_always,
                always, mode_gives_everything},
      HostCheck{"DIR-1", Severity::blocks,
                "virtrain can write its state and cache folders, and QEMU can read them", when_always, always,
                folders_can_be_had},
      HostCheck{"USER-1", Severity::blocks, "libvirt has an account to run as", when_always, always,
                libvirt_has_its_user},
      HostCheck{"VIRT-1", Severity::blocks, "libvirt is installed and answers", when_always, always,
                libvirt_is_there},
      HostCheck{"VIRT-2", Severity::blocks, "QEMU for x86_64 is installed and starts", when_always, always,
                qemu_runs},
      HostCheck{"IMG-1", Severity::blocks, "supermin, which builds the guest's image, is installed",
                when_always, always, supermin_runs},
      HostCheck{"IMG-2", Severity::blocks, "a kernel for guests is installed", when_always, always,
                guests_have_a_kernel},
      HostCheck{"MPI-1", Severity::blocks, "Open MPI's mpirun, which starts the ranks, is installed",
                when_always, always, mpirun_runs},
      HostCheck{"MEM-0", Severity::warns, "memory for two small VMs is available", when_always, always,
                memory_is_enough},
      HostCheck{"CPU-0", Severity::warns, "two cores are usable, with CPU time for all of them", when_always,
                always, cores_are_enough},
      HostCheck{"NET-1", Severity::warns, "libvirt's DHCP server has its folder", when_always, always,
                dnsmasq_has_its_folder},
      HostCheck{"GPU-0", Severity::notes, "the host has NVIDIA GPUs", when_always, always, gpus_are_listed},
      HostCheck{"LEAK-0", Severity::warns, "earlier runs left nothing behind", when_always, always,
                nothing_is_left_behind},
  };
  return checks;
}

}  // namespace virtrain::vmctl
