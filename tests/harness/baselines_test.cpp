#include "harness/plan/baselines.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "common/error.h"
#include "common/text.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode.h"

using namespace virtrain;
using namespace virtrain::harness;
using Catch::Contains;

namespace {

Devices devices_of(DeviceForm form) {
  Devices devices;
  switch (form) {
    case DeviceForm::none:
      break;
    case DeviceForm::passthrough_with_mig:
      devices.settings.mig = true;
      [[fallthrough]];
    case DeviceForm::passthrough:
      devices.kind = DeviceKind::passthrough;
      break;
    case DeviceForm::mig_backed_vgpu:
    case DeviceForm::vgpu:
      devices.kind = DeviceKind::vgpu;
      devices.vgpu_type = form == DeviceForm::vgpu ? "A100-10C" : "A100-2-10C";
      break;
    case DeviceForm::virtual_function:
      devices.kind = DeviceKind::vf;
      break;
  }
  return devices;
}

Scenario scenario(const std::string& devices, const std::string& tenants,
                  const std::string& arms = "[bare_metal, vm]") {
  return decode_scenario(
      fmt::format(
          "name: s\nworkload: {{}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: {}\ncases: [{{name: a, "
          "tenants: [{}]}}]\narms: {}\npairs: 2\n",
          devices, tenants, arms),
      "s.yaml");
}

vmctl::Inventory host(const std::string& name) {
  return vmctl::load_inventory(std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts" / name);
}

}  // namespace

TEST_CASE("each row of the table of baselines: what cannot run is refused with its reason") {
  for (const auto& rule : baseline_rules()) {
    Scenario s;
    s.devices = devices_of(rule.form);
    s.arms = {std::string(rule.arm)};
    INFO(to_string(rule.form) << " " << rule.arm);
    if (rule.can_run)
      CHECK(impossible_arms(s).empty());
    else
      CHECK(impossible_arms(s) == std::vector<std::string>{fmt::format("arm {}: {}", rule.arm, rule.why)});
  }
}

TEST_CASE("every form has a row for every arm") {
  CHECK(baseline_rules().size() == std::size_t{6} * 3);
}

TEST_CASE("a vGPU has no bare metal, and the plan is refused for that") {
  const std::string devices = "{kind: vgpu, type: T4-4C}";
  try {
    make_plan(scenario(devices, "{gpus_per_node: 1}"), host("mdev-host"), false);
    FAIL("planned");
  } catch (const Error& error) {
    CHECK(exit_status(error.code()) == 4);
    CHECK_THAT(error.message(), Contains("arm bare_metal: ") && Contains("offers no CUDA"));
  }
  CHECK(make_plan(scenario(devices, "{gpus_per_node: 1}", "[vm]"), host("mdev-host"), false).trials.size() ==
        2);
}

TEST_CASE("MIG inside a passthrough guest is one tenant, and the plan says so") {
  const auto warnings = [](const std::string& devices) {
    return join(make_plan(scenario(devices, "{gpus_per_node: 2}"), host("r750xa"), false).warnings, " ");
  };
  CHECK_THAT(warnings("{kind: passthrough, settings: {mig: on}}"),
             Contains("nothing here shows isolation between tenants"));
  CHECK_THAT(warnings("{kind: passthrough}"), !Contains("isolation"));
}

TEST_CASE("a scenario with both kinds of vGPUs is refused for each") {
  const auto s = scenario("{kind: vgpu, type: A100-10C}",
                          "{gpus_per_node: 1}, {gpus_per_node: 1, vgpu_type: A100-2-10C}");
  CHECK(forms_of(s) == std::vector<DeviceForm>{DeviceForm::vgpu, DeviceForm::mig_backed_vgpu});
  CHECK(impossible_arms(s).size() == 2);
}
