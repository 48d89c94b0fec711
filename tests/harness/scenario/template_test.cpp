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

TEST_CASE("a template is refused with the scenario's position and its own") {
  CHECK_THAT(decoded_with("<domain>\n <vcpu>4</vcpu>\n</domain>"),
             Contains("s.yaml:3:") && Contains("domain.xml:2:2: <vcpu>: guest.vcpus is 2, and it says '4'"));
  CHECK_THAT(decoded_with("<domain>\n <devices>\n  <disk/>\n </devices>\n</domain>"),
             Contains("domain.xml:3:3: <disk>: a template may not have it"));
  CHECK_THAT(decoded_with(std::string(100'000, ' ')),
             Contains("cannot be read, or has more than 65536 bytes"));
  CHECK_THAT(decoded_with("<domain/>", ", memory_encryption: bounce"), Contains("remove one"));
  CHECK_THAT(decoded_with("<domain><cpu mode='custom'><model>qemu64</model></cpu></domain>",
                          ", cpu_model: Skylake-Server-IBRS"),
             Contains("the template has a <cpu>"));
}

}  // namespace
}  // namespace virtrain::harness
