#include "common/files/unique_fd.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/text/units.h"

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

namespace {

std::set<int>& given() {
  static std::set<int> descriptors;
  return descriptors;
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

}  // namespace

void keep_given_descriptors() {
  for (const auto& name : entry_names("/proc/self/fd")) {
    const auto number = static_cast<int>(parse_integer(name).value_or(-1));
    if (is_open(number)) { given().insert(number); }  // the one that listed them is closed by now
  }
  ::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
}

std::optional<int> named_descriptor(const std::filesystem::path& file) {
  const auto folder = file.parent_path();
  const auto name = file == "/dev/stdin"                               ? "0"
                    : file == "/dev/stdout"                            ? "1"
                    : file == "/dev/stderr"                            ? "2"
                    : folder == "/dev/fd" || folder == "/proc/self/fd" ? file.filename().string()
                                                                       : "";
  if (name.empty()) { return std::nullopt; }
  const auto number = parse_integer(name).value_or(-1);
  return std::in_range<int>(number) ? static_cast<int>(number) : -1;
}

bool was_given(int descriptor) {
  return is_open(descriptor) && (descriptor <= STDERR_FILENO || given().contains(descriptor));
}

UniqueFd connect_to_local_socket(const std::string& path, const std::string& operation) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (!socket || ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    throw errno_error(operation, errno);
  }
  return socket;
}

}  // namespace virtrain
