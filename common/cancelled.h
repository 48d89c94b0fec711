#pragma once

#include <functional>
#include <string>

#include "common/error.h"

namespace virtrain {

/// Asked by what may take minutes: whether it shall end instead. Empty: never.
using Cancelled = std::function<bool()>;

/// Throws Error(interrupted) if it shall.
inline void end_if(const Cancelled& cancelled, const std::string& operation) {
  if (cancelled && cancelled()) { throw Error(operation, ErrorCode::interrupted, "stopped on request"); }
}

}  // namespace virtrain
