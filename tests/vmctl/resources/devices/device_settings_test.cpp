#include "vmctl/resources/devices/device_settings.h"

#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/text.h"
#include "tests/support/catch.h"
#include "tests/support/first_in_path.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/resources/kind/state.h"

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
  const DeviceSettings now{.power_limit_watts = 300.0, .ecc = true, .persistence = false, .mig = false};
  CHECK(settings_commands("0", now, now).empty());
  CHECK(settings_commands("0", now, {}).empty());
  CHECK(settings_commands("0", now,
                          {.power_limit_watts = 250.0,
                           .graphics_clock_mhz = 1410,
                           .memory_clock_mhz = 1593,
                           .ecc = false,
                           .persistence = true}) ==
        std::vector<Command>{{"nvidia-smi", "-i", "0", "-pm", "1"},
                             {"nvidia-smi", "-i", "0", "-e", "0"},
                             {"nvidia-smi", "-i", "0", "-pl", "250"},
                             {"nvidia-smi", "-i", "0", "-lgc", "1410,1410"},
                             {"nvidia-smi", "-i", "0", "-lmc", "1593,1593"}});
  CHECK(settings_commands("0", {.power_limit_watts = 300.0, .graphics_clock_mhz = 1410, .persistence = true},
                          {.power_limit_watts = 250.0, .persistence = false}) ==
        std::vector<Command>{{"nvidia-smi", "-i", "0", "-pl", "250"},
                             {"nvidia-smi", "-i", "0", "-rgc"},
                             {"nvidia-smi", "-i", "0", "-pm", "0"}});
}

TEST_CASE("what did not become as wanted is said and what nobody asked for is not") {
  const DeviceSettings now{.power_limit_watts = 249.8, .ecc = true, .persistence = false, .mig = false};
  CHECK(settings_differences({}, now).empty());
  CHECK(settings_differences({.power_limit_watts = 250.0, .ecc = true}, now).empty());
  const auto found = settings_differences({.power_limit_watts = 200.0, .ecc = false}, now);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "ECC is on where off was asked for");
  CHECK(found[1] == "power limit is 249.8 W where 200 W was asked for");
  CHECK(settings_differences({.ecc = true}, {}).at(0) == "ECC is not offered where on was asked for");
}

TEST_CASE("a power limit that was forgotten is set again, and one that cannot be is no failure") {
  const TemporaryFolder folder;
  const auto file = folder.path / "limit";
  const auto limit_is = [&](const std::string& watts) { std::ofstream(file) << watts; };
  std::ofstream(folder.path / "nvidia-smi")
      << "#!/bin/sh\n[ \"$2\" = 0000:17:00.0 ] || { echo No devices were found; exit 6; }\n"
      << "case $3 in\n  -pl) echo \"$4\" > " << file.string() << ";;\n"
      << "  *) echo \"Enabled, Enabled, [N/A], $(cat " << file.string() << ")\";;\nesac\n";
  std::filesystem::permissions(folder.path / "nvidia-smi", std::filesystem::perms::owner_all);
  const FirstInPath stands_for_the_real_one(folder.path);

  limit_is("250.00");
  const auto limits = power_limits({"0000:17:00.0", "0000:17:00.4"});
  CHECK(limits == R"({"0000:17:00.0":250.0})");
  limit_is("350.00");
  restore_power_limits(limits);
  CHECK(trim(read_file(file).value()) == "250");
  limit_is("[N/A]");
  CHECK(power_limits({"0000:17:00.0"}) == "{}");
  CHECK_NOTHROW(restore_power_limits(R"({"0000:17:00.4":250.0})"));
  CHECK_NOTHROW(restore_power_limits(""));
}

TEST_CASE("settings come through the journal unchanged") {
  const DeviceSettings some{
      .power_limit_watts = 249.5, .graphics_clock_mhz = 1410, .ecc = true, .persistence = false};
  using SettingsChange = Change<DeviceSettings>;
  for (const auto& change : {SettingsChange{}, SettingsChange{some, {}}, SettingsChange{{}, some}}) {
    CHECK(from_state<SettingsChange>(to_state(change)) == change);
  }
  CHECK_THROWS_AS(from_state<SettingsChange>("{}"), Error);
  const std::string nothing =
      R"({"ecc":null,"graphics_clock_mhz":null,"memory_clock_mhz":null,"mig":null,"persistence":null,)"
      R"("power_limit_watts":null})";
  CHECK(to_state(SettingsChange{}) == R"({"before":)" + nothing + R"(,"wanted":)" + nothing + "}");
}

}  // namespace
}  // namespace virtrain::vmctl
