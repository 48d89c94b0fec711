// Cache and memory bandwidth of nodes by resctrl: its files read, its lines written, against a tree as Linux
// shows it.

#include "vmctl/slice/resctrl.h"

#include <unistd.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::vmctl;
using virtrain::test::Contains;
namespace fs = std::filesystem;

namespace {

void put(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

/// Two sockets with 20 ways each, bandwidth in steps of 10 %, as of a Xeon Scalable.
void xeon(const fs::path& mount) {
  put(mount / "schemata", "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n");
  put(mount / "info/L3/cbm_mask", "fffff\n");
  put(mount / "info/L3/min_cbm_bits", "1\n");
  put(mount / "info/MB/min_bandwidth", "10\n");
  put(mount / "info/MB/bandwidth_gran", "10\n");
}

NodeLimits bounded(std::optional<double> llc, std::optional<double> memory_bandwidth) {
  NodeLimits limits;
  limits.llc = llc;
  limits.memory_bandwidth = memory_bandwidth;
  return limits;
}

}  // namespace

TEST_CASE("limits become whole ways and steps of bandwidth, never less than was asked for") {
  const ResctrlFacts facts{0xfffff, 1, {0, 1}, 10, 10, {0, 1}};
  CHECK(resctrl_schemata(facts, bounded(0.5, {})) == "L3:0=3ff;1=3ff\n");
  CHECK(resctrl_schemata(facts, bounded(0.51, {})) == "L3:0=7ff;1=7ff\n");
  CHECK(resctrl_schemata(facts, bounded(0.01, {})) == "L3:0=1;1=1\n");
  CHECK(resctrl_schemata(facts, bounded(1, {})) == "L3:0=fffff;1=fffff\n");
  CHECK(resctrl_schemata(facts, bounded({}, 0.3)) == "MB:0=30;1=30\n");
  CHECK(resctrl_schemata(facts, bounded({}, 0.31)) == "MB:0=40;1=40\n");
  CHECK(resctrl_schemata(facts, bounded({}, 0.01)) == "MB:0=10;1=10\n");
  CHECK(resctrl_schemata(facts, bounded(0.25, 1)) == "L3:0=1f;1=1f\nMB:0=100;1=100\n");
  const ResctrlFacts narrow{0x7ff, 2, {0}, 0, 1, {}};
  CHECK(resctrl_schemata(narrow, bounded(0.01, {})) == "L3:0=3\n");  // two ways are the least
}

TEST_CASE("a group is made with its lines, joined by all threads of a process, found and removed") {
  const TemporaryFolder folder;
  const auto& mount = folder.path;
  xeon(mount);
  const auto facts = read_resctrl(mount);
  CHECK((facts.ways == 0xfffff && facts.least_ways == 1 && facts.caches == std::vector<int>{0, 1}));
  CHECK((facts.least_bandwidth == 10 && facts.bandwidth_step == 10 &&
         facts.memories == std::vector<int>{0, 1}));
  make_resctrl_group("vt-e-1", bounded(0.5, 0.3), mount);
  std::ifstream lines(mount / "vt-e-1" / "schemata");
  const std::string written{std::istreambuf_iterator<char>(lines), {}};
  CHECK(written == "L3:0=3ff;1=3ff\nMB:0=30;1=30\n");
  join_resctrl_group("vt-e-1", ::getpid(), mount);
  CHECK(fs::exists(mount / "vt-e-1" / "tasks"));
  CHECK(find_resctrl_groups(mount) == std::vector{mount / "vt-e-1"});
  CHECK_THROWS_AS(remove_resctrl_group(mount / "vt-e-1"),
                  Error);  // here, files keep it; in resctrl, nothing does
  fs::remove_all(mount / "vt-e-1");
  CHECK_NOTHROW(remove_resctrl_group(mount / "vt-e-1"));
  CHECK(find_resctrl_groups(mount).empty());
}

TEST_CASE("a host that cannot divide its cache or its bandwidth says so") {
  const TemporaryFolder folder;
  const auto nothing = read_resctrl(folder.path);
  CHECK_THAT(lacks_resctrl(nothing, bounded(0.5, {})), Contains("no cache allocation here"));
  CHECK_THAT(lacks_resctrl(nothing, bounded({}, 0.5)), Contains("no memory bandwidth allocation here"));
  xeon(folder.path);
  CHECK(lacks_resctrl(read_resctrl(folder.path), bounded(0.5, 0.5)).empty());
  put(folder.path / "schemata", "L3CODE:0=fffff\nL3DATA:0=fffff\n");  // mounted with cdp
  CHECK_THAT(lacks_resctrl(read_resctrl(folder.path), bounded(0.5, {})), Contains("no L3 to divide"));
}
