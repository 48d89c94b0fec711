// virtrain-rsh HOST WORDS...: stands where mpirun expects ssh (plm_rsh_agent). It asks the agent of this node
// to have the command run by the agent of HOST, copies its output here, and exits with its status. No keys,
// no daemon.

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/text/text.h"
#include "harness/agent/messages.h"
#include "harness/agent/rsh_socket.h"

namespace {

using namespace virtrain;

const char* variable(const char* name) {
  if (const char* value = std::getenv(name)) { return value; }
  throw Error("find the agent", ErrorCode::usage,
              fmt::format("{} is not set; mpirun must be started by virtrain-agent", name));
}

UniqueFd connect_to_agent() {
  const char* path = variable(harness::rsh_socket_variable);
  return connect_to_local_socket(path, std::string("connect to the agent at ") + path);
}

void write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) { continue; }
    if (written < 0) { throw errno_error("write", errno); }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

int relay(int socket) {
  FrameDecoder decoder;
  char chunk[65536];
  while (true) {
    while (auto frame = decoder.next()) {
      const auto type = string_field(frame->message, "type");
      if (type == "rsh_exit") {
        write_all(STDERR_FILENO, frame->body);
        return static_cast<int>(harness::message::read<harness::message::RshExit>(*frame).status);
      }
      if (type == "rsh_output") {
        const auto output = harness::message::read<harness::message::RshOutput>(*frame);
        write_all(output.stream == "stderr" ? STDERR_FILENO : STDOUT_FILENO, frame->body);
      }
    }
    const auto got = ::read(socket, chunk, sizeof chunk);
    if (got < 0 && errno == EINTR) { continue; }
    if (got <= 0) {
      throw Error("wait for the remote command", ErrorCode::io, "the agent closed the connection");
    }
    decoder.feed({chunk, static_cast<std::size_t>(got)});
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: virtrain-rsh HOST COMMAND...\n  (given to mpirun as plm_rsh_agent)\n");
    return 2;
  }
  try {
    const std::vector<std::string> words(argv + 2, argv + argc);
    const auto socket = connect_to_agent();
    const harness::message::Rsh wanted{argv[1], join(words, " "), variable(harness::rsh_secret_variable)};
    write_all(socket.get(), encode(harness::message::frame_of(wanted)));
    return relay(socket.get());
  } catch (const std::exception& error) {
    fmt::print(stderr, "virtrain-rsh: {}\n", error.what());
    return 255;
  }
}
