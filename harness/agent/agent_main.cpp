// virtrain-agent: the only thing the harness talks to inside a node. See agent.h.

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "common/error.h"
#include "common/files/reading.h"
#include "harness/agent/agent.h"

namespace {

using namespace virtrain;

/// Device node of the virtio-serial port of this name. There is no udev in the guest, so look in sysfs.
UniqueFd open_virtio_port(const std::string& name) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    for (const auto& port : entries_of("/sys/class/virtio-ports")) {
      if (read_value(port / "name") != name) { continue; }
      const auto device = "/dev/" + port.filename().string();
      UniqueFd fd(::open(device.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
      if (fd) { return fd; }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error("open channel " + name, ErrorCode::not_found,
              "no virtio-serial port of that name appeared within 10 s");
}

/// One coordinator at a time measures here. The name needs no file, and goes with its owner; elsewhere than
/// in this network namespace it is another one.
UniqueFd claim_machine() {
  constexpr std::string_view name = "virtrain-attached";
  UniqueFd claim(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), address.sun_path + 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (!claim || ::bind(claim.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) {
    if (errno == EADDRINUSE) {
      throw Error("begin on this machine", ErrorCode::busy, "another virtrain measures on it now");
    }
    throw errno_error("begin on this machine", errno);
  }
  return claim;
}

/// Goes with the agent, in whichever way that ends but by SIGKILL.
class OwnFolder {
 public:
  explicit OwnFolder(std::string path) : path_(std::move(path)) {}
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    std::error_code ignored;
    if (!path_.empty()) { std::filesystem::remove_all(path_, ignored); }
  }

 private:
  const std::string path_;
};

struct Served {
  std::string channel;
  int fd = -1;
  bool stdio = false;
  std::string folder;
  std::int64_t silence_ms = 0;
};

int serve(const Served& served) {
  // Everything started here stays ours: orphans come to us, not to init.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  boost::asio::io_context io;
  const OwnFolder folder(served.folder);
  const auto claim = served.stdio ? claim_machine() : UniqueFd();
  std::optional<harness::Agent> agent;
  if (served.stdio) {
    agent.emplace(io, duplicate(STDIN_FILENO), duplicate(STDOUT_FILENO),
                  std::chrono::milliseconds(served.silence_ms));
  } else {
    UniqueFd stream = served.channel.empty() ? UniqueFd(served.fd) : open_virtio_port(served.channel);
    ::fcntl(stream.get(), F_SETFD, FD_CLOEXEC);
    agent.emplace(io, std::move(stream), !served.channel.empty());
  }
  std::exception_ptr failure;
  boost::asio::co_spawn(io, agent->run(), [&](std::exception_ptr error) {
    failure = error;
    io.stop();
  });
  io.run();
  if (failure) { std::rethrow_exception(failure); }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("virtrain-agent: serves the virtrain coordinator inside a VM or a bare-metal slice.",
               "virtrain-agent");
  Served served;
  auto* channel = app.add_option("--channel", served.channel, "Name of the virtio-serial port to serve");
  auto* fd = app.add_option("--fd", served.fd, "Inherited socket to serve")
                 ->excludes(channel)
                 ->check(CLI::Range(3, 65535));
  auto* stdio =
      app.add_flag("--stdio", served.stdio, "Serve standard input and output, alone on this machine")
          ->excludes(channel)
          ->excludes(fd);
  app.add_option("--silence", served.silence_ms,
                 "Milliseconds of silence after which the coordinator is taken to be gone (default: any)")
      ->needs(stdio)
      ->check(CLI::Range(100, 86'400'000));
  app.add_option("--folder", served.folder, "Folder to remove at the end")->needs(stdio);
  app.footer(
      "Examples:\n  virtrain-agent --channel org.virtrain.agent.0\n  virtrain-agent --fd 3\n"
      "  virtrain-agent --stdio --silence 60000");
  CLI11_PARSE(app, argc, argv);
  if (served.channel.empty() && served.fd < 0 && !served.stdio) {
    fmt::print(stderr, "virtrain-agent: give --channel NAME, --fd N or --stdio\n");
    return 2;
  }
  try {
    return serve(served);
  } catch (const std::exception& error) {
    fmt::print(stderr, "virtrain-agent: {}\n", error.what());
    return 1;
  }
}
