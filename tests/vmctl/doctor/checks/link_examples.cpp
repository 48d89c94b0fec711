#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

Examples link_examples() {
  constexpr const char* bridge_folder = "sys/devices/pci0000:16/0000:16:02.0";
  const fs::path fatal = fs::path(gpu_folder) / "aer_dev_fatal";
  // ATS: enabled is bit 15 of its control.
  const auto adapter = [](unsigned control) {
    return [=](HostTree& tree) {
      tree.write("sys/module/nvidia_peermem/initstate", "live");
      tree.write_config("0000:98:00.0", 0x000f, control);
    };
  };
  const auto virtual_machine = writes("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu svm hypervisor");
  return {
      {"LNK-1",
       {as_it_is, writes(fs::path(other_gpu_folder) / "current_link_width", "8"), "runs 8 of 16 lanes"}},
      {"AER-1",
       {writes(fatal, "Undefined 0\nTOTAL_ERR_FATAL 0"), writes(fatal, "DLP 2\nTOTAL_ERR_FATAL 2"),
        "0000:17:00.0 has had 2 uncorrected"}},
      {"NUM-0",
       {as_it_is, writes(fs::path(other_gpu_folder) / "numa_node", "-1"), "0000:b1:00.0 is on no NUMA node"}},
      {"LNK-2",
       {[](HostTree& tree) { tree.write_express_config(bridge_address, 0, 4); },
        [](HostTree& tree) { tree.write_express_config(bridge_address, 0, 3); },
        "0000:17:00.0 can 16 GT/s x16, and its link is held at 8 GT/s"}},
      {"TOP-1",
       {virtual_machine,
        both(virtual_machine, both(writes(fs::path(bridge_folder) / "max_link_speed", "2.5 GT/s PCIe"),
                                   writes(fs::path(bridge_folder) / "max_link_width", "1"))),
        "0000:17:00.0 is below 0000:16:02.0, an emulated port that says 2.5 GT/s PCIe x1"}},
      // Enable Relaxed Ordering is bit 4 of device control.
      {"RDM-2",
       {[](HostTree& tree) { tree.write_express_config("0000:98:00.0", 0x2910); },
        [](HostTree& tree) { tree.write_express_config("0000:98:00.0", 0x2900); },
        "0000:98:00.0 may not write with relaxed ordering"}},
      {"RDM-3",
       {as_it_is,
        [](HostTree& tree) {
          tree.write("sys/bus/pci/devices/0000:19:00.0/infiniband/mlx5_0/ports/1/state", "1: DOWN");
        },
        "7 of 8 adapters of one model have a port that is up, not 0000:19:00", "hgx-h200"}},
      {"NET-3",
       {as_it_is, [](HostTree& tree) { tree.write("sys/bus/pci/devices/0000:79:00.0/net/ens4/mtu", "1500"); },
        "0000:79:00.0 has MTU 1500 on ens4, which leaves RDMA 1024", "hgx-h200"}},
      {"RDM-1", {adapter(0x8000), adapter(0), "0000:98:00.0 has ATS, not enabled"}},
  };
}

}  // namespace virtrain::vmctl
