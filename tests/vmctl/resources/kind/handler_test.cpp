#include "vmctl/resources/kind/handler.h"

#include <set>
#include <string>

#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("every kind of lease has a handler of its own, which can find or tell what is left and undo it") {
  std::set<std::string> words;
  for (std::size_t i = 0; i < handlers().size(); ++i) {
    const auto& handler = *handlers()[i];
    CAPTURE(to_string(handler.kind));
    CHECK(handler.kind == static_cast<EffectKind>(i));
    CHECK(&handler_of(handler.kind) == &handler);
    CHECK(parse_effect_kind(to_string(handler.kind)) == handler.kind);
    CHECK(words.insert(to_string(handler.kind)).second);
    // Seen on the host and removed, or changed and put back: one of the two, and that one whole.
    CHECK((handler.remove != nullptr) != (handler.undo != nullptr));
    CHECK((handler.make != nullptr) == (handler.undo != nullptr));
    CHECK((handler.left != nullptr) == (handler.undo != nullptr));
  }
  // Journals of other versions have these words.
  CHECK(words ==
        std::set<std::string>{
            "domain",     "network",         "bridge",         "netns",           "veth",
            "vxlan",      "slice",           "cgroup",         "resctrl",         "loop",
            "file",       "process",         "service",        "device_settings", "virtual_functions",
            "mdev",       "vgpu_type",       "vgpu_scheduler", "binding",         "guids",
            "kvm_device", "network_function"});
}

TEST_CASE("what uses something is removed before it") {
  const auto before = [](EffectKind one, EffectKind other) { return one < other; };
  CHECK(before(EffectKind::process, EffectKind::cgroup));
  CHECK(before(EffectKind::process, EffectKind::loop));
  CHECK(before(EffectKind::domain, EffectKind::network));
  CHECK(before(EffectKind::veth, EffectKind::netns));
  CHECK(before(EffectKind::netns, EffectKind::bridge));
  CHECK(before(EffectKind::domain, EffectKind::binding));
  CHECK(before(EffectKind::domain, EffectKind::network_function));
  CHECK(before(EffectKind::slice, EffectKind::network_function));
  CHECK(before(EffectKind::network_function, EffectKind::binding));
  CHECK(before(EffectKind::mdev, EffectKind::virtual_functions));
  CHECK(before(EffectKind::vgpu_type, EffectKind::vgpu_scheduler));
  CHECK(before(EffectKind::binding, EffectKind::guids));
  CHECK(before(EffectKind::guids, EffectKind::virtual_functions));
  CHECK(before(EffectKind::device_settings, EffectKind::service));
}

}  // namespace
}  // namespace virtrain::vmctl
