#pragma once

#include <string>

namespace virtrain::vmctl {

/// Loop devices of payloads carry this and their slice in place of a file's name: "virtrain:vt-7f3a2b-1".
inline constexpr const char* loop_mark = "virtrain:";

/// Mounts a squashfs image, read-only and without devices or set-user-id programs, on a folder, both open
/// already. Its loop device goes with the last mount of it. Returns what failed, with errno set; null:
/// nothing.
const char* mount_squashfs(int image, int folder, const std::string& node);

}  // namespace virtrain::vmctl
