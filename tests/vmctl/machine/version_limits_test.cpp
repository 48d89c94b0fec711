#include "vmctl/machine/version_limits.h"

#include "common/text/text.h"
#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

using virtrain::test::Contains;

PlacedDevice gpu(GrantKind kind, const std::string& id) {
  PlacedDevice device;
  device.grant.kind = kind;
  device.vendor = "0x10de";
  device.device = id;
  device.is_display = true;
  return device;
}

std::string limits(const PlacedDevice& device, Clique clique, const std::string& libvirt,
                   const std::string& qemu) {
  return join(version_limits({device}, clique, {libvirt, qemu}), "\n");
}

TEST_CASE("a vendor-specific VFIO vGPU needs libvirt 9.7") {
  const auto vgpu = gpu(GrantKind::vendor_vfio, "0x26b9");
  CHECK_THAT(limits(vgpu, Clique::off, "9.0.0", "QEMU 7.2.22"),
             Contains("needs libvirt 9.7") && Contains("(here: libvirt 9.0.0)"));
  CHECK(limits(vgpu, Clique::off, "9.7.0", "QEMU 7.2.22").empty());
  CHECK(limits(vgpu, Clique::off, "11.3.0", "QEMU 10.0.13").empty());
}

TEST_CASE("the clique hint needs QEMU 8.1 with GPUs from Turing on") {
  const auto ampere = gpu(GrantKind::passthrough, "0x20f1");
  CHECK_THAT(limits(ampere, Clique::all, "9.0.0", "QEMU 7.2.22"),
             Contains("needs QEMU 8.1") && Contains("(here: QEMU 7.2.22)"));
  CHECK(limits(ampere, Clique::all, "9.0.0", "QEMU 8.1.0").empty());
  CHECK(limits(ampere, Clique::off, "9.0.0", "QEMU 7.2.22").empty());
  const auto volta = gpu(GrantKind::passthrough, "0x1db6");
  CHECK(limits(volta, Clique::all, "9.0.0", "QEMU 7.2.22").empty());
}

TEST_CASE("wide guest addresses need libvirt 8.7, and an unknown version is taken for new enough") {
  const auto any = gpu(GrantKind::passthrough, "0x20f1");
  CHECK_THAT(limits(any, Clique::off, "8.6.0", ""), Contains("takes libvirt 8.7"));
  CHECK(limits(any, Clique::all, "", "").empty());
  CHECK(version_limits({}, Clique::off, {"6.0.0", "QEMU 4.2.0"}).empty());
}

}  // namespace
}  // namespace virtrain::vmctl
