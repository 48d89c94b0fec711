#include "common/enum_text.h"

#include "common/model/virtualization.h"
#include "tests/support/catch.h"

using virtrain::enum_list;
using virtrain::enum_of;
using virtrain::enum_values;
using virtrain::Virtualization;

TEST_CASE("an enumeration that was described once gives its words and takes them back") {
  CHECK(enum_values<Virtualization>().size() == 5);
  CHECK(to_string(Virtualization::kvm_on_emulated) == std::string("kvm_on_emulated"));
  for (const auto value : enum_values<Virtualization>()) {
    CHECK(enum_of<Virtualization>(to_string(value)) == value);
  }
  CHECK(enum_of<Virtualization>("xen") == std::nullopt);
  CHECK(enum_of<Virtualization>("") == std::nullopt);
  CHECK(enum_list<Virtualization>() == "none, kvm, kvm_nested, kvm_on_emulated or tcg");
  CHECK(enum_list<Virtualization>(" and ") == "none, kvm, kvm_nested, kvm_on_emulated and tcg");
}
