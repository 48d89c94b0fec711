// Real devices of this host. Root only.

#include "vmctl/machine/host_network.h"

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;

/// "xtn-bridge", and the pair "xtn-nic" and "xtn-end".
struct Devices {
  Devices() {
    test::need_root();
    remove();
    run_ip({}, {"link add xtn-bridge type bridge", "link add xtn-nic type veth peer name xtn-end"});
  }
  ~Devices() { remove(); }
  static void remove() {
    delete_link("xtn-bridge");
    delete_link("xtn-nic");
  }
};

HostNetwork over(const std::string& nic) {
  return {HostNetworkKind::vxlan, nic};
}
HostNetwork bridge(const std::string& name) {
  return {HostNetworkKind::bridge, name};
}

TEST_CASE("a network between hosts needs a bridge or NIC that is there and up, else it says what to do") {
  const Devices devices;
  CHECK_THROWS_WITH(read_host_network(bridge("xtn-none")),
                    Contains("this host has no network device xtn-none"));
  CHECK_THROWS_WITH(read_host_network(over("xtn-none")),
                    Contains("this host has no network device xtn-none"));
  CHECK_THROWS_WITH(read_host_network(bridge("xtn-nic")),
                    Contains("xtn-nic is not a bridge") && Contains("kind: vxlan"));
  CHECK_THROWS_WITH(read_host_network(bridge("xtn-bridge")), Contains("ip link set xtn-bridge up"));
  CHECK_THROWS_WITH(read_host_network(over("xtn-nic")), Contains("ip link set xtn-nic up"));
  run_ip({}, {"link set xtn-nic up"});
  CHECK_THROWS_WITH(read_host_network(over("xtn-nic")), Contains("xtn-nic has no link"));
  run_ip({}, {"link set xtn-end up", "addr add 169.254.3.4/16 dev xtn-nic"});
  CHECK_THROWS_WITH(read_host_network(over("xtn-nic")), Contains("no address that other hosts reach"));
  CHECK_THROWS_WITH(read_host_network(over("lo")), Contains("no address that other hosts reach"));
  const HostNetwork functions{HostNetworkKind::vf, "xtn-nic"};
  CHECK_THROWS_WITH(read_host_network(functions), Contains("xtn-nic has no virtual functions"));
  create_bridge("vtb00beef0", "", "20261120t083012-00beef");
  CHECK_THROWS_WITH(read_host_network(bridge("vtb00beef0")), Contains("a tenant of virtrain's"));
  destroy_bridge("vtb00beef0");
}

TEST_CASE("what nodes have of a NIC or bridge: its address, its MTU, its driver") {
  const Devices devices;
  run_ip({}, {"link set xtn-bridge mtu 9000 up", "link set xtn-nic up", "link set xtn-end up",
              "addr add 2001:db8::1/64 dev xtn-nic nodad"});
  CHECK(read_host_network({}).mtu == 0);
  CHECK(read_host_network(bridge("xtn-bridge")).mtu == 9000);
  CHECK(read_host_network(bridge("xtn-bridge")).address.empty());
  auto facts = read_host_network(over("xtn-nic"));
  CHECK(facts.address == "2001:db8::1");
  CHECK(facts.mtu == 1430);
  CHECK(facts.driver == "veth");
  run_ip({}, {"addr add 198.18.46.1/24 dev xtn-nic", "addr add 198.18.46.9/24 dev xtn-nic"});
  facts = read_host_network(over("xtn-nic"));
  CHECK(facts.address == "198.18.46.1");  // IPv4 before IPv6, and the first one
  CHECK(facts.mtu == 1450);
  CHECK(facts.link_speed == "10000 Mb/s");
}

}  // namespace
}  // namespace virtrain::vmctl
