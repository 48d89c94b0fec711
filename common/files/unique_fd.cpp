#include "common/files/unique_fd.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "common/error.h"

namespace virtrain {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) { ::close(fd_); }
  fd_ = fd;
}

UniqueFd duplicate(int fd, int least) {
  UniqueFd copy(::fcntl(fd, F_DUPFD_CLOEXEC, least));
  if (!copy) { throw errno_error("copy a descriptor", errno); }
  return copy;
}

std::array<UniqueFd, 2> make_socketpair() {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    throw errno_error("socketpair", errno);
  }
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Pipe make_pipe() {
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) { throw errno_error("make a pipe", errno); }
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
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
