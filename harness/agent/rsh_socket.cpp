#include "harness/agent/rsh_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "common/error.h"
#include "common/files/user_folders.h"
#include "harness/agent/child_process.h"

namespace virtrain::harness {
namespace {

constexpr const char* operation = "listen for mpirun's remote shell";

std::string random_secret() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw errno_error(operation, errno);
  }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

/// A new folder that only this user can enter; gone with its owner.
class PassingFolder {
 public:
  PassingFolder() : path_((temporary_folder() / "virtrain-agent-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) { throw errno_error(operation, errno); }
    fd_ = UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd_) { throw errno_error(operation, errno); }
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  ~PassingFolder() { ::rmdir(path_.c_str()); }
  int fd() const { return fd_.get(); }

 private:
  std::string path_;
  UniqueFd fd_;
};

}  // namespace

RshSocket::RshSocket()
    : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), secret_(random_secret()) {
  constexpr const char* socket_name = "rsh";
  const PassingFolder folder;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Short whatever TMPDIR is.
  fmt::format_to_n(address.sun_path, sizeof address.sun_path - 1, "/proc/self/fd/{}/{}", folder.fd(),
                   socket_name);
  if (!listener_ ||
      ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_.get(), SOMAXCONN) != 0) {
    throw errno_error(operation, errno);
  }
  place_ = UniqueFd(::openat(folder.fd(), socket_name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (!place_ || ::fchmodat(folder.fd(), socket_name, 0600, 0) != 0 ||
      ::unlinkat(folder.fd(), socket_name, 0) != 0) {
    throw errno_error(operation, errno);
  }
}

std::map<std::string, std::string> RshSocket::environment() const {
  return {{rsh_socket_variable, fmt::format("/proc/{}/fd/{}", ::getpid(), place_.get())},
          {rsh_secret_variable, secret_}};
}

bool RshSocket::is_of_this_node(int connection) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) { return false; }
  return peer.uid == ::geteuid() && is_descendant(peer.pid);
}

}  // namespace virtrain::harness
