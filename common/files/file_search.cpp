#include "common/files/file_search.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "common/contains.h"
#include "common/files/unique_fd.h"

namespace virtrain {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t piece_bytes = std::size_t{1} << 20;

/// File systems in which the kernel shows itself: nobody's files, and reading some of them does something.
bool is_kernels_own(const fs::path& folder) {
  static constexpr std::array<long, 12> magics{PROC_SUPER_MAGIC,    SYSFS_MAGIC,        CGROUP_SUPER_MAGIC,
                                               CGROUP2_SUPER_MAGIC, DEVPTS_SUPER_MAGIC, DEBUGFS_MAGIC,
                                               TRACEFS_MAGIC,       SECURITYFS_MAGIC,   BPF_FS_MAGIC,
                                               EFIVARFS_MAGIC,      NSFS_MAGIC,         PSTOREFS_MAGIC};
  struct statfs about {};
  return ::statfs(folder.c_str(), &about) == 0 &&
         std::ranges::find(magics, static_cast<long>(about.f_type)) != magics.end();
}

class Searcher {
 public:
  Searcher(const std::vector<Canary>& canaries, const SearchLimits& limits)
      : search_(canaries), limits_(limits), end_(Clock::now() + limits.time), buffer_(piece_bytes, '\0') {}

  void look_at(const fs::path& path) {
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0) {
      ++report_.unreadable;
    } else if (S_ISDIR(status.st_mode)) {
      look_below(path, status.st_dev);
    } else if (S_ISREG(status.st_mode) || S_ISBLK(status.st_mode)) {
      look_into(path, status);
    }
  }

  SearchReport report() && { return std::move(report_); }

 private:
  void look_below(const fs::path& folder, dev_t device) {
    if (is_kernels_own(folder)) { return; }
    std::error_code failure;
    fs::directory_iterator entries(folder, failure);
    for (; !failure && entries != fs::directory_iterator(); entries.increment(failure)) {
      struct stat status {};
      const auto& path = entries->path();
      if (::lstat(path.c_str(), &status) != 0) {
        if (errno != ENOENT) { ++report_.unreadable; }  // else it is gone meanwhile
        continue;
      }
      if (S_ISREG(status.st_mode)) { look_into(path, status); }
      if (S_ISDIR(status.st_mode) && !(status.st_dev != device && is_kernels_own(path))) {
        look_below(path, status.st_dev);
      }
    }
    if (failure) { ++report_.unreadable; }
  }

  void look_into(const fs::path& path, const struct stat& status) {
    if (status.st_nlink > 1 && !seen_.emplace(status.st_dev, status.st_ino).second) { return; }
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd) {
      ++report_.unreadable;
      report_.total_bytes += S_ISREG(status.st_mode) ? static_cast<std::uint64_t>(status.st_size) : 0;
      return;
    }
    const auto size = bytes_of(fd.get());
    search_.restart();
    const auto began = report_.scanned_bytes;
    const bool whole = path.native().starts_with("/sys/") ? map(fd.get(), size) : read(fd.get());
    // A file that grows or shrinks meanwhile counts as what was read of it.
    const auto scanned = report_.scanned_bytes - began;
    report_.total_bytes += whole ? scanned : std::max(size, scanned);  // without holes, if all was read
    ++report_.files;
    for (std::size_t i = 0; i < search_.hits().size(); ++i) {
      const auto& hits = search_.hits()[i];
      if (hits.count == 0) { continue; }
      report_.found.push_back({search_.canaries()[i].name, path, hits.count, hits.first, hits.last});
    }
  }

  bool may_go_on() const { return report_.scanned_bytes < limits_.bytes && Clock::now() < end_; }

  /// True: all of it. Holes are not read, for they hold nothing; they count neither as scanned
  /// nor as to be scanned.
  bool read(int fd) {
    off_t at = 0;
    while (may_go_on()) {
      const off_t data = ::lseek(fd, at, SEEK_DATA);
      if (data < 0 && errno == ENXIO) { return true; }
      if (data > at) {
        search_.skip(static_cast<std::uint64_t>(data - at));
        at = data;
      }
      const ssize_t got = ::pread(fd, buffer_.data(), buffer_.size(), at);
      if (got < 0) { ++report_.unreadable; }
      if (got <= 0) { return got == 0; }
      at += got;
      take({buffer_.data(), static_cast<std::size_t>(got)});
    }
    return false;
  }

  /// Memory of a device: read() is not for it.
  bool map(int fd, std::uint64_t size) {
    for (std::uint64_t at = 0; at < size; at += piece_bytes) {
      if (!may_go_on()) { return false; }
      const auto length = static_cast<std::size_t>(std::min<std::uint64_t>(piece_bytes, size - at));
      void* mapped = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
      if (mapped == MAP_FAILED) {
        ++report_.unreadable;
        return false;
      }
      take({static_cast<const char*>(mapped), length});
      ::munmap(mapped, length);
    }
    return true;
  }

  void take(std::string_view bytes) {
    search_.feed(bytes);
    report_.scanned_bytes += bytes.size();
  }

  CanarySearch search_;
  SearchLimits limits_;
  Clock::time_point end_;
  std::string buffer_;
  std::set<std::pair<dev_t, ino_t>> seen_;  ///< files with several names
  SearchReport report_;
};

}  // namespace

std::uint64_t bytes_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) { return 0; }
  const off_t end = S_ISREG(status.st_mode) ? status.st_size : ::lseek(fd, 0, SEEK_END);
  return end > 0 ? static_cast<std::uint64_t>(end) : 0;
}

bool SearchReport::has(const std::string& canary) const {
  return std::ranges::any_of(found, [&](const auto& one) { return one.canary == canary; });
}

SearchReport search_files(const std::vector<Canary>& canaries, const std::vector<fs::path>& roots,
                          const SearchLimits& limits) {
  Searcher searcher(canaries, limits);
  std::vector<fs::path> begun;
  for (const auto& root : roots) {
    if (contains(begun, root)) { continue; }
    begun.push_back(root);
    searcher.look_at(root);
  }
  return std::move(searcher).report();
}

}  // namespace virtrain
