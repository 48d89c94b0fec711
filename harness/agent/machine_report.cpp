#include "harness/agent/machine_report.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <bit>
#include <memory>

#include "common/files/reading.h"
#include "common/text/sha256.h"

namespace virtrain::harness {
namespace {

/// Leaf 1 has a bit that processors leave zero and hypervisors set; leaf 0x40000000 then has a name.
void look_at_processor(message::Machine& machine) {
#if defined(__x86_64__)
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) { return; }
  constexpr unsigned hypervisor_bit = 1U << 31;
  machine.is_guest = (c & hypervisor_bit) != 0;
  if (!*machine.is_guest) { return; }
  constexpr unsigned name_leaf = 0x40000000;
  __cpuid(name_leaf, a, b, c, d);
  std::string name;
  for (const unsigned part : {b, c, d}) {
    for (unsigned byte = 0; byte < sizeof part; ++byte) {
      const char letter = static_cast<char>(part >> (8 * byte));
      if (letter > ' ' && letter < 0x7f) { name += letter; }
      if (letter == ' ') { name += ' '; }
    }
  }
  machine.hypervisor = name;
#else
  (void)machine;
#endif
}

/// machine-id(5) is not for others: nobody can tell it from the digest.
std::optional<std::string> identity() {
  const auto id = read_value("/etc/machine-id");
  const auto boot = read_value("/proc/sys/kernel/random/boot_id");
  if (!boot || boot->empty()) { return std::nullopt; }
  return sha256("virtrain " + id.value_or("") + " " + *boot);
}

int prefix_length(const sockaddr* mask) {
  if (mask == nullptr) { return 32; }
  return std::popcount(reinterpret_cast<const sockaddr_in*>(mask)->sin_addr.s_addr);
}

std::vector<std::string> networks() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) { return {}; }
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, ::freeifaddrs);
  std::vector<std::string> found;
  for (const auto* one = all; one != nullptr; one = one->ifa_next) {
    const bool is_wanted = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                           (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_wanted) { continue; }
    char text[INET_ADDRSTRLEN] = {};
    const auto& address = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
    ::inet_ntop(AF_INET, &address, text, sizeof text);
    found.push_back(fmt::format("{} {}/{}", one->ifa_name, text, prefix_length(one->ifa_netmask)));
  }
  return found;
}

}  // namespace

message::Machine machine_report() {
  message::Machine machine;
  look_at_processor(machine);
  machine.identity = identity();
  machine.vendor = read_value("/sys/class/dmi/id/sys_vendor");
  machine.product = read_value("/sys/class/dmi/id/product_name");
  machine.networks = networks();
  return machine;
}

}  // namespace virtrain::harness
