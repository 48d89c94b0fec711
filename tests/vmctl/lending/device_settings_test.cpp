#include "vmctl/lending/device_settings.h"

#include <catch2/catch.hpp>

#include "common/error.h"

namespace virtrain::vmctl {
namespace {

using Command = std::vector<std::string>;

TEST_CASE("nvidia-smi's answer: switches, watts, and what a card does not offer") {
  const auto a100 = parse_settings_answer("Enabled, Disabled, Disabled, 250.00\n");
  CHECK((a100.ecc == true && a100.persistence == false && a100.mig == false));
  CHECK(a100.power_limit_watts == 250.0);
  const auto small = parse_settings_answer("[N/A], Enabled, [N/A], [N/A]");
  CHECK((!small.ecc && small.persistence == true && !small.mig && !small.power_limit_watts));
  CHECK_THROWS_AS(parse_settings_answer("No devices were found"), Error);
}

TEST_CASE("only what differs is set, with persistence on first and off last") {
  const DeviceSettings now{true, false, false, 300.0, {}, {}};
  CHECK(settings_commands("0", now, now).empty());
  CHECK(settings_commands("0", now, {}).empty());
  CHECK(settings_commands("0", now, {false, true, {}, 250.0, 1410, 1593}) ==
        std::vector<Command>{{"nvidia-smi", "-i", "0", "-pm", "1"},
                             {"nvidia-smi", "-i", "0", "-e", "0"},
                             {"nvidia-smi", "-i", "0", "-pl", "250"},
                             {"nvidia-smi", "-i", "0", "-lgc", "1410,1410"},
                             {"nvidia-smi", "-i", "0", "-lmc", "1593,1593"}});
  CHECK(settings_commands("0", {{}, true, {}, 300.0, 1410, {}}, {{}, false, {}, 250.0, {}, {}}) ==
        std::vector<Command>{{"nvidia-smi", "-i", "0", "-pl", "250"},
                             {"nvidia-smi", "-i", "0", "-rgc"},
                             {"nvidia-smi", "-i", "0", "-pm", "0"}});
}

TEST_CASE("what did not become as wanted is said and what nobody asked for is not") {
  const DeviceSettings now{true, false, false, 249.8, {}, {}};
  CHECK(settings_differences({}, now).empty());
  CHECK(settings_differences({true, {}, {}, 250.0, {}, {}}, now).empty());
  const auto found = settings_differences({false, {}, {}, 200.0, {}, {}}, now);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "ECC is on where off was asked for");
  CHECK(found[1] == "power limit is 249.8 W where 200 W was asked for");
  CHECK(settings_differences({true, {}, {}, {}, {}, {}}, {}).at(0) ==
        "ECC is not offered where on was asked for");
}

TEST_CASE("settings come through the journal unchanged") {
  const DeviceSettings some{true, false, {}, 249.5, 1410, {}};
  for (const auto& change : {SettingsChange{}, SettingsChange{some, {}}, SettingsChange{{}, some}})
    CHECK(parse_settings_change(to_json_text(change)) == change);
  CHECK_THROWS_AS(parse_settings_change("{}"), Error);
}

}  // namespace
}  // namespace virtrain::vmctl
