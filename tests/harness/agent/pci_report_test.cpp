#include "common/error.h"
#include "harness/agent/machine_report.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

vmctl::PciFunction function() {
  vmctl::PciFunction out;
  out.address = "0000:41:00.0";
  out.vendor = "0x10de";
  out.device = "0x20f1";
  out.class_code = "0x030200";
  out.driver = "nvidia";
  out.numa_node = 1;
  out.root_complex = "pci0000:40";
  out.bridges = {"0000:40:00.0"};
  out.link = {"2.5 GT/s PCIe", 16};
  out.link_possible = {"16.0 GT/s PCIe", 16};
  return out;
}

}  // namespace

TEST_CASE("a report of PCI functions is read back as it was") {
  const auto back = parse_pci_report(pci_report({function(), {}}));
  REQUIRE(back.size() == 2);
  const auto expected = function();
  CHECK(back[0].address == expected.address);
  CHECK(back[0].vendor == expected.vendor);
  CHECK(back[0].device == expected.device);
  CHECK(back[0].class_code == expected.class_code);
  CHECK(back[0].driver == expected.driver);
  CHECK(back[0].numa_node == 1);
  CHECK(back[0].root_complex == expected.root_complex);
  CHECK(back[0].bridges == expected.bridges);
  CHECK(back[0].link == expected.link);
  CHECK(back[0].link_possible == expected.link_possible);
}

TEST_CASE("what a guest makes up is refused as a breach of the protocol") {
  const auto refused = [](const std::string& text) {
    try {
      parse_pci_report(text);
      return false;
    } catch (const Error& error) { return error.code() == ErrorCode::protocol; }
  };
  CHECK(refused(""));
  CHECK(refused("{}"));
  CHECK(refused("[{}]"));
  CHECK(refused("[1]"));
  auto long_text = function();
  long_text.driver = std::string(65, 'x');
  CHECK(refused(pci_report({long_text})));
  auto deep = function();
  deep.bridges.assign(33, "0000:00:00.0");
  CHECK(refused(pci_report({deep})));
  CHECK(refused(pci_report(std::vector<vmctl::PciFunction>(4097))));
  CHECK_FALSE(refused("[]"));
  // Numbers that fit nowhere, and lists within lists.
  auto text = pci_report({function()});
  const auto with = [&](const std::string& number) {
    auto changed = text;
    const std::string field = "\"numa_node\":1";
    return changed.replace(changed.find(field), field.size(), "\"numa_node\":" + number);
  };
  CHECK_FALSE(refused(with("-1")));
  for (const char* number : {"4294967297", "1e300", "18446744073709551615", "-2", "0.5", "null"}) {
    CHECK(refused(with(number)));
  }
  CHECK(refused(std::string(500'000, '[')));
  CHECK(refused(with(std::string(20'000, '[') + std::string(20'000, ']'))));
}

TEST_CASE("control characters of a guest do not reach a terminal") {
  auto hostile = function();
  hostile.driver = "a\x1b[2J";
  CHECK(parse_pci_report(pci_report({hostile}))[0].driver.find('\x1b') == std::string::npos);
}
