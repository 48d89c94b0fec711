#include "vmctl/journal/effect_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "common/error.h"
#include "common/text/printable.h"

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
  const auto* found = std::ranges::find(kind_words, word);
  if (found == std::end(kind_words)) {
    throw Error("read the lease journal", ErrorCode::bad_input,
                fmt::format("it has a lease of a kind that this virtrain does not know, {}; run clean of the "
                            "version that made it",
                            excerpt(word)));
  }
  return static_cast<EffectKind>(found - std::begin(kind_words));
}

}  // namespace virtrain::vmctl
