#include "common/unique_fd.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "common/error.h"

namespace virtrain {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::array<UniqueFd, 2> make_socketpair() {
  int fds[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) throw errno_error("socketpair", errno);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace virtrain
