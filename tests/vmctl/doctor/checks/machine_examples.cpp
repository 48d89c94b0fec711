#include <fmt/format.h>
#include <unistd.h>

#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

Examples machine_examples() {
  constexpr const char* governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
  constexpr const char* no_turbo = "sys/devices/system/cpu/intel_pstate/no_turbo";
  constexpr const char* bridge_filter = "proc/sys/net/bridge/bridge-nf-call-iptables";
  const auto denied = [](const std::string& path) {
    return [=](HostTree& tree) {
      tree.write("sys/module/apparmor/parameters/enabled", "Y");
      tree.log(
          "[ 99.1] audit: type=1400 audit(1700000000.1:99): apparmor=\"DENIED\" operation=\"open\" "
          "profile=\"libvirt-9b3c2c1e-0000-4000-8000-000000000001\" name=\"" +
          path + "\" comm=\"qemu-system-x86\"");
    };
  };
  // Of the group that new files have here, by the name "kvm".
  const auto kvm = [](std::filesystem::perms mode) {
    return [=](HostTree& tree) {
      tree.write("dev/kvm", "");
      std::filesystem::permissions(tree.root / "dev/kvm", mode);
      tree.write("etc/group", fmt::format("root:x:4000000:\nkvm:x:{}:libvirt-qemu", ::getegid()));
    };
  };
  constexpr const char* trial = "var/lib/virtrain/kvm.json";
  constexpr const char* works =
      R"({"open_error": 0, "api_version": 12, "virtualization": "kvm", "reason": "a probe guest booted in 0.9 s"})";
  constexpr const char* snp = "sys/module/kvm_amd/parameters/sev_snp";
  const Change confidential = [](HostTree& tree) {
    tree.plan().memory_encryption = MemoryEncryption::sev_snp;
    tree.write("proc/sys/kernel/osrelease", "6.12.0-amd64");
    tree.write("var/lib/virtrain/libvirtd-version.txt", "libvirtd (libvirt) 11.3.0");
    tree.write("var/lib/virtrain/qemu-version.txt", "QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)");
  };
  const auto pressure = [](const std::string& share) {
    return "some avg10=0.00 avg60=0.00 avg300=" + share +
           " total=1\nfull avg10=0.00 avg60=0.00 avg300=" + share + " total=1";
  };
  return {
      {"KVM-1",
       {writes(trial, works), writes(trial, R"({"open_error": 13})"), "may not be opened by this user"}},
      {"KVM-2",
       {writes(trial, works), writes(trial, R"({"open_error": 0, "api_version": 12, "virtualization": "tcg",
                           "reason": "a probe guest did not boot within 15 s"})"),
        "did not boot within 15 s"}},
      {"KVM-3",
       {as_it_is, writes("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu svm hypervisor"),
        "a virtual machine itself"}},
      {"CPU-2",
       {as_it_is, writes("proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x41\n"), "an aarch64 host"}},
      {"KVM-4",
       {kvm(std::filesystem::perms{0660}), kvm(std::filesystem::perms{0600}), "mode 0600 and group kvm"}},
      {"CVM-1", {both(confidential, writes(snp, "Y")), both(confidential, writes(snp, "N")), "sev_snp is N"}},
      {"CPU-1",
       {both(writes(governor, "performance"), writes(no_turbo, "1")),
        both(writes(governor, "schedutil"), writes(no_turbo, "0")), "governor schedutil; turbo is on"}},
      {"CPU-3",
       {both(writes("proc/stat", "cpu  100 0 100 9000 50 0 0 10 0 0\ncpu0 1 1 1 1"),
             writes("proc/pressure/cpu", pressure("1.20"))),
        writes("proc/stat", "cpu  100 0 100 9000 50 0 0 750 0 0\ncpu0 1 1 1 1"),
        "7.5 % of CPU time since the start went to other VMs (steal)"}},
      {"CH-1", {writes("dev/vhost-vsock", ""), as_it_is, "no /dev/vhost-vsock"}},
      {"NET-2", {writes(bridge_filter, "0"), writes(bridge_filter, "1"), "slices do not reach each other"}},
      {"SEC-1", {denied("/etc/gai.conf"), denied("/dev/vfio/21"), "/dev/vfio/21"}},
  };
}

}  // namespace virtrain::vmctl
