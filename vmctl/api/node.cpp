#include "vmctl/api/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "common/text/scanner.h"
#include "common/text/sha256.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::vmctl {
namespace {

/// A UUID that says the same thing twice: the words' SHA-256 in the form of version 8 (RFC 9562).
std::string uuid_of(const std::string& words) {
  auto digits = sha256(words);
  digits[12] = '8';
  digits[16] = '8';
  return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                     digits.substr(16, 4), digits.substr(20, 12));
}

/// Memory of each of `shares` parts of a whole, in whole GiB where that comes out even (for huge pages), else
/// in MiB; the first gets what is left over.
std::vector<std::uint64_t> memory_shares(std::uint64_t bytes, const std::vector<std::size_t>& shares) {
  std::size_t all = 0;
  for (const auto share : shares) { all += share; }
  const std::uint64_t gib = 1ULL << 30;
  const std::uint64_t unit = bytes % (gib * all) == 0 ? gib : 1ULL << 20;
  std::vector<std::uint64_t> parts;
  std::uint64_t given = 0;
  for (const auto share : shares) {
    parts.push_back(bytes / all * share / unit * unit);
    given += parts.back();
  }
  parts[0] += bytes - given;
  return parts;
}

}  // namespace

std::vector<PlacedDevice> devices_of(const NodeSpec& node) {
  auto devices = node.devices;
  if (!node.network_function) { return devices; }
  devices.push_back(*node.network_function);
  devices.back().mac = node.mac;
  devices.back().is_ethernet = true;  // its card need not do RDMA, which is where ports are listed
  return devices;
}

/// A guest with devices has a NUMA cell for each host node of its cores, so that the devices can be on one.
std::vector<NumaCell> numa_cells(const NodeSpec& node) {
  std::vector<NumaCell> cells;
  const bool any_known =
      std::ranges::any_of(devices_of(node), [](const auto& device) { return device.numa_node >= 0; });
  if (!any_known) { return cells; }
  for (std::size_t vcpu = 0; vcpu < node.core_numa_nodes.size(); ++vcpu) {
    const int host_node = node.core_numa_nodes[vcpu];
    auto cell = std::ranges::find_if(cells, [&](const auto& one) { return one.host_node == host_node; });
    if (cell == cells.end()) { cell = cells.insert(cells.end(), NumaCell{host_node, {}, 0}); }
    cell->vcpus.push_back(static_cast<int>(vcpu));
  }
  if (cells.empty()) { return cells; }
  std::vector<std::size_t> shares(cells.size());
  std::transform(cells.begin(), cells.end(), shares.begin(),
                 [](const auto& cell) { return cell.vcpus.size(); });
  const auto memory = memory_shares(node.memory_bytes, shares);
  for (std::size_t i = 0; i < cells.size(); ++i) { cells[i].memory_bytes = memory[i]; }
  return cells;
}

std::int64_t cpu_quota_us(double cores) {
  constexpr std::int64_t least_us = 1000;
  return std::max<std::int64_t>(least_us, std::llround(cores * static_cast<double>(cpu_period_us)));
}

bool is_image(const std::string& text) {
  return text == mirror_image || text.starts_with('/');
}

bool is_cpu_model(const std::string& text) {
  constexpr std::size_t most_bytes = 64;
  const auto is_inner = [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '_' || c == '-';
  };
  return !text.empty() && text.size() <= most_bytes && (is_letter(text[0]) || is_digit(text[0])) &&
         std::ranges::all_of(text, is_inner);
}

bool is_package_name(const std::string& text) {
  const auto is_first = [](char c) { return (c >= 'a' && c <= 'z') || is_digit(c); };
  const auto is_inner = [&](char c) { return is_first(c) || c == '+' || c == '.' || c == '-'; };
  return text.size() >= 2 && text.size() <= 64 && is_first(text[0]) && std::ranges::all_of(text, is_inner);
}

bool is_nccl_topology(const std::string& text) {
  return text == "on" || text == "off" || text.starts_with('/');
}

std::string limits_text(const NodeLimits& limits) {
  std::vector<std::string> words;
  for_each_field<NodeLimits>([&](const auto& field) {
    const auto& limit = limits.*field.member;
    if (!limit) { return; }
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(*limit)>, double>) {
      words.push_back(field.is.unit == ValueUnit::share
                          ? fmt::format("{} {:g} %", field.is.key, *limit * 100)
                          : fmt::format("{} {:g} {}", field.is.key, *limit, *limit == 1 ? "core" : "cores"));
    } else {
      words.push_back(field.is.unit == ValueUnit::bytes_per_second
                          ? fmt::format("{} {}/s", field.is.key, format_size(*limit))
                          : fmt::format("{} {}", field.is.key, *limit));
    }
  });
  return join(words, ", ");
}

std::vector<DeviceGrant> grants_of(const NodeSpec& node, const std::string& experiment) {
  std::vector<DeviceGrant> grants;
  for (const auto& device : devices_of(node)) {
    auto grant = device.grant;
    if (grant.kind == GrantKind::mdev) {
      grant.uuid = uuid_of(fmt::format("{} {} {} {} {}", experiment, node.hostname, grant.address,
                                       grant.vgpu_type, grants.size()));
    }
    grants.push_back(std::move(grant));
  }
  return grants;
}

std::map<int, std::uint64_t> memory_by_host_node(const GuestSpec& guest, const NodeSpec& node) {
  if (guest.pinning != Pinning::numa) { return {}; }
  if (node.numa_node) { return {{*node.numa_node, node.memory_bytes}}; }
  std::map<int, std::uint64_t> memory;
  for (const auto& cell : numa_cells(node)) { memory[cell.host_node] = cell.memory_bytes; }
  return memory;
}

std::chrono::seconds pinning_time(std::uint64_t memory_bytes, const std::vector<PlacedDevice>& devices,
                                  bool hugepages) {
  constexpr std::uint64_t pinned_at_once = 100ULL << 30;
  constexpr std::chrono::seconds each{30};
  if (devices.empty() || hugepages) { return {}; }
  return (memory_bytes / pinned_at_once + 1) * each;
}

GuestBoot guest_boot(const std::vector<NodeSpec>& tenants_nodes, const NodeSpec& node, bool networked) {
  GuestBoot boot{node.hostname, networked ? node.address : "", {}, !node.payload.empty()};
  if (networked && node.network_function) { boot.mac = node.mac; }
  for (const auto& peer : tenants_nodes) {
    boot.hosts.push_back({peer.hostname, split(peer.address, '/')[0]});
  }
  return boot;
}

std::string guest_command_line(const GuestBoot& boot) {
  std::string line = "root=/dev/vda console=ttyS0 panic=-1 quiet vt.host=" + boot.hostname;
  if (!boot.address.empty()) { line += " vt.ip=" + boot.address; }
  if (!boot.mac.empty()) { line += " vt.mac=" + boot.mac; }
  if (boot.mtu) { line += fmt::format(" vt.mtu={}", *boot.mtu); }
  std::vector<std::string> hosts;
  for (const auto& host : boot.hosts) { hosts.push_back(host.name + ":" + host.address); }
  if (!hosts.empty()) { line += " vt.hosts=" + join(hosts, ","); }
  if (boot.has_payload) { line += " vt.payload"; }

  const auto blank_free = [](const std::string& word) {
    return word.find_first_of(" \t\r\n\"',") == std::string::npos;
  };
  bool words_ok = blank_free(boot.hostname) && blank_free(boot.address) && blank_free(boot.mac);
  for (const auto& host : boot.hosts) {
    words_ok = words_ok && blank_free(host.name) && blank_free(host.address);
  }
  constexpr std::size_t kernel_limit = 2047;
  if (!words_ok) {
    throw Error("describe guest " + boot.hostname, ErrorCode::bad_input,
                "names and addresses may not contain blanks, quotes or commas");
  }
  if (line.size() > kernel_limit) {
    throw Error("describe guest " + boot.hostname, ErrorCode::bad_input,
                fmt::format("{} hosts make a kernel command line of {} bytes, a guest's kernel takes {}",
                            boot.hosts.size(), line.size(), kernel_limit));
  }
  return line;
}

}  // namespace virtrain::vmctl
