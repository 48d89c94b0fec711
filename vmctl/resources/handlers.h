#pragma once

#include <span>

#include "vmctl/resources/kind/handler.h"

namespace virtrain::vmctl {

/// One for each kind of lease, in the order of the kinds.
std::span<const Handler* const> handlers();

const Handler& handler_of(EffectKind kind);

}  // namespace virtrain::vmctl
