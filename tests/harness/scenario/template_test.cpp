// guest.template: a file beside the scenario's.

#include <fmt/format.h>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/text/described_json.h"
#include "harness/plan/plan.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;

/// Decodes a scenario whose template has this text.
std::string decoded_with(const std::string& xml, const std::string& more = "") {
  const TemporaryFolder folder;
  write_file_atomically(folder.path / "domain.xml", xml, 0600);
  const auto text = fmt::format(
      "name: s\nworkload: {{batch_size: 2}}\n"
      "guest: {{vcpus: 2, memory: 1GiB, template: domain.xml{}}}\n"
      "cases: [{{name: c, tenants: [{{nodes: 1}}]}}]\n",
      more);
  try {
    const auto scenario = decode_scenario(text, (folder.path / "s.yaml").string());
    CHECK(scenario.arms.front().cases.front().guest == scenario.guest);
    return settings_json(scenario.guest)["template"];
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.message();
  }
}

TEST_CASE("a guest's template is read from the scenario's folder and is among its settings") {
  CHECK(decoded_with("<domain type='kvm'>\n  <name>mine</name>\n  <vcpu>2</vcpu>\n"
                     "  <features>\n    <acpi/>\n  </features>\n</domain>\n") ==
        "<domain><features><acpi/></features></domain>");
}

/// Decodes a guest that leaves out what `says` does not say; its sizes, or the refusal.
std::string sizes_with(const std::string& xml, const std::string& says) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path / "domain.xml", xml, 0600);
  const auto text = fmt::format(
      "name: s\nworkload: {{batch_size: 2}}\n"
      "guest: {{template: domain.xml{}}}\n"
      "cases: [{{name: c, tenants: [{{nodes: 1}}]}}]\n",
      says);
  try {
    const auto scenario = decode_scenario(text, (folder.path / "s.yaml").string());
    const auto& guest = scenario.arms.front().cases.front().guest;
    return fmt::format("{} vCPUs, {} MiB", guest.vcpus, guest.memory_bytes >> 20);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::bad_input);
    return error.message();
  }
}

TEST_CASE("sizes that a scenario leaves out are those of its template") {
  const std::string both = "<domain>\n <memory unit='GiB'>2</memory>\n <vcpu>4</vcpu>\n</domain>";
  CHECK(sizes_with(both, "") == "4 vCPUs, 2048 MiB");
  CHECK(sizes_with("<domain><memory>1048576</memory></domain>", ", vcpus: 3") == "3 vCPUs, 1024 MiB");
  CHECK_THAT(sizes_with(both, ", vcpus: 3"), Contains("<vcpu>: guest.vcpus is 3, and it says '4'"));
  CHECK_THAT(sizes_with(both, ", memory: 1GiB"),
             Contains("<memory>: guest.memory is 1GiB, and it says '2 GiB'"));
  CHECK_THAT(sizes_with("<domain><vcpu>4</vcpu></domain>", ""),
             Contains("s.yaml:3:") && Contains("guest.memory is left out, and it has no <memory>"));
  CHECK_THAT(sizes_with("<domain/>", ""), Contains("guest.vcpus is left out, and it has no <vcpu>"));
  CHECK_THAT(sizes_with("<domain>\n <vcpu>0</vcpu></domain>", ""),
             Contains("domain.xml:2:2: <vcpu>: guest.vcpus goes from 1 to 1024"));
  CHECK_THAT(sizes_with("<domain><memory unit='KiB'>7</memory><vcpu>4</vcpu></domain>", ""),
             Contains("<memory>: guest.memory goes from 128 MiB to 64 TiB"));
  CHECK_THAT(sizes_with("<domain>", ""), Contains("it is not XML"));
}

TEST_CASE("a template is refused with the scenario's position and its own") {
  CHECK_THAT(decoded_with("<domain>\n <vcpu>4</vcpu>\n</domain>"),
             Contains("s.yaml:3:") && Contains("domain.xml:2:2: <vcpu>: guest.vcpus is 2, and it says '4'"));
  CHECK_THAT(decoded_with("<domain>\n <devices>\n  <disk/>\n </devices>\n</domain>"),
             Contains("domain.xml:3:3: <disk>: a template may not have it"));
  CHECK_THAT(decoded_with(std::string(100'000, ' ')),
             Contains("cannot be read, or has more than 65536 bytes"));
  CHECK_THAT(decoded_with("<html/>"), Contains("domain.xml:1:1: <html>: a template is one <domain>"));
  CHECK_THAT(decoded_with("<domain><cpu/>\n<cpu/></domain>"),
             Contains("domain.xml:2:1: <cpu>: it is there twice, and libvirt would take one of them"));
  CHECK_THAT(decoded_with("<domain/>", ", memory_encryption: bounce"), Contains("remove one"));
  CHECK_THAT(decoded_with("<domain><cpu mode='custom'><model>qemu64</model></cpu></domain>",
                          ", cpu_model: Skylake-Server-IBRS"),
             Contains("the template has a <cpu>"));
}

}  // namespace
}  // namespace virtrain::harness
