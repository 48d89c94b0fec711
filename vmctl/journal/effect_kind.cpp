#include "vmctl/journal/effect_kind.h"

#include <algorithm>
#include <iterator>

namespace virtrain::vmctl {
namespace {

constexpr const char* words[] = {
#define VIRTRAIN_KIND(word) #word,
    VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND)
#undef VIRTRAIN_KIND
};

}  // namespace

const char* to_string(EffectKind kind) {
  return words[static_cast<std::size_t>(kind)];
}

EffectKind parse_effect_kind(std::string_view word) {
  const auto* found = std::find(std::begin(words), std::end(words), word);
  return found == std::end(words) ? EffectKind::file : static_cast<EffectKind>(found - std::begin(words));
}

}  // namespace virtrain::vmctl
