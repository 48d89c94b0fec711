#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {

namespace fs = std::filesystem;

Examples iommu_examples() {
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
      // Control bits: SV 0, RR 2, CR 3, UF 4.
      {"ACS-1",
       {[](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x1d); },
        [](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x09); },
        "0000:16:02.0 without RR UF"}},
      {"ACS-2",
       {[](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x09); },
        [](HostTree& tree) { tree.write_config(bridge_address, 0x000d, 0x1d); }, "through the root complex"}},
  };
}

}  // namespace virtrain::vmctl
