// What is refused before a run, on a stand-in for a host.

#include "harness/experiment/preflight.h"

#include "common/error.h"
#include "common/files/new_file.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;

/// Why VMs of a template with this <cpu> cannot run in the arms on a host; empty: they can.
std::string refusal_of(const std::string& cpu, bool has_kvm, const std::string& arms = "[bare_metal, vm]") {
  const TemporaryFolder folder;
  write_file_atomically(folder.path / "domain.xml", "<domain>" + cpu + "</domain>", 0600);
  const auto scenario = decode_scenario(
      "name: s\nworkload: {batch_size: 2}\n"
      "guest: {vcpus: 1, memory: 512MiB, template: domain.xml}\n"
      "cases: [{name: c, tenants: [{nodes: 1}]}]\narms: " +
          arms + "\n",
      (folder.path / "s.yaml").string());
  auto inventory = test::FakeHost::small_inventory();
  inventory.has_kvm_device = has_kvm;
  test::FakeHost host(folder.path, "", {});
  try {
    check_host(host, scenario, make_plan(scenario, inventory, !has_kvm), inventory, vmctl::HostMode::system);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    return error.message();
  }
  return "";
}

TEST_CASE("a template that wants the host's own processor needs KVM") {
  const std::string passthrough = "<cpu mode='host-passthrough'/>", model = "<cpu mode='host-model'/>";
  CHECK(refusal_of(passthrough, true).empty());
  CHECK(
      refusal_of(passthrough, false) ==
      "guest.template: <cpu mode='host-passthrough'> needs KVM, and VMs are emulated here (use mode maximum, "
      "or a host with KVM)");
  CHECK_THAT(refusal_of(model, false), Contains("<cpu mode='host-model'> needs KVM"));
  CHECK(refusal_of("<cpu mode='maximum'/>", false).empty());
  CHECK(refusal_of("<features><acpi/></features>", false).empty());
  CHECK(refusal_of(passthrough, false, "[bare_metal]").empty());
}

}  // namespace
}  // namespace virtrain::harness
