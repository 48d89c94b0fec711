#include "harness/plan/baselines.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text/text.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/plan/planning.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

Scenario tenants_scenario(const std::string& devices, const std::string& tenants,
                          const std::string& arms = "[bare_metal, vm]") {
  return decode_scenario(
      fmt::format(
          "name: s\nworkload: {{}}\nguest: {{memory: 4GiB, vcpus: 4}}\ndevices: {}\ncases: [{{name: a, "
          "tenants: [{}]}}]\narms: {}\npairs: 2\n",
          devices, tenants, arms),
      "s.yaml");
}

}  // namespace

TEST_CASE("only vGPUs lack arms, those on bare metal, and each says why") {
  const auto reasons = [](const std::string& devices) {
    const auto s = tenants_scenario(devices, "{gpus_per_node: 0}", "[bare_metal, vm, bare_metal_shared]");
    return join(impossible_arms(s), "\n");
  };
  for (const char* devices :
       {"{kind: none}", "{kind: passthrough}", "{kind: passthrough, settings: {mig: on}}",
        "{kind: vf, select: {address: [0000:98:00.0]}}"}) {
    CHECK(reasons(devices).empty());
  }
  for (const auto& [type, why] : {std::pair{"A100-10C", "so a vGPU has no bare metal to compare with"},
                                  std::pair{"A100-2-10C", "a vGPU backed by MIG has no bare metal"}}) {
    const auto said = reasons(fmt::format("{{kind: vgpu, type: {}}}", type));
    CHECK_THAT(said,
               StartsWith("arm bare_metal: ") && Contains("\narm bare_metal_shared: ") && Contains(why));
    CHECK_THAT(said, !Contains("arm vm: "));
  }
}

TEST_CASE("a vGPU has no bare metal, and the plan is refused for that") {
  const std::string devices = "{kind: vgpu, type: T4-4C}";
  try {
    allowed_plan(tenants_scenario(devices, "{gpus_per_node: 1}"), host("mdev-host"), false);
    FAIL("planned");
  } catch (const Error& error) {
    CHECK(exit_status(error.code()) == 4);
    CHECK_THAT(error.message(), Contains("arm bare_metal: ") && Contains("offers no CUDA"));
  }
  CHECK(allowed_plan(tenants_scenario(devices, "{gpus_per_node: 1}", "[vm]"), host("mdev-host"), false)
            .trials.size() == 2);
}

TEST_CASE("MIG inside a passthrough guest is one tenant, and the plan says so") {
  const auto warnings = [](const std::string& devices) {
    return join(allowed_plan(tenants_scenario(devices, "{gpus_per_node: 2}"), host("r750xa"), false).warnings,
                " ");
  };
  CHECK_THAT(warnings("{kind: passthrough, settings: {mig: on}}"),
             Contains("nothing here shows isolation between tenants"));
  CHECK_THAT(warnings("{kind: passthrough}"), !Contains("isolation"));
}

TEST_CASE("a scenario with both kinds of vGPUs is refused for each") {
  const auto s = tenants_scenario("{kind: vgpu, type: A100-10C}",
                                  "{gpus_per_node: 1}, {gpus_per_node: 1, vgpu_type: A100-2-10C}");
  CHECK(forms_of(s) == std::vector<DeviceForm>{DeviceForm::vgpu, DeviceForm::mig_backed_vgpu});
  CHECK(impossible_arms(s).size() == 2);
}
