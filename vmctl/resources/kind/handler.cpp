#include "vmctl/resources/kind/handler.h"

namespace virtrain::vmctl {

std::span<const Handler* const> handlers() {
  static constexpr const Handler* all[] = {
#define VIRTRAIN_KIND(word) &word##_handler,
      VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND)
#undef VIRTRAIN_KIND
  };
  return all;
}

const Handler& handler_of(EffectKind kind) {
  return *handlers()[static_cast<std::size_t>(kind)];
}

}  // namespace virtrain::vmctl
