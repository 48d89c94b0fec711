#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "workloads/stress/loads/loads.h"

namespace virtrain::stress {
namespace {

constexpr std::size_t net_piece_bytes = 256U << 10;
constexpr int patience_ms = 100;  ///< how long a piece of work waits for the network

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

/// Connected, or an Error with the last address' words.
UniqueFd connect_to(const std::string& host, const std::string& port) {
  const std::string operation = "connect to " + host + " port " + port;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int status = ::getaddrinfo(host.c_str(), port.c_str(), &hints, &found); status != 0) {
    throw Error(operation, ErrorCode::io, ::gai_strerror(status));
  }
  const std::unique_ptr<addrinfo, FreeAddresses> addresses(found);
  int last_errno = 0;
  for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
    UniqueFd fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    timeval limit{5, 0};  // of connecting, too
    if (fd) { ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit); }
    if (fd && ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0) { return fd; }
    last_errno = errno;
  }
  const Error failure = errno_error(operation, last_errno);
  throw Error(
      operation, ErrorCode::io,
      failure.message() + " (start the other side first: virtrain-stress --kind net --listen " + port + ")");
}

/// Sends over a connection of its own.
class SendingWorker : public Worker {
 public:
  explicit SendingWorker(UniqueFd fd) : fd_(std::move(fd)), piece_(net_piece_bytes, 0x5a) {}

  std::uint64_t work() override {
    pollfd writable{fd_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, patience_ms) <= 0) { return 0; }
    const ssize_t sent = ::send(fd_.get(), piece_.data(), piece_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) { return static_cast<std::uint64_t>(sent); }
    if (errno == EAGAIN || errno == EINTR) { return 0; }
    throw errno_error("send to the peer", errno);
  }

 private:
  UniqueFd fd_;
  std::vector<unsigned char> piece_;
};

class Sender : public Load {
 public:
  Sender(const Flags& flags, int threads)
      : host_(flags.peer_host), port_(flags.peer_port), threads_(threads) {}
  const char* unit() const override { return "B"; }
  int threads() const override { return threads_; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    return std::make_unique<SendingWorker>(connect_to(host_, port_));
  }

 private:
  std::string host_;
  std::string port_;
  int threads_;
};

UniqueFd listen_on(int port) {
  UniqueFd fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const bool has_ipv6 = static_cast<bool>(fd);
  if (!has_ipv6) { fd.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }
  const std::string operation = "listen on port " + std::to_string(port);
  if (!fd) { throw errno_error(operation, errno); }
  const int yes = 1, no = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = any6.sin6_port;
  if (has_ipv6) { ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no); }
  const int bound = has_ipv6 ? ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                             : ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  if (bound != 0 || ::listen(fd.get(), SOMAXCONN) != 0) { throw errno_error(operation, errno); }
  return fd;
}

int port_of(int fd) {
  sockaddr_storage name{};
  socklen_t length = sizeof name;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &length) != 0) {
    throw errno_error("ask for the port", errno);
  }
  // The port is at the same place in the addresses of both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&name)->sin_port);
}

/// Takes what any number of senders send and throws it away.
class ReceivingWorker : public Worker {
 public:
  explicit ReceivingWorker(UniqueFd listener) : buffer_(net_piece_bytes) {
    sockets_.push_back(std::move(listener));
  }

  std::uint64_t work() override {
    std::vector<pollfd> watched;
    for (const UniqueFd& socket : sockets_) { watched.push_back({socket.get(), POLLIN, 0}); }
    if (::poll(watched.data(), watched.size(), patience_ms) <= 0) { return 0; }
    std::uint64_t received = 0;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents == 0) { continue; }
      const ssize_t count = ::recv(watched[i].fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
      if (count > 0) { received += static_cast<std::uint64_t>(count); }
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) { sockets_[i].reset(); }
    }
    std::erase_if(sockets_, [](const UniqueFd& socket) { return !socket; });
    if (watched.front().revents != 0) {
      UniqueFd sender(::accept4(watched.front().fd, nullptr, nullptr, SOCK_CLOEXEC));
      if (sender) { sockets_.push_back(std::move(sender)); }
    }
    return received;
  }

 private:
  std::vector<UniqueFd> sockets_;  ///< the listener first
  std::vector<unsigned char> buffer_;
};

class Receiver : public Load {
 public:
  explicit Receiver(int port) : listener_(listen_on(port)), port_(port_of(listener_.get())) {}
  const char* unit() const override { return "B"; }
  int threads() const override { return 1; }
  std::unique_ptr<Worker> make_worker(int /*index*/) override {
    return std::make_unique<ReceivingWorker>(std::move(listener_));
  }
  std::optional<int> port() const override { return port_; }

 private:
  UniqueFd listener_;
  int port_;
};

}  // namespace

std::unique_ptr<Load> make_sender(const Flags& flags, int threads) {
  return std::make_unique<Sender>(flags, threads);
}

std::unique_ptr<Load> make_receiver(const Flags& flags) {
  return std::make_unique<Receiver>(flags.listen_port.value_or(0));
}

}  // namespace virtrain::stress
