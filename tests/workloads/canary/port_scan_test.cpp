// Frames that ask ports, and what comes back: planted.

#include <arpa/inet.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>

#include <cstring>

#include "common/error.h"
#include "tests/support/catch.h"
#include "workloads/canary/network.h"

using namespace virtrain;
using namespace virtrain::canary;

namespace {

constexpr std::size_t ip_at = sizeof(ether_header);
constexpr const char* any_mac = "00:00:00:00:00:00";

Interface device(bool with_ipv6 = true) {
  Interface one{"eth0", 2, parse_mac("52:54:00:00:00:0c"), parse_ipv4("10.77.0.1"), std::nullopt};
  if (with_ipv6) { one.link_local = parse_ipv6("fe80::c"); }
  return one;
}

PortScanner scanner(const std::vector<ScanTarget>& targets, bool with_ipv6 = true) {
  return {device(with_ipv6), parse_ipv4("10.77.200.3"), targets};
}

/// The ones' complement sum over bytes that contain their own checksum: all ones where that is right.
std::uint32_t sum_of(std::string_view bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    sum += static_cast<std::uint32_t>(static_cast<std::uint8_t>(bytes[i]) << 8 |
                                      static_cast<std::uint8_t>(bytes[i + 1]));
  }
  while ((sum >> 16) != 0) { sum = (sum & 0xffff) + (sum >> 16); }
  return sum;
}

tcphdr tcp_of(std::string_view frame, std::size_t at) {
  tcphdr tcp{};
  std::memcpy(&tcp, frame.data() + at, sizeof tcp);
  return tcp;
}

/// What the asked node's kernel sends back.
std::string answer_to(std::string_view frame, bool is_open) {
  std::string out(frame);
  iphdr ip{};
  std::memcpy(&ip, out.data() + ip_at, sizeof ip);
  std::swap(ip.saddr, ip.daddr);
  std::memcpy(out.data() + ip_at, &ip, sizeof ip);
  auto tcp = tcp_of(out, ip_at + sizeof ip);
  std::swap(tcp.source, tcp.dest);
  tcp.ack = 1;
  tcp.syn = is_open ? 1 : 0;
  tcp.rst = is_open ? 0 : 1;
  std::memcpy(out.data() + ip_at + sizeof ip, &tcp, sizeof tcp);
  return out;
}

}  // namespace

TEST_CASE("a frame that asks a port has right lengths, addresses and checksums") {
  auto four = scanner({{"t", "10.77.200.1", "52:54:00:00:00:0a", {1024}}});
  const auto frame = four.frame();
  REQUIRE(frame.size() >= 60);
  CHECK(frame.substr(0, 12) == std::string_view("\x52\x54\0\0\0\x0a\x52\x54\0\0\0\x0c", 12));
  CHECK(sum_of(frame.substr(ip_at, sizeof(iphdr))) == 0xffff);
  const auto tcp = frame.substr(ip_at + sizeof(iphdr), sizeof(tcphdr));
  const std::string pseudo = std::string(frame.substr(ip_at + 12, 8)) + std::string("\0\6\0\x14", 4);
  CHECK(sum_of(pseudo + std::string(tcp)) == 0xffff);
  CHECK(ntohs(tcp_of(frame, ip_at + sizeof(iphdr)).dest) == 1024);

  auto six = scanner({{"t", "fe80::a", "52:54:00:00:00:0a", {22}}});
  const auto long_frame = six.frame();
  constexpr std::size_t ip6_bytes = 40;
  REQUIRE(long_frame.size() == ip_at + ip6_bytes + sizeof(tcphdr));
  const std::string addresses(long_frame.substr(ip_at + 8, 32));
  CHECK(sum_of(addresses + std::string("\0\0\0\x14\0\0\0\6", 8) +
               std::string(long_frame.substr(ip_at + ip6_bytes))) == 0xffff);
}

TEST_CASE("all ports are asked twice, and what answers is told apart") {
  auto scan = scanner({{"all", "10.77.200.1", any_mac, {}}, {"two", "10.77.200.2", any_mac, {22, 40'000}}});
  std::size_t frames = 0;
  while (!scan.is_done()) {
    const std::string frame(scan.frame());
    const auto port = ntohs(tcp_of(frame, ip_at + sizeof(iphdr)).dest);
    if (frames < 65'535 && port == 1024) { scan.take(answer_to(frame, true)); }
    if (frames < 65'535 && port == 22) { scan.take(answer_to(frame, false)); }
    scan.take(frame);  // its own question is no answer
    scan.sent();
    ++frames;
  }
  CHECK(frames == 2 * (65'535 + 2));
  CHECK(scan.frame().empty());
  const auto report = scan.report();
  CHECK((report[0].scanned == 65'535 && report[0].total == 65'535));
  CHECK(report[0].open == std::vector<std::uint16_t>{1024});
  CHECK(report[0].closed == std::vector<std::uint16_t>{22});
  CHECK((report[1].scanned == 2 && report[1].total == 2));
  CHECK((report[1].open.empty() && report[1].closed.empty()));
}

TEST_CASE("a scan that was cut short, or could not be, says how much it asked") {
  auto scan = scanner({{"all", "10.77.200.1", any_mac, {}}});
  for (int i = 0; i < 100; ++i) { scan.sent(); }
  CHECK(scan.report()[0].scanned == 100);
  auto without = scanner({{"six", "fe80::a", any_mac, {}}}, false);
  CHECK(without.is_done());
  CHECK((without.report()[0].scanned == 0 && without.report()[0].total == 65'535));
  CHECK(scanner({}).is_done());
}

TEST_CASE("frames that are no answers change nothing, however they are cut") {
  auto scan = scanner({{"t", "10.77.200.1", any_mac, {22}}});
  const auto answer = answer_to(scan.frame(), true);
  for (std::size_t size = 0; size < ip_at + sizeof(iphdr) + sizeof(tcphdr); ++size) {
    scan.take(std::string_view(answer).substr(0, size));
  }
  auto long_header = answer;
  long_header[ip_at] = '\x4f';  // options to the end of the frame and beyond
  scan.take(long_header);
  CHECK(scan.report()[0].open.empty());
  scan.take(answer);
  CHECK(scan.report()[0].open == std::vector<std::uint16_t>{22});
}

TEST_CASE("a MAC address is read whole or refused") {
  CHECK(mac_text(parse_mac("52:54:00:00:00:0c")) == "52:54:00:00:00:0c");
  for (const char* bad :
       {"", "52:54:00:00:00", "52:54:00:00:00:0g", "52-54-00-00-00-0c", "52:54:00:00:00:0c:"}) {
    CHECK_THROWS_AS(parse_mac(bad), Error);
  }
}
