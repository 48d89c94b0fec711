#include "tests/vmctl/doctor/checks/examples.h"

namespace virtrain::vmctl {
namespace {

Change reported(const std::string& inside) {
  return [=](HostTree& tree) { tree.write_gpu_reports({{gpu_address, inside}}); };
}

/// With the driver's version that the tree shows.
Change fabric_manager(const std::string& version) {
  return [=](HostTree& tree) {
    tree.process(1100, "nv-fabricmanage");
    tree.write("proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
               "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)");
    tree.write("var/lib/virtrain/nv-fabricmanager-version.txt", "Fabric Manager version is : " + version);
  };
}

}  // namespace

Examples health_examples() {
  constexpr const char* fabric_configuration = "usr/share/nvidia/nvswitch/fabricmanager.cfg";
  constexpr const char* sound =
      "<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></"
      "ecc_mode><ecc_errors><volatile>"
      "<sram_uncorrectable_parity>0</sram_uncorrectable_parity><dram_correctable>3</dram_correctable>"
      "<dram_uncorrectable>0</dram_uncorrectable></volatile></ecc_errors><remapped_rows>"
      "<remapped_row_pending>No</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></"
      "remapped_rows>";
  return {
      {"ECC-1",
       {reported(sound),
        reported("<remapped_rows><remapped_row_pending>Yes</remapped_row_pending></remapped_rows>"),
        "0000:17:00.0 has rows to remap"}},
      {"CLK-1",
       {reported("<clocks_event_reasons><clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>"
                 "</clocks_event_reasons>"),
        // as drivers before 535 spell it
        reported("<clocks_throttle_reasons><clocks_throttle_reason_hw_power_brake_slowdown>Active"
                 "</clocks_throttle_reason_hw_power_brake_slowdown></clocks_throttle_reasons>"),
        "0000:17:00.0 is slowed down: hw_power_brake_slowdown"}},
      {"FAB-1",
       {fabric_manager("535.129.03"), fabric_manager("535.104.12"),
        "Fabric Manager 535.104.12 with driver 535.129.03", "hgx-h200"}},
      {"FAB-2",
       {both(writes(fabric_configuration, "FABRIC_MODE=1\n"),
             writes("var/lib/virtrain/fmpm-list.json",
                    R"({"partitionInfo": [{"partitionId": 3, "isActive": 1, "gpuInfo": [
                       {"pciBusId": "00000000:18:00.0"}, {"pciBusId": "00000000:30:00.0"}]}]})")),
        writes(fabric_configuration, "FABRIC_MODE=0\n"), "FABRIC_MODE is 0 here", "hgx-h200"}},
  };
}

}  // namespace virtrain::vmctl
