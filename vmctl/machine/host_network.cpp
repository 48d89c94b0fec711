#include "vmctl/machine/host_network.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path net_devices = "/sys/class/net";

[[noreturn]] void network_unable(const HostNetwork& network, const std::string& why) {
  throw Error(fmt::format("use {} for the nodes' network between hosts", network.name),
              ErrorCode::host_unable, why);
}

/// IFF_UP, IFF_RUNNING, …; none of a device that has gone.
unsigned flags_of(const std::string& device) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  device.copy(request.ifr_name, sizeof request.ifr_name - 1);
  return ::ioctl(socket.get(), SIOCGIFFLAGS, &request) == 0 ? static_cast<unsigned short>(request.ifr_flags)
                                                            : 0U;
}

template <typename Address>
std::string text_of_address(int family, const Address& address) {
  char text[INET6_ADDRSTRLEN] = "";
  return ::inet_ntop(family, &address, text, sizeof text) != nullptr ? text : "";
}

/// "192.0.2.7"; empty: one that other hosts do not reach, or of another family.
std::string global_ipv4(const sockaddr& generic) {
  if (generic.sa_family != AF_INET) { return ""; }
  const auto& address = reinterpret_cast<const sockaddr_in&>(generic).sin_addr;
  const auto bytes = ntohl(address.s_addr);
  const bool is_loopback = bytes >> 24 == 127, is_link_local = bytes >> 16 == 0xa9fe;
  return is_loopback || is_link_local ? "" : text_of_address(AF_INET, address);
}

std::string global_ipv6(const sockaddr& generic) {
  if (generic.sa_family != AF_INET6) { return ""; }
  const auto& address = reinterpret_cast<const sockaddr_in6&>(generic).sin6_addr;
  const bool is_local = IN6_IS_ADDR_LINKLOCAL(&address) || IN6_IS_ADDR_LOOPBACK(&address);
  return is_local ? "" : text_of_address(AF_INET6, address);
}

/// The device's first address that other hosts reach, IPv4 before IPv6; empty: it has none.
std::string address_of(const std::string& device) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) { throw errno_error("read the addresses of " + device, errno); }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> hold(list, &::freeifaddrs);
  for (const auto choose : {global_ipv4, global_ipv6}) {
    for (const auto* one = list; one != nullptr; one = one->ifa_next) {
      if (one->ifa_addr == nullptr || device != one->ifa_name) { continue; }
      if (auto address = choose(*one->ifa_addr); !address.empty()) { return address; }
    }
  }
  return "";
}

/// The devices with hardware of their own below this one: itself, the members of a bond, the ports of a
/// bridge. Those of nodes (taps and veths) have none.
void add_hardware(const std::string& device, std::set<std::string>& found, int levels = 8) {
  if (fs::exists(net_devices / device / "device")) {
    found.insert(device);
    return;
  }
  constexpr std::string_view lower = "lower_";
  for (const auto& entry : entry_names(net_devices / device)) {
    if (levels > 0 && entry.starts_with(lower)) {
      add_hardware(entry.substr(lower.size()), found, levels - 1);
    }
  }
}

/// Facts of all these devices, each once: "mlx5_core", "igb, mlx5_core".
void add_driver_facts(const std::set<std::string>& devices, HostNetworkFacts& facts) {
  std::set<std::string> drivers, firmware, speeds;
  const auto add = [](std::set<std::string>& to, const std::string& text) {
    if (!text.empty()) { to.insert(printable(text)); }
  };
  for (const auto& device : devices) {
    const auto folder = net_devices / device;
    const auto said = driver_of_link(device);
    std::error_code none;
    const auto driver = fs::read_symlink(folder / "device/driver", none).filename().string();
    add(drivers, driver.empty() ? said.driver : driver);
    add(firmware, said.firmware);
    const auto speed = parse_integer(read_value(folder / "speed").value_or("")).value_or(0);
    if (speed > 0) { speeds.insert(fmt::format("{} Mb/s", speed)); }
  }
  const auto joined = [](const std::set<std::string>& texts) {
    return join(std::vector<std::string>(texts.begin(), texts.end()), ", ");
  };
  facts.driver = joined(drivers);
  facts.firmware = joined(firmware);
  facts.link_speed = joined(speeds);
}

void require_there(const HostNetwork& network) {
  if (fs::exists(net_devices / network.name)) { return; }
  network_unable(network, fmt::format("this host has no network device {} (ip -br link shows those that it "
                                      "has; name one under hosts, network, name)",
                                      network.name));
}

/// The NIC's own virtual functions. A network's nodes have what nobody uses: its interface, if it has a
/// driver, is in no other namespace and without addresses.
void add_functions(const HostNetwork& network, HostNetworkFacts& facts) {
  const auto& name = network.name;
  const auto address = link_name(net_devices / name / "device");
  const auto physical = read_pci_function("/", address);
  const auto why = why_no_functions(name, physical.value_or(PciFunction{}));
  if (!why.empty()) { network_unable(network, why); }
  facts.functions_possible = physical->virtual_functions_possible;
  facts.functions = std::ssize(physical->virtual_functions);
  if (facts.functions == 0) {
    network_unable(network, fmt::format("none of the {} virtual functions that {} can have is there ({})",
                                        facts.functions_possible, name,
                                        command_for_functions(name, facts.functions_possible, false)));
  }
  auto functions = read_devices("/", physical->virtual_functions);
  find_users("/", functions);
  for (const auto& one : functions) {
    if (one.users.empty() && !is_in_another_namespace(one)) {
      facts.free_functions.push_back(one.function.address);
    }
  }
}

void require_bridge(const HostNetwork& network) {
  if (link_kind(network.name) != LinkKind::bridge) {
    network_unable(network, fmt::format("{} is not a bridge (ip -br link show type bridge shows those of "
                                        "this host; over a NIC, use kind: vxlan)",
                                        network.name));
  }
  if (link_experiment(network.name)) {
    network_unable(network, fmt::format("{} is the network of a tenant of virtrain's", network.name));
  }
  if ((flags_of(network.name) & IFF_UP) == 0) {
    network_unable(network, fmt::format("bridge {} is down (ip link set {} up)", network.name, network.name));
  }
}

void require_link(const HostNetwork& network) {
  const auto& name = network.name;
  const auto flags = flags_of(name);
  if ((flags & IFF_UP) == 0) {
    network_unable(network, fmt::format("{} is down (ip link set {} up)", name, name));
  }
  if ((flags & IFF_RUNNING) == 0) {
    network_unable(network, fmt::format("{} has no link; check its cable and the other end", name));
  }
}

void require_address(const HostNetwork& network, const std::string& address) {
  const auto& name = network.name;
  if (address.empty()) {
    network_unable(network, fmt::format("{} has no address that other hosts reach (ip addr add ADDRESS/BITS "
                                        "dev {})",
                                        name, name));
  }
}

}  // namespace

HostNetworkFacts read_host_network(const HostNetwork& network) {
  if (network.kind == HostNetworkKind::none) { return {}; }
  require_there(network);
  HostNetworkFacts facts;
  const auto mtu = parse_integer(read_value(net_devices / network.name / "mtu").value_or(""));
  if (!mtu) { network_unable(network, "its MTU cannot be read"); }
  facts.mtu = *mtu;
  facts.address = address_of(network.name);
  if (network.kind == HostNetworkKind::bridge) {
    require_bridge(network);
  } else if (network.kind == HostNetworkKind::vf) {
    add_functions(network, facts);
    require_link(network);
  } else {
    require_link(network);
    require_address(network, facts.address);
    facts.mtu -= is_ipv6(facts.address) ? vxlan_bytes_ipv6 : vxlan_bytes;
  }
  std::set<std::string> hardware;
  add_hardware(network.name, hardware);
  if (hardware.empty() && network.kind == HostNetworkKind::vxlan) { hardware.insert(network.name); }
  add_driver_facts(hardware, facts);
  return facts;
}

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
