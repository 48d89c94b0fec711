#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace virtrain {

/// Last-level caches that these CPUs have, each counted once, in bytes; 32 MiB if the kernel does not say.
/// `root` is "/" except in tests.
std::uint64_t last_level_cache_bytes(const std::vector<int>& cpus, const std::filesystem::path& root = "/");

/// Memory that can be had without swapping (MemAvailable), bounded by this process's own limit.
std::uint64_t available_memory_bytes();

}  // namespace virtrain
