#include "vmctl/resources/devices/binding.h"

#include <nlohmann/json.hpp>

#include <map>

#include "common/error.h"
#include "tests/support/catch.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* address = "0000:17:00.0";

/// What the kernel does with one write, as Documentation/ABI/testing/sysfs-bus-pci says.
class Kernel {
 public:
  Kernel(Binding start, std::string native) : now(std::move(start)), native_(std::move(native)) {}

  void take(const PciWrite& write) {
    const auto in_folder = std::string("devices/") + address + "/";
    if (write.file == in_folder + "driver_override") {
      now.driver_override = write.text == "\n" ? "" : write.text.substr(0, write.text.size() - 1);
    } else if (write.file == in_folder + "d3cold_allowed") {
      now.d3cold_allowed = write.text;
    } else if (write.file == in_folder + "driver/unbind") {
      REQUIRE(!now.driver.empty());  // the link is not there
      REQUIRE(write.text == address);
      now.driver.clear();
    } else if (write.file == "drivers_probe") {
      if (now.driver.empty()) { now.driver = now.driver_override.empty() ? native_ : now.driver_override; }
    } else {
      REQUIRE(now.driver.empty());  // EBUSY
      const auto driver = write.file.substr(8, write.file.find("/bind") - 8);
      // A driver takes what its table or the override names (ENODEV else).
      REQUIRE((driver == native_ || driver == now.driver_override));
      now.driver = driver;
    }
  }

  Binding now;

 private:
  std::string native_;
};

const std::vector<Binding> starts = {
    {"nvidia", "", "1"},           {"nvidia", "", ""},        {"", "", "1"}, {"vfio-pci", "", "0"},
    {"vfio-pci", "vfio-pci", "0"}, {"nvidia", "nvidia", "1"},
};

TEST_CASE("udev's look at a disk passes, everybody else's is told at once") {
  using namespace std::chrono_literals;
  const DeviceUser udev{7, "(udev-worker)", "/dev/nvme0n1"}, reader{8, "dd", "/dev/nvme0n1"};
  int looks = 0;
  const auto leaves = [&] { return ++looks < 4 ? std::vector{udev} : std::vector<DeviceUser>(); };
  CHECK(users_that_stay(leaves, 10s).empty());
  CHECK(looks == 4);
  looks = 0;
  const auto shares = [&] {
    ++looks;
    return std::vector{udev, reader};
  };
  CHECK(users_that_stay(shares, 10s).size() == 2);
  CHECK(looks == 1);
  CHECK(users_that_stay([&] { return std::vector{udev}; }, 120ms).size() == 1);
}

TEST_CASE("lending unbinds from the host's driver, by override and never by new_id") {
  const auto steps = steps_to_lend(address, {"nvidia", "", "1"});
  CHECK(steps == std::vector<PciWrite>{{"devices/0000:17:00.0/d3cold_allowed", "0"},
                                       {"devices/0000:17:00.0/driver_override", "vfio-pci\n"},
                                       {"devices/0000:17:00.0/driver/unbind", "0000:17:00.0"},
                                       {"drivers_probe", "0000:17:00.0"}});
}

TEST_CASE("lent from any start the function is vfio-pci's and sleeps no deep sleep") {
  for (const auto& start : starts) {
    Kernel kernel(start, "nvidia");
    for (const auto& step : steps_to_lend(address, start)) { kernel.take(step); }
    CHECK(kernel.now.driver == "vfio-pci");
    CHECK(kernel.now.driver_override == "vfio-pci");
    CHECK(kernel.now.d3cold_allowed != "1");
    CHECK(steps_to_lend(address, kernel.now).empty());
  }
}

TEST_CASE("wherever lending is cut off, giving back leads to what was before") {
  for (const auto& start : starts) {
    const auto lending = steps_to_lend(address, start);
    for (std::size_t cut = 0; cut <= lending.size(); ++cut) {
      Kernel kernel(start, start.driver == "vfio-pci" ? "vfio-pci" : "nvidia");
      for (std::size_t i = 0; i < cut; ++i) { kernel.take(lending[i]); }
      // And giving back may itself be cut off anywhere, and begin anew.
      const auto first = steps_to_give_back(address, kernel.now, start);
      for (std::size_t again = 0; again <= first.size(); ++again) {
        Kernel second = kernel;
        for (std::size_t i = 0; i < again; ++i) { second.take(first[i]); }
        for (const auto& step : steps_to_give_back(address, second.now, start)) { second.take(step); }
        CHECK(second.now == start);
      }
    }
  }
}

TEST_CASE("a function without a driver before is left without one") {
  const auto steps = steps_to_give_back(address, {"vfio-pci", "vfio-pci", ""}, {"", "", ""});
  CHECK(steps == std::vector<PciWrite>{{"devices/0000:17:00.0/driver_override", "\n"},
                                       {"devices/0000:17:00.0/driver/unbind", "0000:17:00.0"}});
}

TEST_CASE("a binding comes through the journal unchanged, and other text is an error") {
  for (const auto& start : starts) { CHECK(from_state<Binding>(to_state(start)) == start); }
  // as journals of other versions have it
  CHECK(to_state(Binding{"nvidia", "", "1"}) ==
        R"({"d3cold_allowed":"1","driver":"nvidia","driver_override":""})");
  for (const auto* text : {"", "{}", "[1]", "{\"driver\": 3}"}) {
    CHECK_THROWS_AS(from_state<Binding>(text), Error);
  }
}

}  // namespace
}  // namespace virtrain::vmctl
