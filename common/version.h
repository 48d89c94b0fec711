#pragma once

namespace virtrain {

/// The project's version, set by CMake.
inline constexpr const char* kVersion = VIRTRAIN_VERSION;

}  // namespace virtrain
