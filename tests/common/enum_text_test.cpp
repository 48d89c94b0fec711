#include "common/enum_text.h"

#include "common/model/virtualization.h"
#include "tests/support/catch.h"

namespace {

enum class Sparse { zero = 0, seven_ = 7, minus = -1 };
VIRTRAIN_DESCRIBE_ENUM(Sparse, zero, seven_, minus)
VIRTRAIN_ENUM_CLASS(Place, core, switch_)

}  // namespace

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

TEST_CASE("an enumerator's number is its own, and a word of C++ is one of ours without its end") {
  using virtrain::to_string;
  CHECK(enum_of<Sparse>("seven") == Sparse::seven_);
  CHECK(enum_of<Sparse>("minus") == Sparse::minus);
  CHECK(to_string(static_cast<Sparse>(1)) == std::string());
  CHECK(enum_list<Place>() == "core or switch");
  CHECK(enum_of<Place>("switch_") == std::nullopt);
}
