#include "vmctl/host/tenant_network.h"

#include <fmt/format.h>

#include <random>

#include "common/error.h"
#include "common/text/scanner.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {

std::uint32_t vxlan_number(const std::string& experiment, std::size_t tenant, NodeKind kind) {
  constexpr std::uint64_t numbers = (1U << 24) - 1;  // without 0
  const auto first = std::stoull(sha256(experiment).substr(0, 12), nullptr, 16);
  const auto network = 2 * std::uint64_t{tenant} + (kind == NodeKind::vm ? 0 : 1);
  return static_cast<std::uint32_t>(1 + (first + network) % numbers);
}

std::int64_t mtu_of_nodes(const GuestNetwork& guest, const HostNetwork& network,
                          const HostNetworkFacts& facts) {
  if (!guest.mtu) { return facts.mtu; }
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("use an MTU of {} bytes on {}", *guest.mtu, network.name), ErrorCode::host_unable,
                why);
  };
  if (network.kind == HostNetworkKind::bridge && *guest.mtu != facts.mtu) {
    refuse(
        fmt::format("the bridge has {}, and a port with another MTU would change it (leave "
                    "guest.network.mtu out, or set it to {})",
                    facts.mtu, facts.mtu));
  }
  if (*guest.mtu > facts.mtu && network.kind == HostNetworkKind::vf) {
    refuse(fmt::format(
        "the NIC carries at most {} (lower guest.network.mtu, or raise the MTU of {} on all hosts)",
        facts.mtu, network.name));
  }
  if (*guest.mtu > facts.mtu) {
    refuse(
        fmt::format("its VXLAN carries at most {} (lower guest.network.mtu, or raise the MTU of {} on all "
                    "hosts)",
                    facts.mtu, network.name));
  }
  return *guest.mtu;
}

void require_reachable(const std::vector<std::string>& peers, const HostNetwork& network,
                       const HostNetworkFacts& facts) {
  const auto refuse = [&](const std::string& peer, const std::string& why) {
    throw Error(fmt::format("reach {} by VXLAN over {}", peer, network.name), ErrorCode::host_unable, why);
  };
  for (const auto& peer : peers) {
    if (peer == facts.address) {
      refuse(peer, "this host has that address itself (give each host an address of its own)");
    }
    if (is_ipv6(peer) != is_ipv6(facts.address)) {
      refuse(peer, fmt::format("this host's end is {}, of another IP version (give the NICs of all hosts "
                               "IPv4 addresses, or none of them)",
                               facts.address));
    }
  }
}

void require_usable_by_host(const HostNetwork& network, const HostNetworkFacts& facts) {
  const auto refuse = [&](const std::string& why) {
    throw Error(fmt::format("run ranks of bare_metal_shared over {}", network.name), ErrorCode::host_unable,
                why);
  };
  if (facts.address.empty()) {
    refuse(fmt::format(
        "it has no address, and such ranks have the host's own network (ip addr add ADDRESS/BITS dev {})",
        network.name));
  }
  if (is_ipv6(facts.address)) {
    refuse(fmt::format(
        "its address is {}, and mpirun takes hosts by their IPv4 addresses (ip addr add ADDRESS/BITS "
        "dev {})",
        facts.address, network.name));
  }
}

bool allows_device(std::string_view list, const std::string& device) {
  bool is_allowed = false;
  for (const auto& line : split(std::string(list), '\n')) {
    Scanner in(line);
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    const auto is_of_word = [&](char c) { return !is_blank(c); };
    in.take_while(is_blank);
    const auto verb = in.take_while(is_of_word);
    in.take_while(is_blank);
    const auto name = in.take_while(is_of_word);
    if (name != device && name != "all") { continue; }
    if (verb == "deny") { return false; }
    is_allowed = is_allowed || verb == "allow";
  }
  return is_allowed;
}

std::string host_end_mac(const std::string& node_mac) {
  if (!node_mac.empty()) { return "fe" + node_mac.substr(2); }
  std::random_device device;
  const auto lower = device(), upper = device();
  return fmt::format("fe:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", upper & 0xff, lower >> 24, lower >> 16 & 0xff,
                     lower >> 8 & 0xff, lower & 0xff);
}

}  // namespace virtrain::vmctl
