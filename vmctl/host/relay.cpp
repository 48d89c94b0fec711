#include "vmctl/host/relay.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>

#include "common/files/unique_fd.h"
#include "vmctl/api/host_mode.h"

namespace virtrain::vmctl {
namespace {

bool write_bytes(int to, const char* bytes, std::size_t count) {
  while (count > 0) {
    const auto written = ::write(to, bytes, count);
    if (written < 0 && errno == EINTR) { continue; }
    if (written <= 0) { return false; }
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
  return true;
}

/// Until one side has gone.
void copy_bytes(int from, int to) {
  std::array<char, 65536> bytes;
  for (;;) {
    const auto count = ::read(from, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) { continue; }
    if (count <= 0 || !write_bytes(to, bytes.data(), static_cast<std::size_t>(count))) { return; }
  }
}

}  // namespace

void relay_to_group_socket(int in, int out) {
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) { ::signal(signal, SIG_IGN); }
  const auto socket = connect_to_local_socket(group_socket, std::string("connect to ") + group_socket);
  std::thread requests([&socket, in] {
    copy_bytes(in, socket.get());
    ::shutdown(socket.get(), SHUT_WR);
  });
  copy_bytes(socket.get(), out);
  // It may wait for a coordinator that says no more.
  ::_exit(0);
}

}  // namespace virtrain::vmctl
