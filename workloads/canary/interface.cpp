#include "workloads/canary/interface.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"

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

}  // namespace virtrain::canary
