#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "vmctl/resources/cleanup.h"

namespace virtrain::vmctl {

inline bool has(const std::vector<Leftover>& list, EffectKind kind, const std::string& name) {
  return std::any_of(list.begin(), list.end(),
                     [&](const auto& item) { return item.kind == kind && item.name == name; });
}

}  // namespace virtrain::vmctl
