#include "common/unique_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "common/error.h"

namespace virtrain {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) { ::close(fd_); }
  fd_ = fd;
}

std::array<UniqueFd, 2> make_socketpair() {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    throw errno_error("socketpair", errno);
  }
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

UniqueFd open_to_read(const std::filesystem::path& path, Readable kind) {
  const UniqueFd found(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status {};
  if (!found || ::fstat(found.get(), &status) != 0) { return {}; }
  const bool is_readable =
      S_ISREG(status.st_mode) || (S_ISFIFO(status.st_mode) && kind == Readable::regular_file_or_pipe);
  if (!is_readable) {
    errno = S_ISDIR(status.st_mode) ? EISDIR : EINVAL;
    return {};
  }
  // The very file that was looked at, whatever the path leads to by now.
  return UniqueFd(::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(), O_RDONLY | O_CLOEXEC));
}

bool becomes_readable(int fd, std::chrono::milliseconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    pollfd watched{fd, POLLIN, 0};
    const int ready = ::poll(&watched, 1, std::max(0, static_cast<int>(left.count())));
    if (ready > 0) { return true; }
    if (ready == 0 || errno != EINTR) { return false; }
  }
}

}  // namespace virtrain
