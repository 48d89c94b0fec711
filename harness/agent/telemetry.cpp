#include "harness/agent/telemetry.h"

#include <fmt/format.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <string_view>

#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/cgroups.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
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
