#include "tests/support/catch.h"
#include "vmctl/machine/inventory.h"

namespace virtrain::vmctl {
namespace {

// As libvirt 9.0 prints it for a function in an IOMMU group, shortened.
constexpr const char* gpu_xml = R"(<device>
  <name>pci_0000_ca_00_0</name>
  <parent>pci_0000_c9_02_0</parent>
  <driver><name>nvidia</name></driver>
  <capability type='pci'>
    <class>0x030200</class>
    <domain>0</domain><bus>202</bus><slot>0</slot><function>0</function>
    <product id='0x20f1'>GA100 [A100 PCIe 40GB]</product>
    <iommuGroup number='27'><address domain='0x0000' bus='0xca' slot='0x00' function='0x0'/></iommuGroup>
  </capability>
</device>)";

HostDevice device(const std::string& address, const std::string& driver, std::optional<int> group) {
  HostDevice found;
  found.function.address = address;
  found.function.driver = driver;
  found.function.iommu_group = group;
  return found;
}

TEST_CASE("a node device's XML: address, driver, IOMMU group") {
  const auto gpu = read_node_device(gpu_xml);
  REQUIRE(gpu);
  CHECK(gpu->pci_address == "0000:ca:00.0");
  CHECK(gpu->driver == "nvidia");
  CHECK(gpu->iommu_group == 27);
  CHECK_FALSE(read_node_device("<device><capability type='net'/></device>"));
  CHECK_FALSE(read_node_device("<device"));
  const auto bare = read_node_device(
      "<device><capability type='pci'><domain>1</domain><bus>0</bus><slot>31</slot><function>7</function>"
      "</capability></device>");
  REQUIRE(bare);
  CHECK(bare->pci_address == "0001:00:1f.7");
  CHECK(bare->driver.empty());
  CHECK_FALSE(bare->iommu_group);
}

TEST_CASE("sysfs and libvirt: silent where they agree, a sentence for each disagreement") {
  const std::vector devices{device("0000:ca:00.0", "nvidia", 27), device("0000:b1:00.0", "vfio-pci", 25),
                            device("0000:17:00.0", "", std::nullopt)};
  CHECK(disagreements({devices[0]}, {*read_node_device(gpu_xml)}).empty());
  const auto found = disagreements(
      devices, {{"0000:ca:00.0", "nvidia", 28}, {"0000:b1:00.0", "nvidia", 25}, {"0000:00:00.0", "", 1}});
  CHECK(found == std::vector<std::string>{"0000:ca:00.0: IOMMU group 27 in sysfs, 28 in libvirt",
                                          "0000:b1:00.0: driver vfio-pci in sysfs, nvidia in libvirt",
                                          "0000:17:00.0: libvirt does not see it"});
}

}  // namespace
}  // namespace virtrain::vmctl
