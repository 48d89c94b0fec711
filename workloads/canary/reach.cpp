#include "workloads/canary/reach.h"

#include <fcntl.h>
#include <linux/if_packet.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <set>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/text/canary.h"
#include "workloads/canary/listener.h"
#include "workloads/canary/port_scan.h"

namespace virtrain::canary {
namespace {

using Clock = std::chrono::steady_clock;
/// Broadcasts and questions are repeated: the first ones may come before a bridge forwards.
constexpr std::chrono::milliseconds question_period{500};
/// After the last frame of a scan.
constexpr std::chrono::seconds last_answers{1};

std::string name_of_canary(const ReachRequest& request, std::string_view bytes) {
  for (const auto& [name, text] : request.canaries) {
    if (bytes.find(text) != std::string_view::npos) { return name; }
  }
  return "";
}

/// One connection attempt.
struct Attempt {
  const Target* target = nullptr;
  UniqueFd socket;
  bool connected = false;
  std::string greeting;
};

class Reach {
 public:
  explicit Reach(const ReachRequest& request) : request_(request) {
    const auto needs_device = [](const Target& one) { return one.kind != TargetKind::vsock; };
    if (std::any_of(request.targets.begin(), request.targets.end(), needs_device)) {
      device_ = interface_with(request.address);
    }
  }

  Reached run() {
    if (device_) {
      open_listeners();
      scanner_.emplace(*device_, parse_ipv4(request_.source), request_.scans);
    }
    const auto begin = Clock::now();
    const std::chrono::milliseconds time(request_.milliseconds.value_or(4000));
    const auto latest = begin + std::max(time, scan_time);
    auto end = begin + time;
    auto ask = begin;
    while (Clock::now() < end) {
      if (is_scanning()) {
        send_scan();
        end = std::min(latest, std::max(end, Clock::now() + last_answers));
      }
      if (Clock::now() >= ask) {
        ask_all();
        ask = Clock::now() + question_period;
      }
      wait_for_events();
    }
    for (const auto& one : attempts_) {  // somebody took the connection and said nothing
      if (one.connected) { answer(*one.target, "connected", "", name_of_canary(request_, one.greeting)); }
    }
    if (scanner_) { report_.scans = scanner_->report(); }
    return std::move(report_);
  }

 private:
  bool is_scanning() const { return scanner_ && !scanner_->is_done(); }

  /// As many as the device takes now, and not so many that their answers are lost before they are read.
  void send_scan() {
    constexpr int most_frames = 128;
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = device_->index;
    for (int i = 0; i < most_frames && is_scanning(); ++i) {
      const auto frame = scanner_->frame();
      if (::sendto(packets_.get(), frame.data(), frame.size(), MSG_DONTWAIT,
                   reinterpret_cast<const sockaddr*>(&to), sizeof to) < 0) {
        return;
      }
      scanner_->sent();
    }
  }

  void answer(const Target& target, const char* how, const std::string& who, const std::string& canary) {
    if (!answered_.insert(target.name + " " + who).second) { return; }
    report_.answers.push_back({target.name, how, who, canary});
  }

  void begin(const Target& target) {
    constexpr int kind = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;
    sockaddr_storage storage{};
    socklen_t length = 0;
    int family = 0;
    const auto port = htons(static_cast<std::uint16_t>(target.port));
    if (target.kind == TargetKind::tcp4) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = port;
      to.sin_addr = parse_ipv4(target.address);
      family = AF_INET;
      std::memcpy(&storage, &to, length = sizeof to);
    } else if (target.kind == TargetKind::tcp6) {
      sockaddr_in6 to{};
      to.sin6_family = AF_INET6;
      to.sin6_port = port;
      to.sin6_addr = parse_ipv6(target.address);
      to.sin6_scope_id = static_cast<std::uint32_t>(device_->index);
      family = AF_INET6;
      std::memcpy(&storage, &to, length = sizeof to);
    } else {
      sockaddr_vm to{};
      to.svm_family = AF_VSOCK;
      to.svm_cid = target.cid;
      to.svm_port = target.port;
      family = AF_VSOCK;
      std::memcpy(&storage, &to, length = sizeof to);
    }
    UniqueFd socket(::socket(family, kind, 0));
    if (socket && target.kind == TargetKind::tcp4) {
      sockaddr_in from{};
      from.sin_family = AF_INET;
      from.sin_addr = parse_ipv4(request_.source);
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from);
    }
    if (!socket) {
      if (failed_.insert(target.name).second) {
        report_.failed.push_back(target.name + ": " + std::strerror(errno));
      }
      return;
    }
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&storage), length) == 0 ||
        errno == EINPROGRESS) {
      attempts_.push_back({&target, std::move(socket), false, ""});
    } else if (errno == ECONNREFUSED) {
      answer(target, "refused", "", "");
    }  // else unreachable, which is an answer by nobody
  }

  void open_listeners() {
    packets_.reset(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL)));
    if (!packets_) { throw errno_error("open a packet socket", errno); }
    sockaddr_ll from{};
    from.sll_family = AF_PACKET;
    from.sll_protocol = htons(ETH_P_ALL);
    from.sll_ifindex = device_->index;
    if (::bind(packets_.get(), reinterpret_cast<const sockaddr*>(&from), sizeof from) != 0) {
      throw errno_error("listen on " + device_->name, errno);
    }
    pings_.reset(::socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMPV6));
  }

  /// Connections that came to nothing are tried again: an IPv6 address is of no use in its first second.
  void ask_all() {
    for (const auto& target : request_.targets) {
      const auto is_tried = [&](const Attempt& one) { return one.target == &target; };
      if (target.kind <= TargetKind::vsock && !answered_.contains(target.name + " ") &&
          std::none_of(attempts_.begin(), attempts_.end(), is_tried)) {
        begin(target);
      }
      if (target.kind == TargetKind::arp) { ask_arp(target); }
      if (target.kind == TargetKind::ping6) { ask_ping(target); }
    }
  }

  void ask_arp(const Target& target) {
    ether_header header{};
    std::fill_n(header.ether_dhost, ETH_ALEN, std::uint8_t{0xff});
    std::copy(device_->mac.begin(), device_->mac.end(), header.ether_shost);
    header.ether_type = htons(ETHERTYPE_ARP);
    ether_arp question{};
    question.ea_hdr = {htons(ARPHRD_ETHER), htons(ETHERTYPE_IP), ETH_ALEN, 4, htons(ARPOP_REQUEST)};
    std::copy(device_->mac.begin(), device_->mac.end(), question.arp_sha);
    const auto wanted = parse_ipv4(target.address);
    const auto source = parse_ipv4(request_.source);
    std::memcpy(question.arp_spa, &source, sizeof question.arp_spa);
    std::memcpy(question.arp_tpa, &wanted, sizeof question.arp_tpa);
    std::string frame(reinterpret_cast<const char*>(&header), sizeof header);
    frame.append(reinterpret_cast<const char*>(&question), sizeof question);
    sockaddr_ll to{};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = device_->index;
    to.sll_halen = ETH_ALEN;
    std::fill_n(to.sll_addr, ETH_ALEN, std::uint8_t{0xff});
    ::sendto(packets_.get(), frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to),
             sizeof to);
  }

  void ask_ping(const Target& target) {
    if (!pings_) { return; }
    icmp6_hdr question{};
    question.icmp6_type = ICMP6_ECHO_REQUEST;
    question.icmp6_id = htons(0x7674);
    sockaddr_in6 to{};
    to.sin6_family = AF_INET6;
    to.sin6_addr = parse_ipv6(target.address);
    to.sin6_scope_id = static_cast<std::uint32_t>(device_->index);
    ::setsockopt(pings_.get(), IPPROTO_IPV6, IPV6_MULTICAST_IF, &device_->index, sizeof device_->index);
    const int no = 0;
    ::setsockopt(pings_.get(), IPPROTO_IPV6, IPV6_MULTICAST_LOOP, &no, sizeof no);
    ::sendto(pings_.get(), &question, sizeof question, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }

  void wait_for_events() {
    std::vector<pollfd> events;
    for (const auto& one : attempts_) {
      const auto wanted = static_cast<short>(one.connected ? POLLIN : POLLOUT);
      events.push_back({one.socket.get(), wanted, 0});
    }
    events.push_back({packets_.get(), POLLIN, 0});  // -1, which poll passes over, without a device
    events.push_back({pings_.get(), POLLIN, 0});
    if (::poll(events.data(), events.size(), is_scanning() ? 1 : 100) <= 0) { return; }
    const auto count = attempts_.size();
    for (std::size_t i = count; i > 0; --i) {
      if (events[i - 1].revents != 0 && !advance(attempts_[i - 1])) {
        attempts_.erase(attempts_.begin() + static_cast<std::ptrdiff_t>(i - 1));
      }
    }
    if (events[count].revents != 0) { take_packets(); }
    if (events[count + 1].revents != 0) { take_pings(); }
  }

  /// False: it is over.
  bool advance(Attempt& attempt) {
    if (!attempt.connected) {
      int failure = 0;
      socklen_t length = sizeof failure;
      ::getsockopt(attempt.socket.get(), SOL_SOCKET, SO_ERROR, &failure, &length);
      // A vsock without a listener resets; nobody at all times out or is unreachable.
      if (failure == ECONNREFUSED) { answer(*attempt.target, "refused", "", ""); }
      if (failure != 0) { return false; }
      attempt.connected = true;
      return true;
    }
    char bytes[256];
    const ssize_t got = ::recv(attempt.socket.get(), bytes, sizeof bytes, 0);
    if (got > 0) { attempt.greeting.append(bytes, static_cast<std::size_t>(got)); }
    const bool enough = attempt.greeting.size() >= canary_size;
    if (got > 0 && !enough) { return true; }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) { return true; }
    answer(*attempt.target, "connected", "", name_of_canary(request_, attempt.greeting));
    return false;
  }

  void take_packets() {
    char bytes[2048];
    sockaddr_ll from{};
    socklen_t length = sizeof from;
    ssize_t got = 0;
    while ((got = ::recvfrom(packets_.get(), bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from),
                             &length)) > 0) {
      const std::string_view frame(bytes, static_cast<std::size_t>(got));
      if (from.sll_pkttype == PACKET_OUTGOING || frame.size() < sizeof(ether_header)) { continue; }
      ether_header header{};
      std::memcpy(&header, frame.data(), sizeof header);
      const auto body = frame.substr(sizeof header);
      scanner_->take(frame);
      if (ntohs(header.ether_type) == ETHERTYPE_ARP) { take_arp(body); }
      const auto heard = name_of_canary(request_, body);
      if (ntohs(header.ether_type) == canary_frame_type && !heard.empty() &&
          std::find(report_.heard.begin(), report_.heard.end(), heard) == report_.heard.end()) {
        report_.heard.push_back(heard);
      }
    }
  }

  void take_arp(std::string_view body) {
    ether_arp reply{};
    if (body.size() < sizeof reply) { return; }
    std::memcpy(&reply, body.data(), sizeof reply);
    if (ntohs(reply.ea_hdr.ar_op) != ARPOP_REPLY) { return; }
    in_addr sender{};
    Mac mac{};
    std::memcpy(&sender, reply.arp_spa, sizeof sender);
    std::copy_n(reply.arp_sha, mac.size(), mac.begin());
    if (mac == device_->mac) { return; }
    for (const auto& target : request_.targets) {
      if (target.kind == TargetKind::arp && parse_ipv4(target.address).s_addr == sender.s_addr) {
        answer(target, "replied", mac_text(mac), "");
      }
    }
  }

  void take_pings() {
    char bytes[512];
    sockaddr_in6 from{};
    socklen_t length = sizeof from;
    ssize_t got = 0;
    while ((got = ::recvfrom(pings_.get(), bytes, sizeof bytes, 0, reinterpret_cast<sockaddr*>(&from),
                             &length)) > 0) {
      icmp6_hdr reply{};
      if (static_cast<std::size_t>(got) < sizeof reply) { continue; }
      std::memcpy(&reply, bytes, sizeof reply);
      const bool is_ours = device_->link_local &&
                           std::memcmp(&*device_->link_local, &from.sin6_addr, sizeof from.sin6_addr) == 0;
      if (reply.icmp6_type != ICMP6_ECHO_REPLY || is_ours) { continue; }
      for (const auto& target : request_.targets) {
        if (target.kind == TargetKind::ping6) { answer(target, "replied", address_text(from.sin6_addr), ""); }
      }
    }
  }

  const ReachRequest& request_;
  std::optional<Interface> device_;
  std::vector<Attempt> attempts_;
  UniqueFd packets_, pings_;
  std::optional<PortScanner> scanner_;
  std::set<std::string> answered_, failed_;
  Reached report_;
};

}  // namespace

Reached try_to_reach(const ReachRequest& request) {
  return Reach(request).run();
}

}  // namespace virtrain::canary
