#include "workloads/canary/network.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <linux/vm_sockets.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/if_ether.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/text/canary.h"

namespace virtrain::canary {
namespace {

using Addresses = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

Addresses read_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) { throw errno_error("read the node's addresses", errno); }
  return {list, &::freeifaddrs};
}

/// Calls `take` for each of this process's addresses of `kind`, an address family.
template <typename Address, typename Take>
void each_address(const Addresses& list, int kind, Take&& take) {
  for (const auto* one = list.get(); one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != kind) { continue; }
    Address address;
    std::memcpy(&address, one->ifa_addr, sizeof address);
    take(std::string(one->ifa_name), address);
  }
}

Interface look_for(const in_addr& wanted) {
  const auto list = read_addresses();
  Interface found;
  each_address<sockaddr_in>(list, AF_INET, [&](const std::string& name, const sockaddr_in& address) {
    if (address.sin_addr.s_addr == wanted.s_addr) { found.name = name.substr(0, name.find(':')); }
  });
  if (found.name.empty()) { return found; }
  found.address = wanted;
  found.index = static_cast<int>(::if_nametoindex(found.name.c_str()));
  each_address<sockaddr_ll>(list, AF_PACKET, [&](const std::string& name, const sockaddr_ll& address) {
    if (name == found.name) { std::copy_n(address.sll_addr, found.mac.size(), found.mac.begin()); }
  });
  each_address<sockaddr_in6>(list, AF_INET6, [&](const std::string& name, const sockaddr_in6& address) {
    if (name == found.name && IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr)) {
      found.link_local = address.sin6_addr;
    }
  });
  return found;
}

sockaddr to_sockaddr(const in_addr& address) {
  sockaddr_in internet{};
  internet.sin_family = AF_INET;
  internet.sin_addr = address;
  sockaddr generic{};
  std::memcpy(&generic, &internet, sizeof internet);
  return generic;
}

}  // namespace

Interface interface_with(const std::string& address) {
  constexpr int tries = 20;
  constexpr std::chrono::milliseconds pause{100};
  const auto wanted = parse_ipv4(address);
  Interface found;
  for (int i = 0; i < tries; ++i) {
    found = look_for(wanted);
    if (found.name.empty()) {
      throw Error("find the tenant's network", ErrorCode::not_found,
                  "no network device of this node has the address " + address);
    }
    if (found.link_local) { break; }
    std::this_thread::sleep_for(pause);
  }
  return found;
}

void add_address(const Interface& device, const std::string& address) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  const auto alias = device.name + ":vt";  // the kernel's old way to have several, which needs no netlink
  alias.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_addr = to_sockaddr(parse_ipv4(address));
  if (::ioctl(socket.get(), SIOCSIFADDR, &request) != 0) {
    throw errno_error("give " + device.name + " the address " + address, errno);
  }
  request.ifr_netmask = to_sockaddr(parse_ipv4("255.255.0.0"));
  if (::ioctl(socket.get(), SIOCSIFNETMASK, &request) != 0) {
    throw errno_error("set the netmask of " + alias, errno);
  }
}

std::string mac_text(const Mac& mac) {
  return fmt::format("{:02x}", fmt::join(mac, ":"));
}

Mac parse_mac(const std::string& text) {
  Mac mac{};
  bool is_mac = text.size() == mac.size() * 3 - 1;
  for (std::size_t i = 0; is_mac && i < mac.size(); ++i) {
    const char* begin = text.data() + i * 3;
    const auto [end, error] = std::from_chars(begin, begin + 2, mac[i], 16);
    is_mac = error == std::errc() && end == begin + 2 && (i + 1 == mac.size() || *end == ':');
  }
  if (!is_mac) {
    throw Error("read an address", ErrorCode::bad_input, "'" + text + "' is not a MAC address");
  }
  return mac;
}

std::string address_text(const in_addr& address) {
  char text[INET_ADDRSTRLEN] = "";
  return ::inet_ntop(AF_INET, &address, text, sizeof text) != nullptr ? text : "";
}

std::string address_text(const in6_addr& address) {
  char text[INET6_ADDRSTRLEN] = "";
  return ::inet_ntop(AF_INET6, &address, text, sizeof text) != nullptr ? text : "";
}

in_addr parse_ipv4(const std::string& text) {
  in_addr address{};
  if (::inet_pton(AF_INET, text.c_str(), &address) != 1) {
    throw Error("read an address", ErrorCode::bad_input, "'" + text + "' is not an IPv4 address");
  }
  return address;
}

in6_addr parse_ipv6(const std::string& text) {
  in6_addr address{};
  if (::inet_pton(AF_INET6, text.c_str(), &address) != 1) {
    throw Error("read an address", ErrorCode::bad_input, "'" + text + "' is not an IPv6 address");
  }
  return address;
}

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

namespace {

constexpr std::size_t all_ports = 65'535;
/// A port that no connection has: below the ports that kernels give out.
constexpr std::uint16_t own_port = 20'077;
constexpr std::uint32_t sequence = 0x76740001;

template <typename Header>
void append(std::string& bytes, const Header& header) {
  bytes.append(reinterpret_cast<const char*>(&header), sizeof header);
}

template <typename Header>
bool read_header(std::string_view bytes, Header& header) {
  if (bytes.size() < sizeof header) { return false; }
  std::memcpy(&header, bytes.data(), sizeof header);
  return true;
}

/// The internet's checksum, RFC 1071, in network order.
std::uint16_t checksum(std::string_view bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const auto high = static_cast<std::uint8_t>(bytes[i]);
    const auto low = i + 1 < bytes.size() ? static_cast<std::uint8_t>(bytes[i + 1]) : 0;
    sum += static_cast<std::uint32_t>(high << 8 | low);
  }
  while ((sum >> 16) != 0) { sum = (sum & 0xffff) + (sum >> 16); }
  return htons(static_cast<std::uint16_t>(~sum));
}

template <typename Address>
std::string bytes_of(const Address& address) {
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

std::string ip_header(const std::string& from, const std::string& to) {
  std::string bytes;
  if (from.size() == sizeof(in_addr)) {
    iphdr header{};
    header.version = 4;
    header.ihl = sizeof header / 4;
    header.tot_len = htons(sizeof header + sizeof(tcphdr));
    header.ttl = 64;
    header.protocol = IPPROTO_TCP;
    std::memcpy(&header.saddr, from.data(), from.size());
    std::memcpy(&header.daddr, to.data(), to.size());
    header.check = checksum(bytes_of(header));
    append(bytes, header);
  } else {
    ip6_hdr header{};
    header.ip6_flow = htonl(6U << 28);
    header.ip6_plen = htons(sizeof(tcphdr));
    header.ip6_nxt = IPPROTO_TCP;
    header.ip6_hlim = 64;
    std::memcpy(&header.ip6_src, from.data(), from.size());
    std::memcpy(&header.ip6_dst, to.data(), to.size());
    append(bytes, header);
  }
  return bytes;
}

/// From whom, to whom, and what TCP says; false: it is no TCP.
bool read_tcp(std::string_view frame, std::string& from, std::string& to, tcphdr& tcp) {
  ether_header ethernet{};
  if (!read_header(frame, ethernet)) { return false; }
  frame.remove_prefix(sizeof ethernet);
  if (ntohs(ethernet.ether_type) == ETHERTYPE_IP) {
    iphdr header{};
    if (!read_header(frame, header) || header.protocol != IPPROTO_TCP || header.ihl < 5) { return false; }
    from = bytes_of(header.saddr);
    to = bytes_of(header.daddr);
    const std::size_t length = header.ihl * std::size_t{4};
    return frame.size() >= length && read_header(frame.substr(length), tcp);
  }
  ip6_hdr header{};
  if (ntohs(ethernet.ether_type) != ETHERTYPE_IPV6 || !read_header(frame, header) ||
      header.ip6_nxt != IPPROTO_TCP) {
    return false;
  }
  from = bytes_of(header.ip6_src);
  to = bytes_of(header.ip6_dst);
  return read_header(frame.substr(sizeof header), tcp);
}

}  // namespace

PortScanner::PortScanner(const Interface& device, const in_addr& source,
                         const std::vector<ScanTarget>& targets) {
  for (const auto& target : targets) {
    const bool is_ipv6 = target.address.find(':') != std::string::npos;
    Asked asked{target, "", "", ""};
    asked.to = is_ipv6 ? bytes_of(parse_ipv6(target.address)) : bytes_of(parse_ipv4(target.address));
    if (!is_ipv6) { asked.from = bytes_of(source); }
    if (is_ipv6 && device.link_local) { asked.from = bytes_of(*device.link_local); }
    ether_header ethernet{};
    const auto mac = parse_mac(target.mac);
    std::copy(mac.begin(), mac.end(), ethernet.ether_dhost);
    std::copy(device.mac.begin(), device.mac.end(), ethernet.ether_shost);
    ethernet.ether_type = htons(is_ipv6 ? ETHERTYPE_IPV6 : ETHERTYPE_IP);
    append(asked.ethernet, ethernet);
    targets_.push_back(std::move(asked));
  }
  if (targets_.empty()) { pass_ = passes; }
  skip_done();
}

std::size_t PortScanner::port_count(const Asked& asked) {
  return asked.target.ports.empty() ? all_ports : asked.target.ports.size();
}

std::uint16_t PortScanner::port_of(const Asked& asked, std::size_t index) {
  return asked.target.ports.empty() ? static_cast<std::uint16_t>(index + 1) : asked.target.ports[index];
}

void PortScanner::skip_done() {
  while (!is_done() && (targets_[target_].from.empty() || port_ == port_count(targets_[target_]))) {
    port_ = 0;
    if (++target_ == targets_.size()) {
      target_ = 0;
      ++pass_;
    }
  }
}

std::string PortScanner::frame_to(const Asked& asked, std::uint16_t port) const {
  tcphdr tcp{};
  tcp.source = htons(own_port);
  tcp.dest = htons(port);
  tcp.seq = htonl(sequence);
  tcp.doff = sizeof tcp / 4;
  tcp.syn = 1;
  tcp.window = htons(1024);
  // Both families' pseudo-headers sum up to the same: addresses, length and protocol.
  std::string summed = asked.from + asked.to;
  const std::uint16_t length_and_protocol[] = {htons(sizeof tcp), htons(IPPROTO_TCP)};
  append(summed, length_and_protocol);
  append(summed, tcp);
  tcp.check = checksum(summed);
  auto bytes = asked.ethernet + ip_header(asked.from, asked.to);
  append(bytes, tcp);
  bytes.resize(std::max<std::size_t>(bytes.size(), ETH_ZLEN));
  return bytes;
}

std::string_view PortScanner::frame() {
  if (is_done()) { return {}; }
  frame_ = frame_to(targets_[target_], port_of(targets_[target_], port_));
  return frame_;
}

void PortScanner::sent() {
  if (is_done()) { return; }
  auto& asked = targets_[target_];
  ++port_;
  asked.scanned = std::max(asked.scanned, port_);
  skip_done();
}

void PortScanner::take(std::string_view frame) {
  std::string from, to;
  tcphdr tcp{};
  if (!read_tcp(frame, from, to, tcp) || ntohs(tcp.dest) != own_port) { return; }
  for (auto& asked : targets_) {
    if (asked.to != from || asked.from != to) { continue; }
    const auto port = ntohs(tcp.source);
    const auto& ports = asked.target.ports;
    if (!ports.empty() && std::find(ports.begin(), ports.end(), port) == ports.end()) { continue; }
    if (tcp.rst != 0) { asked.answers.emplace(port, false); }
    if (tcp.syn != 0 && tcp.ack != 0) { asked.answers[port] = true; }
  }
}

std::vector<ScannedPorts> PortScanner::report() const {
  std::vector<ScannedPorts> all;
  for (const auto& asked : targets_) {
    ScannedPorts one{asked.target.name, asked.scanned, port_count(asked), asked.answers.size(), {}, {}};
    for (const auto& [port, is_open] : asked.answers) { (is_open ? one.open : one.closed).push_back(port); }
    all.push_back(std::move(one));
  }
  return all;
}

namespace {

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
