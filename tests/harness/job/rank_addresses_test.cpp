#include "harness/job/rank_addresses.h"

#include "common/error.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using test::Contains;

AddressedMachine machine(const std::string& name, std::vector<MachineNetwork> networks,
                         const std::string& address = "") {
  AddressedMachine made{name, {}, address};
  made.report.networks = std::move(networks);
  return made;
}

std::string addresses_refusal(const std::vector<AddressedMachine>& machines) {
  try {
    rank_addresses(machines);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::trial_failed);
    return error.message();
  }
  return "(accepted)";
}

TEST_CASE("ranks talk over the first network that all machines share, each by its own interface") {
  const auto found = rank_addresses(
      {machine("a:1",
               {{"docker0", "172.17.0.1", 16}, {"eth0", "198.51.100.2", 24}, {"ens5", "10.0.0.9", 20}}),
       machine("a:2", {{"docker0", "172.17.0.1", 16}, {"enp1s0", "10.0.3.4", 20}})});
  REQUIRE(found.size() == 2);
  CHECK(found[0].interface == "ens5");
  CHECK(found[0].address == "10.0.0.9");
  CHECK(found[1].interface == "enp1s0");
  CHECK(found[1].network == "10.0.0.0/20");
}

TEST_CASE("an arm's own addresses decide, and are of the machine") {
  const std::vector<MachineNetwork> two{{"eth0", "10.0.0.1", 24}, {"eth1", "10.1.0.1", 24}};
  const auto found = rank_addresses(
      {machine("a:1", two, "10.1.0.1"), machine("a:2", {{"eth0", "192.0.2.1", 24}}, "192.0.2.1")});
  CHECK(found[0].interface == "eth1");
  CHECK(found[1].network == "192.0.2.0/24");
  CHECK_THAT(addresses_refusal({machine("a:1", two, "10.2.0.1")}),
             Contains("a:1 has no address 10.2.0.1 (it has: eth0 10.0.0.1, eth1 10.1.0.1)"));
}

TEST_CASE("machines that share no network need addresses, and one alone needs none") {
  CHECK_THAT(addresses_refusal(
                 {machine("a:1", {{"eth0", "10.0.0.1", 24}}), machine("a:2", {{"eth0", "10.0.1.1", 24}})}),
             Contains("share no network: a:1 has eth0 10.0.0.1; a:2 has eth0 10.0.1.1 (give each an address: "
                      "in the arm)"));
  CHECK(rank_addresses({machine("a:1", {})})[0].interface.empty());
}

TEST_CASE("what is virtual is what a machine says of itself, and else not known") {
  MachineReport report;
  CHECK_FALSE(virtualization_of(report));
  report.is_guest = false;
  CHECK(virtualization_of(report) == Virtualization::none);
  report.is_guest = true;
  report.hypervisor = "KVMKVMKVM";
  CHECK(virtualization_of(report) == Virtualization::kvm);
  report.hypervisor = "TCGTCGTCGTCG";
  CHECK(virtualization_of(report) == Virtualization::tcg);
  report.hypervisor = "VMwareVMware";
  CHECK_FALSE(virtualization_of(report));
  message::Machine said;
  said.networks = {"eth0 192.0.2.7/24"};
  CHECK(checked_machine(said).networks[0].prefix == 24);
  for (const char* odd : {"eth0 192.0.2.7", "eth0 192.0.2.7/33", "../x 192.0.2.7/24", "eth0 x/24", ""}) {
    said.networks = {odd};
    CHECK_THROWS_AS(checked_machine(said), Error);
  }
}

}  // namespace
}  // namespace virtrain::harness
