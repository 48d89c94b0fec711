#include "vmctl/journal/effect_kind.h"

#include <fmt/format.h>

#include "common/error.h"
#include "common/text/printable.h"

namespace virtrain::vmctl {

EffectKind parse_effect_kind(std::string_view word) {
  if (const auto kind = enum_of<EffectKind>(word)) { return *kind; }
  throw Error("read the lease journal", ErrorCode::bad_input,
              fmt::format("it has a lease of a kind that this virtrain does not know, {}; run clean of the "
                          "version that made it",
                          excerpt(word)));
}

}  // namespace virtrain::vmctl
