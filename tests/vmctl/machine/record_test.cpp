#include "vmctl/machine/record.h"

#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

TEST_CASE("a host that was recorded is the host that it was, with all of its devices") {
  const TemporaryFolder folder;
  const auto recorded = folder.path / "host";
  record_host(recorded);
  const auto now = load_machine("/"), then = load_inventory(recorded);
  CHECK(then.hostname == now.hostname);
  CHECK(then.kernel == now.kernel);
  CHECK(then.cpu_flags == now.cpu_flags);
  CHECK(then.mitigations == now.mitigations);
  CHECK(then.numa_nodes.size() == now.numa_nodes.size());
  CHECK(then.numa_nodes[0].memory_bytes >= now.numa_nodes[0].memory_bytes / 2);
  CHECK(then.cores.size() >= now.cores.size());  // those, too, that this process may not use
  const auto devices = load_inventory("/");
  REQUIRE(then.devices.size() == devices.devices.size());
  REQUIRE(then.other_devices.size() == devices.other_devices.size());
  for (std::size_t i = 0; i < then.other_devices.size(); ++i) {
    const auto &a = then.other_devices[i].function, &b = devices.other_devices[i].function;
    CHECK(a.address == b.address);
    CHECK(a.driver == b.driver);
    CHECK(a.iommu_group_members == b.iommu_group_members);
    CHECK(a.bars.size() == b.bars.size());
  }
}

TEST_CASE("a host is recorded into a new folder only") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(record_host(folder.path), virtrain::test::Contains("exists already"));
  fs::create_symlink(folder.path, folder.path / "link");
  CHECK_THROWS_AS(record_host(folder.path / "link"), Error);
  CHECK_THROWS_AS(record_host(folder.path / "none/host"), Error);
}

}  // namespace
}  // namespace virtrain::vmctl
