// virtrain-agent: the only thing the harness talks to inside a node. See agent.h.

#include <CLI/CLI.hpp>
#include <boost/asio/co_spawn.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
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

int serve(const std::string& channel, int inherited_fd) {
  // Everything started here stays ours: orphans come to us, not to init.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  boost::asio::io_context io;
  UniqueFd stream = channel.empty() ? UniqueFd(inherited_fd) : open_virtio_port(channel);
  ::fcntl(stream.get(), F_SETFD, FD_CLOEXEC);
  harness::Agent agent(io, std::move(stream), !channel.empty());
  std::exception_ptr failure;
  boost::asio::co_spawn(io, agent.run(), [&](std::exception_ptr error) {
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
  std::string channel;
  int fd = -1;
  auto* channel_option = app.add_option("--channel", channel, "Name of the virtio-serial port to serve");
  app.add_option("--fd", fd, "Inherited socket to serve")
      ->excludes(channel_option)
      ->check(CLI::Range(3, 65535));
  app.footer("Examples:\n  virtrain-agent --channel org.virtrain.agent.0\n  virtrain-agent --fd 3");
  CLI11_PARSE(app, argc, argv);
  if (channel.empty() && fd < 0) {
    fmt::print(stderr, "virtrain-agent: give --channel NAME or --fd N\n");
    return 2;
  }
  try {
    return serve(channel, fd);
  } catch (const std::exception& error) {
    fmt::print(stderr, "virtrain-agent: {}\n", error.what());
    return 1;
  }
}
