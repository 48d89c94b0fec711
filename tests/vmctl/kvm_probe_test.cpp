#include "vmctl/kvm_probe.h"

#include <catch2/catch.hpp>
#include <filesystem>

#include "vmctl/devices/host_words.h"
#include "vmctl/inventory.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path kHosts = fs::path(VIRTRAIN_BINARY_DIR) / "hosts";

TEST_CASE("arch-capabilities are hidden on AMD hosts whose QEMU would pass them on") {
  const auto amd = load_machine(kHosts / "vendor-vfio-host");
  CHECK(amd.cpu_vendor == "AuthenticAMD");
  CHECK(hides_arch_capabilities(amd, "QEMU 7.2.22"));
  CHECK(hides_arch_capabilities(amd, "QEMU 10.0.13"));
  CHECK_FALSE(hides_arch_capabilities(amd, "QEMU 10.1.0"));
  CHECK_FALSE(hides_arch_capabilities(amd, ""));
  const auto intel = load_machine(kHosts / "r750xa");
  CHECK(intel.cpu_vendor == "GenuineIntel");
  CHECK_FALSE(hides_arch_capabilities(intel, "QEMU 7.2.22"));
}

TEST_CASE("a recorded host that does not say how KVM fared was not tried") {
  CHECK_FALSE(try_kvm(kHosts / "r750xa"));
}

TEST_CASE("a recorded host says its QEMU") {
  CHECK(qemu_version(kHosts / "laptop").empty());
}

}  // namespace
}  // namespace virtrain::vmctl
