#include "vmctl/journal/effect_kind.h"

#include <algorithm>
#include <iterator>

namespace virtrain::vmctl {
namespace {

constexpr const char* kind_words[] = {
#define VIRTRAIN_KIND(word) #word,
    VIRTRAIN_EFFECT_KINDS(VIRTRAIN_KIND)
#undef VIRTRAIN_KIND
};

}  // namespace

const char* to_string(EffectKind kind) {
  return kind_words[static_cast<std::size_t>(kind)];
}

EffectKind parse_effect_kind(std::string_view word) {
  const auto* found = std::find(std::begin(kind_words), std::end(kind_words), word);
  return found == std::end(kind_words) ? EffectKind::file
                                       : static_cast<EffectKind>(found - std::begin(kind_words));
}

}  // namespace virtrain::vmctl
