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
  const auto power = [](const std::string& now) {
    return "<gpu_power_readings><current_power_limit>" + now +
           "</current_power_limit><default_power_limit>300.00 W</default_power_limit></gpu_power_readings>";
  };
  const auto ecc = [](const std::string& mode) {
    return "<ecc_mode><current_ecc>" + mode + "</current_ecc><pending_ecc>" + mode +
           "</pending_ecc></ecc_mode>";
  };
  const auto licence = [](const std::string& status) {
    return "<gpu_virtualization_mode><virtualization_mode>VGPU</virtualization_mode></"
           "gpu_virtualization_mode>"
           "<vgpu_software_licensed_product><license_status>" +
           status + "</license_status></vgpu_software_licensed_product>";
  };
  const Change shared = [](HostTree& tree) {
    tree.want({{GrantKind::passthrough, gpu_address}});
    tree.plan().several_tenants = true;
  };
  const auto instinct = [](const std::string& isolation) {
    return [=](HostTree& tree) {
      const std::string folder = "sys/devices/pci0000:0b/0000:0c:00.0/";
      tree.write(folder + "vendor", "0x1002");
      tree.write(folder + "device", "0x74a1");
      tree.write(folder + "class", "0x120000");
      tree.write(folder + "enforce_isolation", isolation);
      tree.link(folder + "driver", "../../../bus/pci/drivers/amdgpu");
      tree.link("sys/bus/pci/devices/0000:0c:00.0", "../../../devices/pci0000:0b/0000:0c:00.0");
    };
  };
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
      {"PWR-1",
       {reported(power("300.00 W")), reported(power("250.00 W")),
        "0000:17:00.0 is limited to 250 W, its default is 300 W"}},
      {"ECC-2",
       {both(shared, reported(ecc("Enabled"))), both(shared, reported(ecc("Disabled"))),
        "0000:17:00.0 has ECC off"}},
      {"LIC-1",
       {reported(licence("Licensed (Expiry: 2026-7-7 16:1:44 GMT)")),
        reported(licence("Unlicensed (Unrestricted)")),
        "0000:17:00.0 has no licence: Unlicensed (Unrestricted)"}},
      {"LOC-1", {instinct("1 1"), instinct("1 0"), "0000:0c:00.0 leaves local memory"}},
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
