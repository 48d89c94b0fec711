#pragma once

namespace virtrain {

/// The project's version, set by CMake.
extern const char* const virtrain_version;

}  // namespace virtrain
