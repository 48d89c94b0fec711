#include "tests/support/catch.h"
#include "vmctl/machine/host_words.h"

namespace virtrain::vmctl {
namespace {

/// Abridged after public listings of `nvidia-smi -q -x`; the values are made up.
constexpr const char* two_cards = R"(<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>555.42.06</driver_version>
  <gpu id="00000000:CA:00.0">
    <persistence_mode>Enabled</persistence_mode>
    <mig_mode><current_mig>Disabled</current_mig><pending_mig>Enabled</pending_mig></mig_mode>
    <gpu_virtualization_mode><virtualization_mode>Host VGPU</virtualization_mode>
      <host_vgpu_mode>SR-IOV</host_vgpu_mode><vgpu_heterogeneous_mode>Disabled</vgpu_heterogeneous_mode></gpu_virtualization_mode>
    <clocks_event_reasons>
      <clocks_event_reason_gpu_idle>Active</clocks_event_reason_gpu_idle>
      <clocks_event_reason_sw_power_cap>Active</clocks_event_reason_sw_power_cap>
      <clocks_event_reason_hw_slowdown>Not Active</clocks_event_reason_hw_slowdown>
      <clocks_event_reason_sw_thermal_slowdown>Active</clocks_event_reason_sw_thermal_slowdown>
    </clocks_event_reasons>
    <ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
    <ecc_errors>
      <volatile><sram_correctable>7</sram_correctable><sram_uncorrectable_parity>1</sram_uncorrectable_parity>
        <dram_uncorrectable>2</dram_uncorrectable></volatile>
      <aggregate><dram_uncorrectable>90</dram_uncorrectable></aggregate>
    </ecc_errors>
    <retired_pages><pending_blacklist>N/A</pending_blacklist><pending_retirement>N/A</pending_retirement></retired_pages>
    <remapped_rows><remapped_row_pending>Yes</remapped_row_pending><remapped_row_failure>No</remapped_row_failure></remapped_rows>
    <gpu_power_readings><current_power_limit>250.00 W</current_power_limit>
      <default_power_limit>300.00 W</default_power_limit></gpu_power_readings>
    <fabric><state>Completed</state><status>Success</status></fabric>
  </gpu>
  <gpu id="00000000:17:00.0">
    <persistence_mode>Disabled</persistence_mode>
    <mig_mode><current_mig>N/A</current_mig><pending_mig>N/A</pending_mig></mig_mode>
    <retired_pages><pending_retirement>No</pending_retirement></retired_pages>
    <power_readings><power_limit>70.00 W</power_limit><default_power_limit>70.00 W</default_power_limit></power_readings>
    <fabric><state>N/A</state><status>N/A</status></fabric>
  </gpu>
</nvidia_smi_log>)";

TEST_CASE("nvidia-smi's XML: what it says of each GPU, by PCI address as the kernel writes it") {
  const auto reports = read_gpu_reports(two_cards);
  REQUIRE(reports.size() == 2);
  const auto& card = reports.at("0000:ca:00.0");
  CHECK(card.persistence == true);
  CHECK(card.mig == false);
  CHECK(card.mig_pending == true);
  CHECK(card.ecc == true);
  CHECK(card.uncorrected_ecc_errors == 3);  // since the driver was loaded, not of its whole life
  CHECK(card.repair_pending == true);
  CHECK(card.repair_failed == false);
  CHECK(card.mixed_vgpu_sizes == false);
  CHECK(card.virtualization == "Host VGPU");
  CHECK(card.fabric_state == "Completed");
  CHECK(card.slowdowns == std::vector<std::string>{"sw_thermal_slowdown"});
  CHECK(card.power_limit_w == 250);
  CHECK(card.default_power_limit_w == 300);
}

TEST_CASE("what nvidia-smi does not tell is absent, and older spellings are read") {
  const auto card = read_gpu_reports(two_cards).at("0000:17:00.0");
  CHECK(card.persistence == false);
  CHECK_FALSE(card.mig);
  CHECK_FALSE(card.ecc);
  CHECK_FALSE(card.uncorrected_ecc_errors);
  CHECK(card.repair_pending == false);
  CHECK_FALSE(card.repair_failed);
  CHECK(card.fabric_state.empty());
  CHECK(card.slowdowns.empty());
  CHECK(card.power_limit_w == 70);
}

TEST_CASE("text that is no such XML says nothing") {
  CHECK(read_gpu_reports("").empty());
  CHECK(read_gpu_reports("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
            .empty());
  CHECK(read_gpu_reports("<nvidia_smi_log><gpu id=\"7\"/></nvidia_smi_log>").empty());
  CHECK(read_gpu_reports("<nvidia_smi_log><gpu id=\"00000000:17:00.0\"").empty());
}

}  // namespace
}  // namespace virtrain::vmctl
