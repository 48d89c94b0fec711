#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

namespace virtrain::vmctl {

/// How long the kernel may take to let us look; a driver that takes a device up holds its lock for seconds.
inline constexpr std::chrono::seconds look_deadline{5};

/// Content, trimmed, of a file of sysfs whose reader waits for the device's lock (driver_override,
/// sriov_numvfs): a driver that does not let go holds it for ever, and who waits for it cannot be ended. So a
/// process of its own reads, and is left behind past the deadline: Error(timeout). Nothing where there is no
/// such file. In a recorded tree it is a plain file.
std::optional<std::string> read_locked_value(const std::filesystem::path& file,
                                             std::chrono::milliseconds deadline = look_deadline);

}  // namespace virtrain::vmctl
