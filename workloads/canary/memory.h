#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace virtrain::canary {

/// Fills a file or a device's memory in sysfs (resource2) from end to end with the canary; behind each copy
/// stands the number of its page, so that what is found elsewhere says where it was written. Returns the
/// number of bytes. Throws Error.
std::uint64_t fill_memory(const std::filesystem::path& path, const std::string& canary);

}  // namespace virtrain::canary
