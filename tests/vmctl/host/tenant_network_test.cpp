#include "vmctl/host/tenant_network.h"

#include <set>

#include "common/error.h"
#include "tests/support/catch.h"
#include "vmctl/host/made_nodes.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;

constexpr const char* experiment = "20261120t083012-7f3a2b";
const HostNetwork a_bridge{HostNetworkKind::bridge, "br-data"}, a_nic{HostNetworkKind::vxlan, "eth1"};

TEST_CASE("VXLANs of two experiments, of their tenants, and of VMs and slices have numbers of their own") {
  std::set<std::uint32_t> numbers;
  constexpr std::size_t experiments = 20, tenants = 50;
  for (std::size_t e = 0; e < experiments; ++e) {
    for (std::size_t t = 0; t < tenants; ++t) {
      for (const auto kind : {NodeKind::vm, NodeKind::slice}) {
        const auto number = vxlan_number("20261120t083012-7f3a" + std::to_string(10 + e), t, kind);
        CHECK(number > 0);
        CHECK(number < 1U << 24);
        numbers.insert(number);
      }
    }
  }
  CHECK(numbers.size() == experiments * tenants * 2);
  CHECK(vxlan_number(experiment, 3, NodeKind::vm) == vxlan_number(experiment, 3, NodeKind::vm));
  // All hosts of a run have to agree: sha256(experiment) begins with the 48 bits of which this comes.
  CHECK(vxlan_number(experiment, 0, NodeKind::vm) == 0xd929acU);
}

TEST_CASE("tunnels have names of at most 15 characters that clean knows as ours") {
  const HostNames names{experiment, tag_of(experiment)};
  constexpr std::size_t last_tenant = 4095;
  for (const auto& name : {names.vxlan(last_tenant), names.slice_vxlan(last_tenant)}) {
    CHECK(name.size() <= 15);
    CHECK(generated_tag(name) == tag_of(experiment));
  }
  CHECK(names.vxlan(1) != names.slice_vxlan(1));
  CHECK_FALSE(generated_tag("vtx0"));
  CHECK_FALSE(generated_tag("vxlan7f3a2b0"));
}

TEST_CASE("nodes have the largest MTU that the network between hosts carries, or a smaller one") {
  HostNetworkFacts facts;
  facts.mtu = 1450;
  CHECK(mtu_of_nodes({}, a_nic, facts) == 1450);
  GuestNetwork guest;
  for (const std::int64_t fits : {1280, 1450}) {
    guest.mtu = fits;
    CHECK(mtu_of_nodes(guest, a_nic, facts) == fits);
  }
  guest.mtu = 1451;
  CHECK_THROWS_WITH(mtu_of_nodes(guest, a_nic, facts),
                    Contains("use an MTU of 1451 bytes on eth1: its VXLAN carries at most 1450"));
}

TEST_CASE("on a bridge of the host's nodes have the MTU of the bridge and no other") {
  HostNetworkFacts facts;
  facts.mtu = 9000;
  CHECK(mtu_of_nodes({}, a_bridge, facts) == 9000);
  GuestNetwork guest;
  guest.mtu = 9000;
  CHECK(mtu_of_nodes(guest, a_bridge, facts) == 9000);
  for (const std::int64_t other : {1500, 9001}) {
    guest.mtu = other;
    CHECK_THROWS_WITH(mtu_of_nodes(guest, a_bridge, facts),
                      Contains("the bridge has 9000") && Contains("leave guest.network.mtu out"));
  }
}

TEST_CASE("ends of tunnels are other hosts', of the same IP version") {
  HostNetworkFacts facts;
  facts.address = "192.0.2.1";
  CHECK_NOTHROW(require_reachable({}, a_nic, facts));
  CHECK_NOTHROW(require_reachable({"192.0.2.2", "198.51.100.7"}, a_nic, facts));
  CHECK_THROWS_WITH(require_reachable({"192.0.2.2", "192.0.2.1"}, a_nic, facts),
                    Contains("reach 192.0.2.1 by VXLAN over eth1: this host has that address itself"));
  CHECK_THROWS_WITH(require_reachable({"2001:db8::2"}, a_nic, facts), Contains("another IP version"));
  facts.address = "2001:db8::1";
  CHECK_NOTHROW(require_reachable({"2001:db8::2"}, a_nic, facts));
  CHECK_THROWS_WITH(require_reachable({"192.0.2.2"}, a_nic, facts), Contains("another IP version"));
}

TEST_CASE("ranks on the host itself need an IPv4 address of its bridge or NIC") {
  HostNetworkFacts facts;
  CHECK_THROWS_WITH(require_usable_by_host(a_bridge, facts), Contains("it has no address"));
  facts.address = "2001:db8::1";
  CHECK_THROWS_WITH(require_usable_by_host(a_nic, facts), Contains("over eth1: its address is 2001:db8::1"));
  facts.address = "192.0.2.1";
  CHECK_NOTHROW(require_usable_by_host(a_bridge, facts));
}

TEST_CASE("other users have the bridges that root's list allows, and none that it denies") {
  for (const auto* list :
       {"allow br-data", "# x\nallow br0\n\tallow  br-data \n", "allow all\ndeny br0", "allow br-data\r\n"}) {
    CAPTURE(list);
    CHECK(allows_device(list, "br-data"));
  }
  for (const auto* list : {"", "allow", "allow br-data2", "allow br", "br-data", "# allow br-data",
                           "allow br-data\ndeny br-data", "deny br-data\nallow br-data",
                           "allow br-data\ndeny all", "include br-data"}) {
    CAPTURE(list);
    CHECK_FALSE(allows_device(list, "br-data"));
  }
}

TEST_CASE("the host's end of a link has an address above those of other ports") {
  CHECK(host_end_mac("52:54:00:12:34:56") == "fe:54:00:12:34:56");
  const auto made = host_end_mac("");
  CHECK(made.size() == 17);
  CHECK(made.starts_with("fe:"));
  CHECK(made != host_end_mac(""));
}

}  // namespace
}  // namespace virtrain::vmctl
