#include "vmctl/slice/net_devices.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path sys_class_net = "/sys/class/net";
const fs::path namespaces = "/run/netns";
constexpr const char* alias_prefix = "virtrain:";
constexpr int vxlan_port = 4789;  // of RFC 7348; Linux's own default is another

/// Hides the host from a bridge without an address. Else the kernel gives it an IPv6 link-local one, and
/// answers ARP there for every address that this host has elsewhere.
std::string hide_host(const std::string& bridge) {
  const bool has_ipv6 = fs::exists("/proc/sys/net/ipv6");  // else the kernel refuses to hear of it
  return fmt::format("link set {} {}arp off", bridge, has_ipv6 ? "addrgenmode none " : "");
}

std::string token_bucket(const std::string& device, std::uint64_t bytes_per_second) {
  constexpr std::uint64_t least_burst = 64U << 10, bits = 8;  // one frame as large as a slice may hand over
  constexpr std::uint64_t bursts_per_second = 50;
  return fmt::format("qdisc add dev {} root tbf rate {}bit burst {} latency 100ms", device,
                     bytes_per_second * bits, std::max(least_burst, bytes_per_second / bursts_per_second));
}

/// Tries commands of tc on the loopback device of a new network namespace, which goes with the process.
std::string lacks_in_tc(const std::vector<std::string>& commands) {
  CommandOptions options;
  options.input = join(commands, "\n") + "\n";
  const auto result = run_command({"unshare", "--net", "tc", "-batch", "-"}, options);
  return result.exit_status == 0 ? "" : "tc says: " + printable(trim(split(trim(result.err), '\n')[0]));
}

/// Runs them as one batch of `ip` or `tc`, in a network namespace or (empty) in ours.
void run_batch(const char* program, const std::string& netns, const std::vector<std::string>& commands,
               ErrorCode failure) {
  std::vector<std::string> argv{program};
  if (!netns.empty()) { argv.insert(argv.end(), {"-n", netns}); }
  argv.insert(argv.end(), {"-batch", "-"});
  CommandOptions options;
  options.input = join(commands, "\n") + "\n";
  const auto result = run_command(argv, options);
  if (result.exit_status != 0) {
    throw Error(fmt::format("run {}: {}", program, join(commands, "; ")), failure,
                printable(trim(result.err)));
  }
}

}  // namespace

void limit_sending(const std::string& netns, const std::string& device, std::uint64_t bytes_per_second) {
  run_batch("tc", netns, {token_bucket(device, bytes_per_second)}, ErrorCode::host_unable);
}

std::string lacks_limits_of_sending() {
  return lacks_in_tc({token_bucket("lo", 1U << 20)});
}

std::string lacks_libvirt_bandwidth() {
  const std::string police = "police rate 1000kbps burst 100kb mtu 64kb drop flowid :1";
  return lacks_in_tc({"qdisc add dev lo root handle 1: htb default 1",
                      "class add dev lo parent 1: classid 1:1 htb rate 1000kbps",
                      "qdisc add dev lo parent 1:1 handle 2: sfq perturb 10", "qdisc add dev lo ingress",
                      "filter add dev lo parent ffff: protocol all u32 match u32 0 0 " + police});
}

void run_ip(const std::string& netns, const std::vector<std::string>& commands) {
  run_batch("ip", netns, commands, ErrorCode::io);
}

void hide_host_on(const std::string& bridge) {
  run_ip({}, {hide_host(bridge)});
}

void create_bridge(const std::string& name, const std::string& address, const std::string& experiment) {
  std::vector<std::string> commands{fmt::format("link add {} type bridge stp_state 0 forward_delay 0", name)};
  if (!address.empty()) { commands.push_back(fmt::format("addr add {} dev {}", address, name)); }
  if (address.empty()) { commands.push_back(hide_host(name)); }
  commands.push_back(fmt::format("link set {} alias {} up", name, link_alias(experiment)));
  run_ip({}, commands);
}

void create_tap(const std::string& name, const std::string& bridge, uid_t user,
                const std::string& experiment) {
  run_ip({}, {fmt::format("tuntap add dev {} mode tap user {}", name, user),
              fmt::format("link set {} alias {} master {} up", name, link_alias(experiment), bridge)});
}

bool is_ipv6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

void require_free_name(const std::string& device) {
  if (!fs::exists(sys_class_net / device)) { return; }
  throw Error("make network device " + device, ErrorCode::busy,
              fmt::format("there is one already, which is left as it is (virtrain clean removes it if it is "
                          "virtrain's; else ip link del {})",
                          device));
}

void create_vxlan(const Vxlan& vxlan, const std::string& experiment) {
  require_free_name(vxlan.name);
  const bool has_ipv6 = fs::exists("/proc/sys/net/ipv6");
  run_batch("ip", {},
            {fmt::format("link add {} type vxlan id {} local {} dev {} dstport {}", vxlan.name, vxlan.number,
                         vxlan.local, vxlan.nic, vxlan_port),
             fmt::format("link set {} {}alias {}", vxlan.name, has_ipv6 ? "addrgenmode none " : "",
                         link_alias(experiment))},
            ErrorCode::host_unable);
  std::vector<std::string> ends;
  for (const auto& peer : vxlan.peers) {
    ends.push_back(fmt::format("fdb append 00:00:00:00:00:00 dev {} dst {}", vxlan.name, peer));
  }
  if (!ends.empty()) { run_batch("bridge", {}, ends, ErrorCode::host_unable); }
  run_ip({}, {fmt::format("link set {} master {} up", vxlan.name, vxlan.bridge)});
}

void destroy_bridge(const std::string& name) {
  delete_link(name);
}

std::optional<NicBytes> nic_bytes(const std::string& device) {
  const auto counter = [&](const char* name) -> std::optional<std::uint64_t> {
    const auto text = read_value(sys_class_net / device / "statistics" / name);
    const auto number = text ? parse_integer(*text) : std::nullopt;
    return number ? std::optional(static_cast<std::uint64_t>(*number)) : std::nullopt;
  };
  const auto rx = counter("rx_bytes"), tx = counter("tx_bytes");
  if (!rx || !tx) { return std::nullopt; }
  return NicBytes{*rx, *tx};
}

void delete_link(const std::string& device) {
  if (!fs::exists(sys_class_net / device)) { return; }
  try {
    run_ip({}, {"link del " + device});
  } catch (const Error&) {
    if (fs::exists(sys_class_net / device)) {
      throw;  // else it went together with its peer
    }
  }
}

void delete_namespace(const std::string& netns) {
  if (fs::exists(namespaces / netns)) { run_ip({}, {"netns del " + netns}); }
}

std::string link_alias(const std::string& experiment) {
  return alias_prefix + experiment;
}

std::optional<std::string> link_experiment(const std::string& device) {
  const auto alias = read_value(sys_class_net / device / "ifalias").value_or("");
  if (!alias.starts_with(alias_prefix)) { return std::nullopt; }
  return alias.substr(std::string_view(alias_prefix).size());
}

LinkKind link_kind(const std::string& device) {
  const auto folder = sys_class_net / device;
  if (fs::exists(folder / "bridge")) { return LinkKind::bridge; }
  if (fs::exists(folder / "tun_flags")) { return LinkKind::tap; }
  const auto driver = driver_of_link(device).driver;
  if (driver == "vxlan") { return LinkKind::vxlan; }
  return driver == "veth" ? LinkKind::veth : LinkKind::other;
}

LinkDriver driver_of_link(const std::string& device) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo answer{};
  answer.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  device.copy(request.ifr_name, sizeof request.ifr_name - 1);
  request.ifr_data = reinterpret_cast<char*>(&answer);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) { return {}; }
  const auto text = [](const auto& field) { return std::string(field, ::strnlen(field, sizeof field)); };
  const auto firmware = text(answer.fw_version);
  return {text(answer.driver), firmware == "N/A" ? "" : firmware};
}

std::vector<std::string> bridge_ports(const std::string& bridge) {
  return entry_names(sys_class_net / bridge / "brif");
}

std::vector<std::string> list_links() {
  return entry_names(sys_class_net);
}
std::vector<std::string> list_namespaces() {
  return entry_names(namespaces);
}

}  // namespace virtrain::vmctl
