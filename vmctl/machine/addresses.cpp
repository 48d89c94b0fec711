#include "vmctl/machine/addresses.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <memory>
#include <string>

#include "common/contains.h"

namespace virtrain::vmctl {
namespace {

template <typename Address>
std::string text_of(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  return ::inet_ntop(family, &address, text, sizeof text) != nullptr ? text : "";
}

}  // namespace

HostAddresses read_addresses() {
  HostAddresses found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) { return found; }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> hold(list, &::freeifaddrs);
  for (const auto* one = list; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_LOOPBACK) != 0) { continue; }
    if (one->ifa_addr->sa_family == AF_INET) {
      add_once(found.ipv4, text_of(AF_INET, reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr));
    }
    if (one->ifa_addr->sa_family != AF_INET6) { continue; }
    const auto& address = reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&address)) { add_once(found.link_local, text_of(AF_INET6, address)); }
  }
  return found;
}

}  // namespace virtrain::vmctl
