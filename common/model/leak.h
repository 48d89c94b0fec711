#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// What a security probe came to. `not_found` says that its planted canary was found in the same session and
/// nothing else; without that it is `inconclusive`.
VIRTRAIN_ENUM_CLASS(LeakResult, not_found, leak, inconclusive, not_possible)

}  // namespace virtrain
