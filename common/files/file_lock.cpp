#include "common/files/file_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "common/error.h"

namespace virtrain {
namespace {

constexpr mode_t owner_only = 0600;

UniqueFd open_lock(const std::filesystem::path& file) {
  UniqueFd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, owner_only));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) { throw errno_error("open " + file.string(), errno); }
  // An older version made the file readable for all.
  if ((status.st_mode & 07777 & ~owner_only) != 0 && status.st_uid == ::geteuid()) {
    ::fchmod(fd.get(), owner_only);
  }
  return fd;
}

/// False: somebody has it.
bool lock(const UniqueFd& fd, LockKind kind, const std::filesystem::path& file) {
  while (::flock(fd.get(), (kind == LockKind::shared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) { return false; }
    if (errno == EINTR) { continue; }
    if (errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) {
      throw Error("lock " + file.string(), ErrorCode::host_unable,
                  "its file system has no locks (NFS without lockd?): choose a folder on a local disk with "
                  "VIRTRAIN_STATE_DIR or VIRTRAIN_CACHE_DIR");
    }
    throw errno_error("lock " + file.string(), errno);
  }
  return true;
}

}  // namespace

UniqueFd lock_file(const std::filesystem::path& file, LockKind kind, std::chrono::milliseconds deadline,
                   const Cancelled& cancelled) {
  constexpr std::chrono::milliseconds pause{20};
  auto fd = open_lock(file);
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!lock(fd, kind, file)) {
    if (std::chrono::steady_clock::now() >= end) {
      throw Error(
          "lock " + file.string(), ErrorCode::busy,
          fmt::format("another process has held it for {} s (fuser {} shows which)",
                      std::chrono::duration_cast<std::chrono::seconds>(deadline).count(), file.string()));
    }
    end_if(cancelled, "lock " + file.string());
    std::this_thread::sleep_for(pause);
  }
  return fd;
}

bool is_locked(const std::filesystem::path& file) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return fd && !lock(fd, LockKind::shared, file);
}

UniqueFd try_lock_file(const std::filesystem::path& file, LockKind kind) {
  auto fd = open_lock(file);
  return lock(fd, kind, file) ? std::move(fd) : UniqueFd();
}

}  // namespace virtrain
