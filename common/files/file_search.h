#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "common/text/canary.h"

namespace virtrain {

/// Bounds of a search.
struct SearchLimits {
  std::uint64_t bytes = std::uint64_t{16} << 30;
  std::chrono::seconds time{120};
};

struct FoundCanary {
  std::string canary;  ///< its name
  std::filesystem::path path;
  std::uint64_t count = 0, first = 0, last = 0;  ///< offsets in the file
};

struct SearchReport {
  std::uint64_t scanned_bytes = 0, total_bytes = 0;
  std::uint64_t files = 0, unreadable = 0;
  std::vector<FoundCanary> found;

  bool has(const std::string& canary) const;
};

/// Size of an open file or disk; 0 where it has none or cannot be asked. A memory region of a device in sysfs
/// has the size that stat says: its mapping, and so where SEEK_END is, is another file's.
std::uint64_t bytes_of(int fd);

/// Searches files, block devices, device memory in sysfs (which is mapped), and all regular files below
/// folders. Links are not followed, and the kernel's own file systems (proc, sysfs, …) are passed over.
/// What does not fit into the limits counts in `total_bytes` only.
SearchReport search_files(const std::vector<Canary>& canaries,
                          const std::vector<std::filesystem::path>& roots, const SearchLimits& limits = {});

}  // namespace virtrain
