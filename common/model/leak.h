#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// Result of a leak search. `not_found` means that it found its planted canary in the same session and
/// nothing else; without that the result is `inconclusive`.
VIRTRAIN_ENUM_CLASS(LeakResult, not_found, leak, inconclusive, not_possible)

}  // namespace virtrain
