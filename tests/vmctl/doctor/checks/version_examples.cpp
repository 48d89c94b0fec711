#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

Examples version_examples() {
  constexpr const char* libvirt_file = "var/lib/virtrain/libvirtd-version.txt";
  constexpr const char* qemu_file = "var/lib/virtrain/qemu-version.txt";
  constexpr const char* kernel_file = "proc/sys/kernel/osrelease";
  const Change clique = [](HostTree& tree) {
    tree.want({{GrantKind::passthrough, gpu_address}, {GrantKind::passthrough, "0000:31:00.0"}});
    tree.plan().clique = Clique::all;
  };
  const auto by_iommufd = [](Clique which) {
    return [=](HostTree& tree) {
      tree.want({{GrantKind::passthrough, gpu_address}, {GrantKind::passthrough, "0000:31:00.0"}});
      for (auto& device : tree.plan().vms[0].devices) { device.vfio = Vfio::iommufd; }
      tree.plan().clique = which;
    };
  };
  const auto small_pages = [=](std::uint64_t bytes) {
    return both(by_iommufd(Clique::off), [=](HostTree& tree) { tree.plan().vms[0].memory_bytes = bytes; });
  };
  return {
      {"MEM-5",
       {small_pages(4ULL << 30), small_pages(24ULL << 30), "24GiB of guest memory are of small pages"}},
      {"VER-1",
       {writes(libvirt_file, "libvirtd (libvirt) 11.3.0"), writes(libvirt_file, "libvirtd (libvirt) 9.0.0"),
        "needs libvirt 9.7", "vendor-vfio-host"}},
      {"VER-2",
       {both(clique, writes(qemu_file, "QEMU emulator version 8.2.2 (Debian 1:8.2.2+ds-0ubuntu1)")),
        both(clique, writes(qemu_file, "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)")),
        "here: QEMU 7.2.22"}},
      {"VER-3",
       {writes(kernel_file, "6.12.0-amd64"), writes(kernel_file, "6.8.0-60-generic"), "page by page"}},
      {"VER-4", {by_iommufd(Clique::off), by_iommufd(Clique::all), "no device's regions"}},
      {"VER-5",
       {writes("usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5", ""),
        writes("usr/lib/x86_64-linux-gnu/libnccl.so.2.19.4", ""),
        "NCCL 2.19.4 in /usr/lib/x86_64-linux-gnu: all-reduce over several NVSwitch machines at 37 %"}},
  };
}

}  // namespace virtrain::vmctl
