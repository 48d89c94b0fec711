// RAPL's counters, in a tree as Linux shows it.

#include "vmctl/machine/package_energy.h"

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::vmctl;
namespace fs = std::filesystem;

namespace {

struct Zones {
  TemporaryFolder folder;
  void put(const std::string& zone, const std::string& file, const std::string& text) const {
    const auto path = folder.path / "sys/class/powercap" / zone;
    fs::create_directories(path);
    std::ofstream(path / file) << text << '\n';
  }
  void add(const std::string& zone, const std::string& name, const std::string& energy) const {
    put(zone, "name", name);
    put(zone, "max_energy_range_uj", "1000000000");
    put(zone, "energy_uj", energy);
  }
};

}  // namespace

TEST_CASE(
    "energy is that of all packages since the start, over the end of a counter, without parts of them") {
  const Zones zones;
  zones.add("intel-rapl:0", "package-0", "5000000");
  zones.add("intel-rapl:1", "package-1", "999000000");
  zones.add("intel-rapl:0:0", "core", "1");
  zones.add("intel-rapl:2", "psys", "1");
  zones.add("intel-rapl-mmio:0", "package-0", "5000000");  // the same counter by another way
  PackageEnergy energy(zones.folder.path);
  REQUIRE(energy.readings().size() == 1);
  zones.put("intel-rapl:0", "energy_uj", "7000000");
  zones.put("intel-rapl-mmio:0", "energy_uj", "7000000");
  zones.put("intel-rapl:1", "energy_uj", "500000");  // 1 J to the end, 0.5 J after it
  zones.put("intel-rapl:2", "energy_uj", "900000000");
  energy.read();
  REQUIRE(energy.readings().size() == 2);
  CHECK(energy.readings()[1].joules == Approx(3.5));
  CHECK(energy.readings()[1].t_ns >= energy.readings()[0].t_ns);
  energy.read();
  CHECK(energy.readings()[2].joules == Approx(3.5));
  fs::remove(zones.folder.path / "sys/class/powercap/intel-rapl:1/energy_uj");
  energy.read();
  CHECK(energy.readings().size() == 3);  // half of a host is not shown as the whole
}

TEST_CASE("a host without RAPL has no readings") {
  const TemporaryFolder folder;
  PackageEnergy energy(folder.path);
  energy.read();
  CHECK(energy.readings().empty());
}
