#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {
namespace {

constexpr std::uint64_t gib = 1ULL << 30;

/// Two VMs of 64 GiB, one a socket, on pages of 1 GiB.
Change pages_on_node_1(int free) {
  return [=](HostTree& tree) {
    tree.write("proc/meminfo",
               "MemTotal: 536870912 b\nMemAvailable: 528482304 b\nHugepagesize:    1048576 b");
    for (const auto& [node, pages] : {std::pair{0, 64}, std::pair{1, free}}) {
      tree.write("sys/devices/system/node/node" + std::to_string(node) +
                     "/hugepages/hugepages-1048576kB/free_hugepages",
                 std::to_string(pages));
    }
    tree.want({{GrantKind::passthrough, gpu_address}}, 64 * gib, 0);
    tree.want({{GrantKind::passthrough, other_address}}, 64 * gib, 1);
    tree.plan().hugepages = true;
  };
}

Change libvirtd_with(const std::string& capabilities) {
  return [=](HostTree& tree) {
    tree.process(900, "libvirtd");
    tree.write("proc/900/status", "Name:\tlibvirtd\nCapEff:\t" + capabilities);
    tree.write("proc/900/limits",
               "Limit                     Soft Limit           Hard Limit           Units     \n"
               "Max locked memory         67108864             67108864             bytes     ");
  };
}

/// 64-bit BARs of each GPU: 64 GiB and 32 MiB; four of them and as much again for alignment are 512 GiB and a
/// bit.
Change address_bits(int bits) {
  return [=](HostTree& tree) {
    tree.write("proc/cpuinfo", "processor\t: 0\nflags\t\t: vmx\naddress sizes\t: " + std::to_string(bits) +
                                   " bits physical, 48 bits virtual");
  };
}

}  // namespace

Examples memory_examples() {
  return {
      {"MEM-1",
       {pages_on_node_1(64), pages_on_node_1(63), "node 1 has 63GiB of hugepages free, its VMs need 64GiB"}},
      {"MEM-2",
       {writes("sys/fs/cgroup/machine.slice/memory.max", "max"),
        writes("sys/fs/cgroup/machine.slice/memory.max", "68719476736"), "limited to 64GiB"}},
      {"MEM-3",
       {libvirtd_with("000001ffffffffff"), libvirtd_with("00000000a80425fb"),
        "libvirtd (pid 900) lacks CAP_SYS_RESOURCE and may lock 67108864 only"}},
      {"MEM-4", {writes("sys/kernel/mm/ksm/run", "0"), writes("sys/kernel/mm/ksm/run", "1"), "KSM merges"}},
      {"BAR-1", {address_bits(46), address_bits(40), "128GiB for BARs with 40 address bits"}},
      {"FW-1",
       {writes("usr/share/OVMF/OVMF_CODE_4M.fd", ""), writes("usr/share/OVMF/OVMF_CODE_4M.secboot.fd", ""),
        "only firmware with Secure Boot"}},
  };
}

}  // namespace virtrain::vmctl
