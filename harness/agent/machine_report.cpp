#include "harness/agent/machine_report.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <sstream>
#include <string_view>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/cgroups.h"
#include "common/text/json.h"
#include "common/text/printable.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"

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

namespace {

constexpr std::size_t most_functions = 4096;
constexpr std::size_t most_text_bytes = 64;
constexpr std::size_t most_bridges = 32;
constexpr JsonLimits report_limits{.bytes = std::size_t{4} << 20, .depth = 8, .values = 200'000};

nlohmann::json to_json(const vmctl::PciLink& link) {
  return {{"speed", link.speed}, {"width", link.width}};
}

Error refused(const std::string& why) {
  return {"read PCI report", ErrorCode::protocol, why};
}

/// Text of a bounded length that can be printed.
std::string text_of(const nlohmann::json& value) {
  const auto text = value.get<std::string>();
  if (text.size() > most_text_bytes) { throw refused("a text is too long"); }
  return printable(text);
}

/// A NUMA node (-1: none) or the lanes of a link.
int small_number(const nlohmann::json& value) {
  constexpr std::int64_t least = -1, most = 4096;
  // Unsigned numbers beyond std::int64_t turn negative.
  const bool is_huge = value.is_number_unsigned() && value.get<std::uint64_t>() > most;
  const auto number = value.is_number_integer() && !is_huge ? value.get<std::int64_t>() : least - 1;
  if (number < least || number > most) { throw refused("a number is not valid for a PCI function"); }
  return static_cast<int>(number);
}

vmctl::PciLink link_of(const nlohmann::json& value) {
  return {text_of(value.at("speed")), small_number(value.at("width"))};
}

vmctl::PciFunction function_of(const nlohmann::json& value) {
  vmctl::PciFunction function;
  function.address = text_of(value.at("address"));
  function.vendor = text_of(value.at("vendor"));
  function.device = text_of(value.at("device"));
  function.class_code = text_of(value.at("class"));
  function.driver = text_of(value.at("driver"));
  function.numa_node = small_number(value.at("numa_node"));
  function.root_complex = text_of(value.at("root_complex"));
  const auto& bridges = value.at("bridges");
  if (bridges.size() > most_bridges) { throw refused("too many bridges"); }
  for (const auto& bridge : bridges) { function.bridges.push_back(text_of(bridge)); }
  function.link = link_of(value.at("link"));
  function.link_possible = link_of(value.at("link_possible"));
  return function;
}

}  // namespace

std::string pci_report(const std::vector<vmctl::PciFunction>& functions) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& function : functions) {
    list.push_back({{"address", function.address},
                    {"vendor", function.vendor},
                    {"device", function.device},
                    {"class", function.class_code},
                    {"driver", function.driver},
                    {"numa_node", function.numa_node},
                    {"root_complex", function.root_complex},
                    {"bridges", function.bridges},
                    {"link", to_json(function.link)},
                    {"link_possible", to_json(function.link_possible)}});
  }
  return list.dump();
}

std::vector<vmctl::PciFunction> parse_pci_report(const std::string& text) {
  try {
    const auto list = parse_json(text, "read PCI report", ErrorCode::protocol, report_limits);
    if (!list.is_array() || list.size() > most_functions) { throw refused("it is not a list, or too long"); }
    std::vector<vmctl::PciFunction> functions;
    for (const auto& value : list) { functions.push_back(function_of(value)); }
    return functions;
  } catch (const nlohmann::json::exception& error) { throw refused(excerpt(error.what())); }
}

namespace {

void read_cpu(const std::filesystem::path& root, const std::vector<int>& cores, nlohmann::json& out) {
  // proc(5): user nice system idle iowait irq softirq steal, in ticks
  const double tick_seconds = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  double user = 0, system = 0, idle = 0, iowait = 0, steal = 0;
  std::istringstream lines(read_file(root / "proc/stat").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (name.size() < 4 || !name.starts_with("cpu")) { continue; }
    const auto core = parse_integer(std::string_view(name).substr(3));
    if (!core) { continue; }
    if (!cores.empty() && std::ranges::find(cores, static_cast<int>(*core)) == cores.end()) { continue; }
    double ticks[8] = {};
    for (double& value : ticks) { fields >> value; }
    user += ticks[0] + ticks[1];
    system += ticks[2] + ticks[5] + ticks[6];
    idle += ticks[3];
    iowait += ticks[4];
    steal += ticks[7];
  }
  out["cpu_user_seconds"] = user * tick_seconds;
  out["cpu_system_seconds"] = system * tick_seconds;
  out["cpu_idle_seconds"] = idle * tick_seconds;
  out["cpu_iowait_seconds"] = iowait * tick_seconds;
  out["cpu_steal_seconds"] = steal * tick_seconds;
}

void read_memory(const std::filesystem::path& root, nlohmann::json& out) {
  std::istringstream lines(read_file(root / "proc/meminfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    double kib = 0;
    fields >> name >> kib;
    if (name == "MemTotal:") { out["memory_total_bytes"] = kib * 1024; }
    if (name == "MemAvailable:") { out["memory_available_bytes"] = kib * 1024; }
  }
}

void read_network(const std::filesystem::path& root, nlohmann::json& out) {
  double received = 0, sent = 0;
  std::istringstream lines(read_file(root / "proc/net/dev").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || trim(std::string_view(line).substr(0, colon)) == "lo") { continue; }
    std::istringstream fields(line.substr(colon + 1));
    double values[9] = {};
    for (double& value : values) { fields >> value; }
    received += values[0];
    sent += values[8];
  }
  out["network_rx_bytes"] = received;
  out["network_tx_bytes"] = sent;
}

std::string mitigations() {
  std::vector<std::string> parts;
  for (const auto& flaw : entries_of("/sys/devices/system/cpu/vulnerabilities")) {
    parts.push_back(flaw.filename().string() + "=" + read_value(flaw).value_or("?"));
  }
  return join(parts, "; ");
}

}  // namespace

nlohmann::json read_telemetry(const std::filesystem::path& root, const std::vector<int>& cores) {
  nlohmann::json out = nlohmann::json::object();
  read_cpu(root, cores, out);
  read_memory(root, out);
  read_network(root, out);
  return out;
}

namespace {

/// Address and driver of eth0, asked of the kernel: the /sys of a slice is its host's. Not of a network that
/// is made of software.
void read_nic(nlohmann::json& out) {
  static constexpr std::array<std::string_view, 4> software{"virtio_net", "veth", "bridge", "tun"};
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  ifreq request{};
  std::strncpy(request.ifr_name, "eth0", IFNAMSIZ - 1);
  request.ifr_data = reinterpret_cast<char*>(&driver);
  if (::ioctl(socket.get(), SIOCETHTOOL, &request) != 0) { return; }
  const std::string name(driver.driver, ::strnlen(driver.driver, sizeof driver.driver));
  const bool is_software = std::ranges::find(software, name) != software.end();
  if (name.empty() || is_software || ::ioctl(socket.get(), SIOCGIFHWADDR, &request) != 0) { return; }
  std::string address;
  constexpr std::size_t bytes = 6;
  for (std::size_t i = 0; i < bytes; ++i) {
    const auto byte = static_cast<unsigned char>(request.ifr_hwaddr.sa_data[i]);
    address += fmt::format("{}{:02x}", i == 0 ? "" : ":", byte);
  }
  out["nic_driver"] = name;
  out["nic_mac"] = address;
}

}  // namespace

nlohmann::json read_node_facts() {
  utsname names{};
  ::uname(&names);
  const std::string cpuinfo = read_file("/proc/cpuinfo").value_or("");
  const std::string status = read_file("/proc/self/status").value_or("");
  nlohmann::json memory = nlohmann::json::object();
  read_memory("/", memory);
  nlohmann::json facts{
      {"hostname", names.nodename},
      {"kernel", names.release},
      {"boot_id", read_value("/proc/sys/kernel/random/boot_id").value_or("")},
      {"cpu_model", line_value(cpuinfo, "model name")},
      {"cpu_flags", line_value(cpuinfo, "flags")},
      {"microcode", line_value(cpuinfo, "microcode")},
      {"mitigations", mitigations()},
      {"cpus", line_value(status, "Cpus_allowed_list")},
      {"memory_limit_bytes",
       own_memory_limit().value_or(static_cast<std::uint64_t>(memory.value("memory_total_bytes", 0.0)))},
      {"memory_total_bytes", memory.value("memory_total_bytes", 0.0)}};
  read_nic(facts);
  return facts;
}

}  // namespace virtrain::harness
