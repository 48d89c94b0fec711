#include "vmctl/hypervisor/domain/guest_layout.h"

#include <fmt/format.h>

#include "common/error.h"
#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

using Bridges = std::vector<std::string>;
using Plugs = std::vector<int>;

PlacedDevice device(const std::string& address, const std::string& complex, const Bridges& bridges,
                    int numa_node = 0) {
  PlacedDevice out;
  out.grant = {GrantKind::passthrough, address};
  out.root_complex = complex;
  out.bridges = bridges;
  out.numa_node = numa_node;
  return out;
}

std::vector<std::string> models(const GuestLayout& layout) {
  std::vector<std::string> out;
  for (const auto& controller : layout.controllers) { out.push_back(controller.model); }
  return out;
}

TEST_CASE("an expander bus for each root complex, on the cell of its host node") {
  const auto layout = guest_layout({device("0000:17:00.0", "pci0000:16", {"0000:16:02.0"}, 4),
                                    device("0000:ca:00.0", "pci0000:c9", {"0000:c9:02.0"}, 6),
                                    device("0000:31:00.0", "pci0000:30", {"0000:30:02.0"}, 9)},
                                   {4, 6});
  REQUIRE(models(layout) == std::vector<std::string>{"pcie-expander-bus", "pcie-root-port",
                                                     "pcie-expander-bus", "pcie-root-port",
                                                     "pcie-expander-bus", "pcie-root-port"});
  CHECK(layout.controllers[0].numa_cell == 0);
  CHECK(layout.controllers[2].numa_cell == 1);
  CHECK_FALSE(layout.controllers[4].numa_cell);  // a node that the guest has no cell of
  // 192 buses for three of them: 64, 128, 192.
  CHECK(layout.controllers[0].bus_number == 64);
  CHECK(layout.controllers[2].bus_number == 128);
  CHECK(layout.slots[0].guest_address == "0000:41:00.0");
  CHECK(layout.slots[1].guest_address == "0000:81:00.0");
  CHECK(layout.slots[2].guest_address == "0000:c1:00.0");
  CHECK(layout.slots[1].plug == GuestPlug{4, 0});
  CHECK(layout.controller(4).plug == GuestPlug{3, 0});
}

TEST_CASE("two ports of one root complex are two ports of one expander bus") {
  const auto layout = guest_layout({device("0000:17:00.0", "pci0000:16", {"0000:16:02.0"}),
                                    device("0000:18:00.0", "pci0000:16", {"0000:16:04.0"})},
                                   {0});
  CHECK(models(layout) == std::vector<std::string>{"pcie-expander-bus", "pcie-root-port", "pcie-root-port"});
  CHECK(layout.controller(3).plug == GuestPlug{1, 1});
  CHECK(layout.controller(3).guest_address == "0000:40:01.0");
  CHECK(layout.slots[1].guest_address == "0000:42:00.0");
}

TEST_CASE("a switch stands where two devices of the VM share one, and only there") {
  const auto layout =
      guest_layout({device("0000:18:00.0", "pci0000:15", {"0000:15:01.0", "0000:16:00.0", "0000:17:00.0"}),
                    device("0000:30:00.0", "pci0000:2d", {"0000:2d:01.0", "0000:2e:00.0", "0000:2f:00.0"}),
                    device("0000:19:00.0", "pci0000:15", {"0000:15:01.0", "0000:16:00.0", "0000:17:01.0"})},
                   {0});
  REQUIRE(models(layout) ==
          std::vector<std::string>{"pcie-expander-bus", "pcie-root-port", "pcie-switch-upstream-port",
                                   "pcie-switch-downstream-port", "pcie-switch-downstream-port",
                                   "pcie-expander-bus", "pcie-root-port"});
  // Buses are numbered depth first: 40 expander, 41 below the port, 42 below the upstream port, 43, 44.
  CHECK(layout.controller(3).guest_address == "0000:41:00.0");
  CHECK(layout.controller(5).guest_address == "0000:42:01.0");
  CHECK(layout.slots[0].guest_address == "0000:43:00.0");
  CHECK(layout.slots[2].guest_address == "0000:44:00.0");
  CHECK(layout.slots[2].controllers == Plugs{1, 2, 3, 5});
  CHECK(layout.slots[1].controllers == Plugs{6, 7});
}

TEST_CASE("a switch below a switch stays one, so that near pairs are nearer than others") {
  const Bridges near{"0000:00:01.0", "0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
  auto first = near, second = near;
  first.emplace_back("0000:04:00.0");
  second.emplace_back("0000:04:01.0");
  const auto layout =
      guest_layout({device("0000:05:00.0", "pci0000:00", first), device("0000:06:00.0", "pci0000:00", second),
                    device("0000:08:00.0", "pci0000:00", {"0000:00:01.0", "0000:01:00.0", "0000:02:01.0"})},
                   {0});
  CHECK(layout.slots[0].controllers == Plugs{1, 2, 3, 4, 5, 6});
  CHECK(layout.slots[1].controllers == Plugs{1, 2, 3, 4, 5, 7});
  CHECK(layout.slots[2].controllers == Plugs{1, 2, 3, 8});
}

TEST_CASE("functions of one card, and mediated devices of one parent, are below one switch") {
  const auto layout = guest_layout({device("0000:98:00.0", "pci0000:97", {"0000:97:02.0"}),
                                    device("0000:98:00.1", "pci0000:97", {"0000:97:02.0"})},
                                   {0});
  CHECK(layout.slots[0].controllers == Plugs{1, 2, 3, 4});
  CHECK(layout.slots[1].controllers == Plugs{1, 2, 3, 5});
}

TEST_CASE("devices of which nothing is known are plugged in side by side") {
  const auto layout = guest_layout({device("mtty", "", {}, -1), device("mtty", "", {}, -1)}, {0});
  CHECK(models(layout) == std::vector<std::string>{"pcie-expander-bus", "pcie-root-port", "pcie-root-port"});
  CHECK_FALSE(layout.controllers[0].numa_cell);
}

TEST_CASE("more devices than PCI has room for are refused") {
  constexpr int many_devices = 200;
  std::vector<PlacedDevice> many;
  many.reserve(many_devices);
  for (int i = 0; i < many_devices; ++i) {
    many.push_back(device("0000:01:00.0", fmt::format("pci{:04x}:00", i), {"0000:00:01.0"}));
  }
  CHECK_THROWS_AS(guest_layout(many, {0}), Error);
}

}  // namespace
}  // namespace virtrain::vmctl
