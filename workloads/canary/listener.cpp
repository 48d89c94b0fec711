#include "workloads/canary/listener.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/error.h"

namespace virtrain::canary {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds broadcast_period{200};

template <typename Address>
bool bind_and_listen(int socket, const Address& address) {
  const int yes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  return ::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket, 16) == 0;
}

/// On all addresses of both families; where the kernel has no IPv6, of one.
UniqueFd listen_on(std::uint16_t port) {
  constexpr int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
  const auto network_port = htons(port);
  UniqueFd socket(::socket(AF_INET6, kind, 0));
  if (socket) {
    const int no = 0;
    ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = network_port;
    if (bind_and_listen(socket.get(), any)) { return socket; }
  }
  socket.reset(::socket(AF_INET, kind, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = network_port;
  if (socket && bind_and_listen(socket.get(), any)) { return socket; }
  throw errno_error("listen on TCP port " + std::to_string(port), errno);
}

UniqueFd listen_on_vsock(unsigned port) {
  UniqueFd socket(::socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) { return {}; }
  sockaddr_vm any{};
  any.svm_family = AF_VSOCK;
  any.svm_cid = VMADDR_CID_ANY;
  any.svm_port = port;
  if (!bind_and_listen(socket.get(), any)) { return {}; }
  return socket;
}

void broadcast(int raw, const Interface& device, const std::string& canary) {
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = device.index;
  to.sll_halen = ETH_ALEN;
  std::fill_n(to.sll_addr, ETH_ALEN, std::uint8_t{0xff});
  ether_header header{};
  std::fill_n(header.ether_dhost, ETH_ALEN, std::uint8_t{0xff});
  std::copy(device.mac.begin(), device.mac.end(), header.ether_shost);
  header.ether_type = htons(canary_frame_type);
  std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
  frame += canary;
  frame.resize(std::max<std::size_t>(frame.size(), ETH_ZLEN));
  ::sendto(raw, frame.data(), frame.size(), MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
}

}  // namespace

Listener::Listener(const ListenRequest& request)
    : request_(request), device_(interface_with(request.address)) {
  if (!request.alias.empty()) { add_address(device_, request.alias); }
  for (const auto port : request.ports) { listening_.push_back(listen_on(port)); }
  if (auto socket = listen_on_vsock(request.vsock_port)) {
    listening_.push_back(std::move(socket));
    vsock_ = true;
  }
  raw_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0));
  if (!raw_) { throw errno_error("open a packet socket", errno); }
}

void Listener::serve() {
  std::vector<pollfd> events;
  for (const auto& socket : listening_) { events.push_back({socket.get(), POLLIN, 0}); }
  const auto end = Clock::now() + std::chrono::seconds(request_.seconds.value_or(120));
  auto next = Clock::now();
  while (Clock::now() < end) {
    if (Clock::now() >= next) {
      broadcast(raw_.get(), device_, request_.canary);
      next = Clock::now() + broadcast_period;
    }
    if (::poll(events.data(), events.size(), static_cast<int>(broadcast_period.count())) <= 0) { continue; }
    for (const auto& one : events) {
      if (one.revents == 0) { continue; }
      const int peer = ::accept4(one.fd, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (peer < 0) { continue; }
      const auto& canary = request_.canary;
      if (::send(peer, canary.data(), canary.size(), MSG_NOSIGNAL) >= 0) { ::shutdown(peer, SHUT_WR); }
      ::close(peer);
    }
  }
}

}  // namespace virtrain::canary
