#pragma once

#include <fcntl.h>
#include <unistd.h>

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

// Files for programs that link nothing else of virtrain's and throw no exceptions.
/// Content of the file, as far as it can be read.
inline std::string plain_text(const std::string& path) {
  std::string text;
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) { return text; }
  char buffer[4096];
  for (ssize_t got; (got = ::read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(fd);
  return text;
}

/// Whether all of it was written, in place of what was there.
inline bool write_plain_text(const std::string& path, const std::string& text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) { return false; }
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

}  // namespace virtrain
