#pragma once

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "common/files/unique_fd.h"

namespace virtrain::test {

/// Talks to the stub agent over its channel; every wait has a deadline.
class StubClient {
 public:
  explicit StubClient(UniqueFd channel) : channel_(std::move(channel)) {}

  std::string line(std::chrono::milliseconds deadline = std::chrono::seconds(60)) {
    while (pending_.find('\n') == std::string::npos) { receive(deadline); }
    const auto end = pending_.find('\n');
    auto text = pending_.substr(0, end);
    pending_.erase(0, end + 1);
    return text;
  }
  std::string bytes(std::size_t count) {
    while (pending_.size() < count) { receive(std::chrono::seconds(60)); }
    auto text = pending_.substr(0, count);
    pending_.erase(0, count);
    return text;
  }
  void send(const std::string& text) {
    for (std::size_t at = 0; at < text.size();) {
      // Keeps reading while it writes, or an echo larger than the buffers would stop both sides.
      pollfd ready{channel_.get(), POLLIN | POLLOUT, 0};
      if (::poll(&ready, 1, 60'000) <= 0) { throw std::runtime_error("channel takes nothing"); }
      if (ready.revents & POLLIN) { receive(std::chrono::seconds(1)); }
      if ((ready.revents & POLLOUT) == 0) { continue; }
      const auto sent =
          ::send(channel_.get(), text.data() + at, text.size() - at, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) { at += static_cast<std::size_t>(sent); }
    }
  }
  /// The stub's answer to "cat PATH" or "run COMMAND".
  std::string ask(const std::string& request) {
    send(request + "\n");
    const auto size = std::stol(line());
    return size < 0 ? "(cannot be read)" : bytes(static_cast<std::size_t>(size));
  }
  /// Whether the other side ends within the deadline; what it still says is dropped.
  bool ends(std::chrono::milliseconds deadline) {
    try {
      while (true) { receive(deadline); }
    } catch (const std::runtime_error& error) { return std::string(error.what()) == "end of file"; }
  }
  void close() { channel_.reset(); }

 private:
  void receive(std::chrono::milliseconds deadline) {
    pollfd ready{channel_.get(), POLLIN, 0};
    if (::poll(&ready, 1, static_cast<int>(deadline.count())) <= 0) {
      throw std::runtime_error("nothing came");
    }
    char buffer[65536];
    const auto got = ::recv(channel_.get(), buffer, sizeof buffer, 0);
    if (got <= 0) { throw std::runtime_error("end of file"); }
    pending_.append(buffer, static_cast<std::size_t>(got));
  }

  UniqueFd channel_;
  std::string pending_;
};

}  // namespace virtrain::test
