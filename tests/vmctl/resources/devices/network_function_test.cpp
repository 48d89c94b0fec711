#include "vmctl/resources/devices/network_function.h"

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
using Strings = std::vector<std::string>;

const FunctionSeat seat{"", "ens1f0", 3};

TEST_CASE("what a physical function enforces of its virtual ones, as ip prints it") {
  // iproute2 6.1 with igb, and a line as versions before 5.1 have it.
  const std::string shown =
      "2: ens1f0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP mode DEFAULT group default "
      "qlen "
      "1000\n"
      "    link/ether a0:36:9f:00:00:01 brd ff:ff:ff:ff:ff:ff\n"
      "    vf 0     link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:ff, spoof checking on, link-state auto, "
      "trust "
      "off\n"
      "    vf 3 MAC 00:00:00:00:00:00, spoof checking off, link-state auto, trust on\n"
      "    vf 5     link/infiniband 80:00 brd 00:ff, spoof checking off\n";
  CHECK(parse_function_settings(shown, 0) == FunctionSettings{"52:54:00:12:34:56", "on", "off"});
  CHECK(parse_function_settings(shown, 3) == FunctionSettings{"00:00:00:00:00:00", "off", "on"});
  CHECK_FALSE(parse_function_settings(shown, 1));
  CHECK_FALSE(parse_function_settings(shown, 5));
  CHECK_FALSE(parse_function_settings("", 0));
}

TEST_CASE("a physical function is told what differs and nothing else") {
  const FunctionSettings none{"00:00:00:00:00:00", "off", ""}, ours{"52:54:00:12:34:56", "on", ""};
  CHECK(settings_command(seat, none, ours) == Strings{"ip", "link", "set", "dev", "ens1f0", "vf", "3", "mac",
                                                      "52:54:00:12:34:56", "spoofchk", "on"});
  CHECK(settings_command(seat, ours, none) == Strings{"ip", "link", "set", "dev", "ens1f0", "vf", "3", "mac",
                                                      "00:00:00:00:00:00", "spoofchk", "off"});
  CHECK(settings_command(seat, ours, ours).empty());
  auto trusted = ours;
  trusted.trust = "on";
  CHECK(settings_command(seat, trusted, {ours.mac, "on", "off"}) ==
        Strings{"ip", "link", "set", "dev", "ens1f0", "vf", "3", "trust", "off"});
}

TEST_CASE("an interface that its driver has made again becomes as it was") {
  const FunctionInterface before{"ens1f0v3", "a6:36:9f:00:00:03", "9000", true};
  CHECK(steps_to_restore(before, before).empty());
  CHECK(steps_to_restore({"eth0", "52:54:00:12:34:56", "1500", true}, before) ==
        Strings{"link set eth0 down", "link set eth0 name ens1f0v3",
                "link set ens1f0v3 address a6:36:9f:00:00:03", "link set ens1f0v3 mtu 9000",
                "link set ens1f0v3 up"});
  CHECK(steps_to_restore({"ens1f0v3", before.mac, "9000", false}, before) == Strings{"link set ens1f0v3 up"});
  auto down = before;
  down.is_up = false;
  CHECK(steps_to_restore(before, down) == Strings{"link set ens1f0v3 down"});
  CHECK(steps_to_restore(before, {}).empty());
}

TEST_CASE("a virtual function's seat and interface are found in sysfs") {
  const TemporaryFolder folder;
  const auto physical = folder.path / "0000:03:00.0", function = folder.path / "0000:03:10.2";
  fs::create_directories(physical / "net/ens1f0");
  fs::create_directories(function / "net/ens1f0v1");
  fs::create_symlink("../0000:03:10.0", physical / "virtfn0");
  fs::create_symlink("../0000:03:10.2", physical / "virtfn1");
  fs::create_symlink("../0000:03:00.0", function / "physfn");
  std::ofstream(function / "net/ens1f0v1/address") << "a6:36:9f:00:00:03\n";
  std::ofstream(function / "net/ens1f0v1/mtu") << "1500\n";
  std::ofstream(function / "net/ens1f0v1/flags") << "0x1003\n";
  const auto found = find_seat(folder.path, "0000:03:10.2");
  REQUIRE(found);
  CHECK(found->interface == "ens1f0");
  CHECK(found->index == 1);
  CHECK_FALSE(find_seat(folder.path, "0000:03:10.4"));
  CHECK(read_interface("0000:03:10.2", folder.path) ==
        FunctionInterface{"ens1f0v1", "a6:36:9f:00:00:03", "1500", true});
  CHECK(read_interface("0000:03:00.1", folder.path).name.empty());
}

}  // namespace
}  // namespace virtrain::vmctl
