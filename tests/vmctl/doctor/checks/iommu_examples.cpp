#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

Examples iommu_examples() {
  const auto ports_of_switch = [](unsigned control) {
    return [=](HostTree& tree) {
      for (const char* port : {"0000:17:00.0", "0000:17:01.0"}) {
        tree.write_config(port, 0x000d, control, 0x5f);
      }
    };
  };
  constexpr const char* unsafe = "sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts";
  return {
      {"IOM-1",
       {as_it_is,
        [](HostTree& tree) {
          fs::remove_all(tree.root / "sys/kernel/iommu_groups");
          fs::create_directories(tree.root / "sys/kernel/iommu_groups");
        },
        "no IOMMU groups"}},
      {"IOM-2",
       {[](HostTree& tree) { tree.link("sys/kernel/iommu_groups/21/devices/0000:17:00.1", "x"); },
        [](HostTree& tree) { tree.link("sys/kernel/iommu_groups/21/devices/0000:00:1f.0", "x"); },
        "0000:17:00.0 shares its IOMMU group with 0000:00:1f.0"}},
      {"IOM-3", {writes(unsafe, "N"), writes(unsafe, "Y"), "any interrupt"}},
      {"IOM-4", {writes("proc/cmdline", "quiet iommu=pt"), as_it_is, "no iommu=pt"}},
      {"IOM-5",
       {writes("proc/cmdline", "quiet iommu=pt"),
        writes("proc/cmdline", "quiet pcie_acs_override=downstream,multifunction"),
        "groups show less sharing than there is"}},
      // Control bits: SV 0, RR 2, CR 3, UF 4, DT 6.
      {"ACS-1",
       {[](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x1d); },
        [](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x09); },
        "0000:16:02.0 without RR UF"}},
      {"ACS-2",
       {[](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x09); },
        [](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x1d); }, "through the root complex"}},
      // The first GPU and its adapter are below two ports of one switch.
      {"ACS-3",
       {ports_of_switch(0x5d), ports_of_switch(0x1d),
        "DirectTrans is off, between GPUs and RDMA adapters of one switch: 0000:17:00.0 0000:17:01.0",
        "hgx-h200"}},
  };
}

}  // namespace virtrain::vmctl
