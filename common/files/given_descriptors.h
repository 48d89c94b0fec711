#pragma once

#include <filesystem>
#include <optional>

namespace virtrain {

/// Keeps descriptors that a caller left open for this process, such as the lock of a schedule, from its
/// children: a daemon that stays would hold them for ever. Call it before anything else is opened.
void keep_given_descriptors();
/// The N of /dev/fd/N and /proc/self/fd/N, and of the names of standard streams in /dev.
std::optional<int> named_descriptor(const std::filesystem::path& file);
/// Whether the caller gave it: a standard stream, or open when keep_given_descriptors() was called.
bool was_given(int descriptor);

}  // namespace virtrain
