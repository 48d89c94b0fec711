#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <numeric>
#include <optional>
#include <string_view>

#include "common/text/units.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/machine/version_limits.h"
#include "vmctl/resources/devices/kvm_device.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* when_kvm_was_tried = "KVM was tried on the host";
bool tried_kvm(const DeviceHost& host) {
  return host.kvm.has_value();
}

/// Without devices VMs run emulated where there is no KVM, and are marked; VMs with devices want it.
CheckAnswer about_kvm(const DeviceHost& host, std::string found, std::string fix) {
  return {std::move(found), std::move(fix), has_devices(host) ? Severity::blocks : Severity::warns};
}

CheckAnswer kvm_opens(const DeviceHost& host) {
  constexpr int api = 12;
  const auto& kvm = *host.kvm;
  if (kvm.open_error == EACCES) {
    return about_kvm(host, "/dev/kvm may not be opened by this user",
                     "usermod -aG kvm USER, or run as root; until then VMs are emulated");
  }
  if (kvm.open_error != 0) {
    return about_kvm(host, fmt::format("/dev/kvm does not open ({})", std::strerror(kvm.open_error)),
                     "switch VT-x or AMD-V on in the firmware, load kvm_intel or kvm_amd; until then VMs are "
                     "emulated");
  }
  if (kvm.api_version != api) {
    return about_kvm(host, fmt::format("/dev/kvm has API {}, not {}", kvm.api_version, api),
                     "update the kernel");
  }
  return about_kvm(host, fmt::format("/dev/kvm opens, API {}", api), "");
}

CheckAnswer kvm_boots(const DeviceHost& host) {
  const auto& guest = host.kvm->guest;
  if (uses_kvm(guest.virtualization)) { return about_kvm(host, guest.reason, ""); }
  if (guest.reason.find("0x10a") != std::string::npos) {
    return about_kvm(host, guest.reason,
                     "upgrade QEMU to 10.1, or disable the CPU feature arch-capabilities (virtrain's VMs do "
                     "on AMD hosts)");
  }
  return about_kvm(
      host, guest.reason,
      "use a host with working KVM; here VMs run emulated (TCG), are marked so, and their ratios "
      "are not comparable");
}

CheckAnswer is_no_virtual_machine(const DeviceHost& host) {
  if (!host.inventory.is_virtual_machine) { return {"the host is not a virtual machine"}; }
  return {"the host is a virtual machine itself",
          "measure on bare metal; here VMs are nested, and figures say so"};
}

CheckAnswer is_x86(const DeviceHost& host) {
  const auto& architecture = host.inventory.architecture;
  if (architecture == supported_architecture) { return {"the host is an " + architecture + " machine"}; }
  return {"this is an " + architecture + " host: virtrain makes VMs and slices on x86_64 hosts only",
          "use an x86_64 host"};
}

bool has_kvm(const DeviceHost& host) {
  return exists(host, "dev/kvm");
}

/// "kvm:x:104:libvirt-qemu" in /etc/group; the number where it is not there.
std::string group_name(const DeviceHost& host, gid_t id) {
  for (const auto& line : split(read_file(host.root / "etc/group").value_or(""), '\n')) {
    const auto fields = split(line, ':');
    if (fields.size() > 2 && fields[2] == std::to_string(id)) { return fields[0]; }
  }
  return std::to_string(id);
}

CheckAnswer qemu_may_open_kvm(const DeviceHost& host) {
  struct stat status {};
  if (::stat((host.root / "dev/kvm").c_str(), &status) != 0) { return {"/dev/kvm went away"}; }
  const auto group = group_name(host, status.st_gid);
  const auto found = fmt::format("/dev/kvm has mode {:04o} and group {}", status.st_mode & 07777, group);
  if (lets_qemu_open(status.st_mode, group == "kvm")) { return {found}; }
  return {
      found,
      "chgrp kvm /dev/kvm; chmod 660 /dev/kvm (libvirt otherwise probes QEMU for 80 s at every start; `run` "
      "as root does it)"};
}

bool wants_confidential_vms(const DeviceHost& host) {
  return host.demand && is_confidential(host.demand->memory_encryption);
}

/// Parameters by which KVM shows support, and the first versions that start such VMs. libvirt's for Intel is
/// the first that may: the schema of 11.3 does not have them.
struct Confidential {
  const char* switched_on;  ///< by a parameter of KVM's module
  const char* switch_on;
  std::pair<int, int> kernel, qemu, libvirt;
};
constexpr Confidential by_amd{
    "sys/module/kvm_amd/parameters/sev_snp", "switch SEV-SNP on in the firmware", {6, 11}, {9, 1}, {10, 5}};
constexpr Confidential by_intel{"sys/module/kvm_intel/parameters/tdx",
                                "switch TDX on in the firmware, and start the kernel with kvm_intel.tdx=1",
                                {6, 16},
                                {10, 1},
                                {11, 4}};

CheckAnswer confidential_vms_start(const DeviceHost& host) {
  const bool is_amd = host.demand->memory_encryption == MemoryEncryption::sev_snp;
  const auto& wanted = is_amd ? by_amd : by_intel;
  Words lacks;
  if (const auto is_on = value(host, wanted.switched_on); is_on != "Y") {
    lacks.push_back(fmt::format("/{} is {}", wanted.switched_on, is_on.empty() ? "not there" : is_on));
  }
  const auto too_old = [&](const std::string& version, std::pair<int, int> since) {
    if (is_since(version, since.first, since.second)) { return; }
    lacks.push_back(fmt::format("{} is older than {}.{}", version, since.first, since.second));
  };
  too_old("Linux " + host.inventory.kernel, wanted.kernel);
  too_old(host.words.versions.hypervisor, wanted.qemu);
  too_old("libvirt " + host.words.versions.libvirt, wanted.libvirt);
  return none_of(lacks, fmt::format("KVM starts confidential VMs ({})", is_amd ? "SEV-SNP" : "TDX"),
                 fmt::format("{}; upgrade what is too old; or use memory_encryption: bounce, which has the "
                             "confidential guest's data path on any host",
                             wanted.switch_on));
}

/// Per cent of the last five minutes in which somebody waited (Documentation/accounting/psi.rst); nothing
/// where the kernel does not count it.
std::optional<double> pressure(const DeviceHost& host, const char* resource, std::string_view who) {
  const auto text = read_file(host.root / "proc/pressure" / resource).value_or("");
  for (const auto& line : split(text, '\n')) {
    const auto words = words_of(line);
    if (words.size() > 3 && words[0] == who && words[3].starts_with("avg300=")) {
      return parse_number(words[3].substr(words[3].find('=') + 1));
    }
  }
  return std::nullopt;
}

/// Shares of all CPU time since the start, in per cent, by the columns of /proc/stat's first line.
struct CpuShares {
  double io_wait = 0;
  double steal = 0;
};
std::optional<CpuShares> cpu_shares(const DeviceHost& host) {
  constexpr std::size_t io_wait = 5, steal = 8;  // the first word is "cpu"
  const auto text = read_file(host.root / "proc/stat").value_or("");
  const auto words = words_of(std::string_view(text).substr(0, text.find('\n')));
  if (words.size() <= steal || words[0] != "cpu") { return std::nullopt; }
  std::array<double, steal + 1> times{};
  for (std::size_t i = 1; i <= steal; ++i) { times[i] = parse_number(words[i]).value_or(0); }
  const double all = std::accumulate(times.begin(), times.end(), 0.0);
  if (all <= 0) { return std::nullopt; }
  return CpuShares{100 * times[io_wait] / all, 100 * times[steal] / all};
}

bool tells_load(const DeviceHost& host) {
  return pressure(host, "cpu", "some") || pressure(host, "io", "full") || cpu_shares(host);
}

CheckAnswer nobody_is_in_the_way(const DeviceHost& host) {
  constexpr double stolen = 1, waiting = 10;  // per cent
  Words wrong;
  const auto shares = cpu_shares(host).value_or(CpuShares{});
  if (shares.steal > stolen) {
    wrong.push_back(
        fmt::format("{:.1f} % of CPU time since the start went to other VMs (steal)", shares.steal));
  }
  if (shares.io_wait > waiting) {
    wrong.push_back(
        fmt::format("{:.1f} % of CPU time since the start was waiting for disks", shares.io_wait));
  }
  if (const auto share = pressure(host, "cpu", "some").value_or(0); share > waiting) {
    wrong.push_back(fmt::format("processes waited for a core in {:.1f} % of the last five minutes", share));
  }
  if (const auto share = pressure(host, "io", "full").value_or(0); share > waiting) {
    wrong.push_back(fmt::format("all waited for disks in {:.1f} % of the last five minutes", share));
  }
  return none_of(
      wrong, "little waiting for cores and disks",
      "find who it is (top, iotop; steal: the host of this VM), stop it or pin it elsewhere; trials note "
      "the steal of their nodes");
}

constexpr const char* cpus = "sys/devices/system/cpu";

std::string governor_of(const DeviceHost& host) {
  return value(host, fs::path(cpus) / "cpu0/cpufreq/scaling_governor");
}

bool has_governor(const DeviceHost& host) {
  return !governor_of(host).empty();
}

/// Intel's driver has a switch that is off for turbo, all others one that is on for it.
bool has_turbo(const DeviceHost& host) {
  return value(host, fs::path(cpus) / "intel_pstate/no_turbo") == "0" ||
         value(host, fs::path(cpus) / "cpufreq/boost") == "1";
}

/// "C6" of the states in which an idle core may sleep; those after it take longer to wake up from.
std::string deepest_sleep(const DeviceHost& host) {
  const auto folder = fs::path(cpus) / "cpu0/cpuidle";
  std::string deepest;
  for (const auto& state : names_in(host, folder)) {
    if (value(host, folder / state / "disable") == "0") { deepest = value(host, folder / state / "name"); }
  }
  return deepest;
}

CheckAnswer clocks_are_fixed(const DeviceHost& host) {
  Words wrong, fixes;
  if (const auto governor = governor_of(host); governor != "performance") {
    wrong.push_back("governor " + governor);
    fixes.emplace_back("cpupower frequency-set -g performance");
  }
  if (has_turbo(host)) {
    wrong.emplace_back("turbo is on, and clocks follow load and temperature");
    fixes.emplace_back(
        "echo 1 > /sys/devices/system/cpu/intel_pstate/no_turbo (others: echo 0 > "
        "/sys/devices/system/cpu/cpufreq/boost)");
  }
  Words facts = wrong.empty() ? Words{"governor performance, turbo off"} : wrong;
  if (const auto smt = value(host, fs::path(cpus) / "smt/active"); !smt.empty()) {
    facts.push_back(smt == "1" ? "SMT is on" : "SMT is off");
  }
  if (const auto sleep = deepest_sleep(host); !sleep.empty()) {
    facts.push_back("idle cores sleep to " + sleep);
  }
  return {join(facts, "; "), join(fixes, "; ")};
}

CheckAnswer vsock_is_there(const DeviceHost& host) {
  if (exists(host, "dev/vhost-vsock")) { return {"/dev/vhost-vsock"}; }
  return {"no /dev/vhost-vsock; virtrain's agents talk over virtio-serial all the same",
          "modprobe vhost_vsock, where tools of yours in the guests want it"};
}

constexpr const char* bridge_filter = "proc/sys/net/bridge/bridge-nf-call-iptables";

bool may_filter_bridges(const DeviceHost& host) {
  return exists(host, bridge_filter);
}

/// Docker switches this on and lets FORWARD drop. libvirt has rules for its own networks, slices' bridges
/// have none.
CheckAnswer bridges_are_not_filtered(const DeviceHost& host) {
  if (value(host, bridge_filter) != "1") { return {"iptables does not see what bridges forward"}; }
  return {
      "iptables sees what bridges forward (bridge-nf-call-iptables is 1): where FORWARD drops, as Docker "
      "has it, slices do not reach each other",
      "iptables -I FORWARD -i vtb+ -o vtb+ -j ACCEPT (with Docker: -I DOCKER-USER); with such a rule this "
      "is harmless"};
}

bool confines_qemu(const DeviceHost& host) {
  const bool confined =
      value(host, "sys/module/apparmor/parameters/enabled") == "Y" || exists(host, "sys/fs/selinux");
  return has_devices(host) && confined && host.words.kernel_log;
}

/// Accesses that a VM with devices cannot do without. Other denials of QEMU are common and harmless.
CheckAnswer qemu_is_let(const DeviceHost& host) {
  Words denied;
  for (const auto& parts :
       std::vector<Words>{{"apparmor=\"DENIED\"", "libvirt-"}, {"avc:", "denied", "svirt"}}) {
    for (const auto& line : log_lines(host, parts)) {
      for (const auto* path : {"/dev/vfio", "/dev/hugepages", "/dev/iommu", "/sys/bus/mdev", "OVMF"}) {
        if (line.find(path) != std::string::npos) { denied.push_back(line); }
      }
    }
  }
  if (denied.empty()) { return {"the kernel's log shows no denial that matters to devices"}; }
  return {fmt::format("{}, the last: {}", counted(denied.size(), "denial"), denied.back()),
          "what <qemu:commandline> names is outside of libvirt's profile: allow it in "
          "/etc/apparmor.d/local/abstractions/libvirt-qemu (SELinux: audit2allow), then clear the log (dmesg "
          "-C)"};
}

}  // namespace

std::span<const DeviceCheck> machine_checks() {
  static constexpr std::array checks = {
      DeviceCheck{"KVM-1", Severity::blocks, "/dev/kvm opens", when_kvm_was_tried, tried_kvm, kvm_opens},
      DeviceCheck{"KVM-2", Severity::blocks, "a guest boots under KVM", when_kvm_was_tried, tried_kvm,
                  kvm_boots},
      DeviceCheck{"KVM-3", Severity::invalidates, "the host is not a virtual machine itself", when_always,
                  always, is_no_virtual_machine},
      DeviceCheck{"CPU-2", Severity::blocks, "the host is an x86_64 machine", when_always, always, is_x86},
      DeviceCheck{"KVM-4", Severity::warns, "QEMU's user may open /dev/kvm", "there is a /dev/kvm", has_kvm,
                  qemu_may_open_kvm},
      DeviceCheck{"CVM-1", Severity::blocks, "processor, kernel, QEMU and libvirt start confidential VMs",
                  "a plan has confidential VMs", wants_confidential_vms, confidential_vms_start},
      DeviceCheck{"CPU-1", Severity::warns, "CPU clocks are fixed: governor performance, turbo off",
                  "the kernel sets the clocks", has_governor, clocks_are_fixed},
      DeviceCheck{"CPU-3", Severity::warns, "nobody else keeps cores or disks busy",
                  "the kernel tells CPU times or pressure (proc/stat, proc/pressure)", tells_load,
                  nobody_is_in_the_way},
      DeviceCheck{"CH-1", Severity::warns, "guests can use vsock", when_devices, has_devices, vsock_is_there},
      DeviceCheck{"NET-2", Severity::warns, "iptables does not filter what bridges forward",
                  "the kernel can show bridges' traffic to iptables", may_filter_bridges,
                  bridges_are_not_filtered},
      DeviceCheck{"SEC-1", Severity::blocks, "AppArmor or SELinux has denied QEMU nothing that devices need",
                  "there are devices, QEMU is confined, and we may read the kernel's log", confines_qemu,
                  qemu_is_let},
  };
  return checks;
}

}  // namespace virtrain::vmctl
