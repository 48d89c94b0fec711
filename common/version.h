#pragma once

namespace virtrain {

/// The project's version, set by CMake.
inline constexpr const char* virtrain_version = VIRTRAIN_VERSION;

}  // namespace virtrain
