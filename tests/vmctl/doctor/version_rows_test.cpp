#include "common/text/text.h"
#include "tests/support/catch.h"
#include "vmctl/machine/version_limits.h"

namespace virtrain::vmctl {
namespace {

PlacedDevice a100(GrantKind kind) {
  PlacedDevice gpu;
  gpu.grant = {kind, "0000:17:00.0"};
  gpu.device = "0x20f1";
  gpu.is_display = true;
  return gpu;
}

PlacedDevice by_iommufd() {
  auto gpu = a100(GrantKind::passthrough);
  gpu.vfio = Vfio::iommufd;
  return gpu;
}

/// Kinds, clique, the versions that are one too old and those that do; one row of the table each.
struct Row {
  GrantKind kind;
  Clique clique;
  HypervisorVersions old_versions;
  std::string old_kernel;
  std::string words;
};

const HypervisorVersions newest{"11.3.0", "QEMU 10.0.13"};

TEST_CASE("each limit of a version: named with the version that can, and gone with it") {
  const std::vector<Row> rows = {
      {GrantKind::mdev, Clique::off, {"3.1.0", newest.hypervisor}, "6.12.0", "need libvirt 3.2"},
      {GrantKind::passthrough, Clique::auto_, {"8.1.0", newest.hypervisor}, "6.12.0", "from 8.2 on"},
      {GrantKind::passthrough, Clique::off, {"8.6.0", newest.hypervisor}, "6.12.0", "takes libvirt 8.7"},
      {GrantKind::vendor_vfio, Clique::off, {"9.6.0", newest.hypervisor}, "6.12.0", "needs libvirt 9.7"},
      {GrantKind::vendor_vfio, Clique::off, newest, "6.0.0-1-amd64", "needs Linux 6.1"},
      {GrantKind::passthrough, Clique::all, {"11.3.0", "QEMU 8.0.5"}, "6.12.0", "needs QEMU 8.1"},
  };
  for (const auto& row : rows) {
    INFO(row.words);
    const auto limits = version_limits({a100(row.kind)}, row.clique, row.old_versions, row.old_kernel);
    CHECK_THAT(join(limits, "\n"), virtrain::test::Contains(row.words));
    CHECK(version_limits({a100(row.kind)}, row.clique, newest, "6.12.0").empty());
  }
}

TEST_CASE(
    "Debian 12 passes whole GPUs and mediated devices, not vendor-specific VFIO, nor a clique from Turing "
    "on") {
  const HypervisorVersions bookworm{"9.0.0", "QEMU 7.2.22"};
  const std::string kernel = "6.1.0-35-amd64";
  CHECK(version_limits({a100(GrantKind::passthrough)}, Clique::off, bookworm, kernel).empty());
  CHECK(version_limits({a100(GrantKind::mdev)}, Clique::off, bookworm, kernel).empty());
  CHECK(version_limits({a100(GrantKind::vendor_vfio)}, Clique::off, bookworm, kernel).size() == 1);
  CHECK(version_limits({a100(GrantKind::passthrough)}, Clique::all, bookworm, kernel).size() == 1);
  auto volta = a100(GrantKind::passthrough);
  volta.device = "0x1db6";
  CHECK(version_limits({volta}, Clique::all, bookworm, kernel).empty());
}

TEST_CASE("one program's limits alone, and none without devices or versions") {
  const HypervisorVersions old{"6.0.0", "QEMU 5.2.0"};
  const std::vector gpus{a100(GrantKind::passthrough)};
  CHECK(version_limits(gpus, Clique::all, old, "", Program::qemu).size() == 1);
  CHECK(version_limits(gpus, Clique::all, old, "", Program::libvirt).size() == 2);
  CHECK(version_limits({}, Clique::all, old).empty());
  CHECK(version_limits(gpus, Clique::all, {}).empty());
}

TEST_CASE("iommufd takes all three programs, and is refused with the version of each that can") {
  const HypervisorVersions old{"12.0.0", "QEMU 8.2.2"};
  const auto limits = join(version_limits({by_iommufd()}, Clique::off, old, "6.5.0"), "\n");
  CHECK_THAT(limits, virtrain::test::Contains("libvirt 12.1") && virtrain::test::Contains("QEMU 9.0") &&
                         virtrain::test::Contains("Linux 6.6"));
  CHECK(version_limits({by_iommufd()}, Clique::off, {"12.1.0", "QEMU 9.0.0"}, "6.6.0").empty());
  CHECK(version_limits({a100(GrantKind::passthrough)}, Clique::off, old, "6.5.0").empty());
}

TEST_CASE("versions in words") {
  CHECK(is_since("QEMU 8.1.0", 8, 1));
  CHECK_FALSE(is_since("QEMU 8.0.9", 8, 1));
  CHECK(is_since("10.0.0", 9, 7));
  CHECK_FALSE(is_since("6.8.0-60-generic", 6, 12));
  CHECK(is_since("", 6, 12));
}

}  // namespace
}  // namespace virtrain::vmctl
