#include "workloads/canary/port_scan.h"

#include <net/ethernet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>

namespace virtrain::canary {
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

}  // namespace virtrain::canary
