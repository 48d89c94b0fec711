#include "vmctl/host/judge.h"

#include <arpa/inet.h>
#include <boost/describe/members.hpp>
#include <boost/mp11/algorithm.hpp>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/api/protocol/wire.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_path_bytes = 4096, most_name_bytes = 128, most_canaries = 64;
constexpr std::size_t most_programs = 16, most_texts = 64, most_text_bytes = std::size_t{1} << 20;
constexpr std::size_t most_peers = 255;
constexpr std::size_t most_nodes = 4096, most_devices_of_a_node = 256, most_functions = 4096;
constexpr std::string_view our_programs = "virtrain-", core_name = "core:", device_name = "device:";

/// `wanted` completes "it must be ".
[[noreturn]] void refuse_field(const std::string& field, const std::string& said, const std::string& wanted) {
  throw Error("answer the coordinator", ErrorCode::protocol,
              fmt::format("'{}' is '{}': it must be {}", field, excerpt(said, 100), wanted));
}

void require_most(const std::string& field, std::size_t count, std::size_t most) {
  if (count > most) { refuse_field(field, counted(count, "item"), fmt::format("{} at most", most)); }
}

bool is_plain_text(const std::string& text, std::size_t most_bytes) {
  return text.size() <= most_bytes && printable(text) == text &&
         text.find_first_of("\t\n") == std::string::npos;
}

void require_plain(const std::string& field, const std::string& said, std::size_t most_bytes) {
  if (!is_plain_text(said, most_bytes)) {
    refuse_field(field, said, fmt::format("one line of at most {} bytes", most_bytes));
  }
}

// --- described records

/// Holds a value against its row.
template <typename Value>
void require_fit(const std::string& field, const Value& said, const Property& is) {
  const auto refuse_range = [&] {
    refuse_field(field, value_text(said),
                 is.unit == ValueUnit::cores ? "CPU time in cores"
                 : is.most == INT64_MAX      ? fmt::format("at least {}", is.least)
                                             : fmt::format("from {} to {}", is.least, is.most));
  };
  if constexpr (is_optional<Value>) {
    if (said) { require_fit(field, *said, is); }
  } else if constexpr (DescribedRecord<Value>) {
    for_each_field<Value>(
        [&](const auto& row) { require_fit(field + "." + row.name, said.*row.member, row.is); });
  } else if constexpr (std::is_same_v<Value, std::string>) {
    require_plain(field, said, most_path_bytes);
    if (is.fits != nullptr && !is.fits(said)) { refuse_field(field, said, "as its key in a scenario"); }
  } else if constexpr (std::is_same_v<Value, std::vector<std::string>>) {
    require_most(field, said.size(), most_texts);
    for (const auto& one : said) { require_fit(field, one, is); }
  } else if constexpr (std::is_floating_point_v<Value>) {
    constexpr double most_cores = 4096;
    const bool is_cores = is.unit == ValueUnit::cores;  // which a scenario holds against the vCPUs
    const double least = is_cores ? 0.001 : static_cast<double>(is.least);
    const double most = is_cores ? most_cores : static_cast<double>(is.most);
    if (!std::isfinite(said) || said < least || said > most) { refuse_range(); }
  } else if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
    if (std::cmp_less(said, is.least) || std::cmp_greater(said, is.most)) { refuse_range(); }
  }
}

// --- devices

/// The physical function that has, or can make, the virtual function of that address.
const HostDevice* physical_of(const Inventory& host, const std::string& address) {
  for (const auto* list : {&host.devices, &host.other_devices}) {
    for (const auto& device : *list) {
      for (int i = 0; i < device.function.virtual_functions_possible; ++i) {
        if (virtual_function_address(device.function, i) == address) { return &device; }
      }
    }
  }
  return nullptr;
}

const HostDevice& require_device(const std::string& field, const Inventory& host,
                                 const std::string& address) {
  const auto* device = find_device(host, address);
  if (device == nullptr) { device = physical_of(host, address); }
  if (device == nullptr) {
    refuse_field(field, address, "the address of a device of this host (virtrain doctor --devices)");
  }
  return *device;
}

void require_vgpu_type(const std::string& field, const DeviceGrant& grant, const HostDevice& device) {
  const bool is_offered =
      std::ranges::any_of(device.vgpu_types, [&](const auto& type) { return type.id == grant.vgpu_type; });
  if (is_made_for_each_vm(grant) ? !is_offered : !grant.vgpu_type.empty()) {
    refuse_field(field + ".vgpu_type", grant.vgpu_type,
                 is_made_for_each_vm(grant) ? "a type that the device offers" : "empty for this kind");
  }
}

/// "0a1b2c3d-…", of version 8.
bool is_vgpu_uuid(const std::string& text) {
  constexpr std::string_view shape = "xxxxxxxx-xxxx-8xxx-8xxx-xxxxxxxxxxxx";
  return text.size() == shape.size() &&
         std::equal(text.begin(), text.end(), shape.begin(), [](char c, char in_shape) {
           return in_shape == 'x' ? is_digit(c) || (c >= 'a' && c <= 'f') : c == in_shape;
         });
}

/// The device of the grant, or the physical function that is to make it.
const HostDevice& require_grant(const std::string& field, const Inventory& host, const DeviceGrant& grant) {
  const auto& device = require_device(field + ".address", host, grant.address);
  const bool is_there = device.function.address == grant.address;
  const auto& physical = is_there ? device.function.physical_function : device.function.address;
  if (grant.physical_function != physical) {
    refuse_field(field + ".physical_function", grant.physical_function,
                 physical.empty() ? "empty for this device" : physical + " for this device");
  }
  const bool is_whole = grant.kind == GrantKind::passthrough;
  if ((is_whole && !physical.empty()) || (grant.kind == GrantKind::virtual_function && physical.empty()) ||
      (is_made_for_each_vm(grant) && !is_there)) {
    refuse_field(field + ".kind", to_string(grant.kind),
                 physical.empty() ? "passthrough or mdev for this device"
                                  : "virtual_function, mdev or vendor_vfio for this device");
  }
  require_vgpu_type(field, grant, device);
  if (!grant.uuid.empty() && (grant.kind != GrantKind::mdev || !is_vgpu_uuid(grant.uuid))) {
    refuse_field(field + ".uuid", grant.uuid, "empty, or of a mediated device of this run");
  }
  return device;
}

using Acquired = std::set<std::string>;

void require_acquired(const std::string& field, const Acquired& acquired, const DeviceGrant& grant) {
  for (const auto& address : {grant.address, is_made_for_each_vm(grant) ? card_of(grant) : grant.address}) {
    if (!acquired.contains(std::string(device_name) + address)) {
      refuse_field(field, address, "a device that the run has acquired");
    }
  }
}

/// Whether VMs can have the device as the grant says it, with all that goes with it.
void require_lendable(const std::string& field, const Inventory& host, const Acquired& acquired,
                      const DeviceGrant& grant, const HostDevice& device) {
  if (device.function.address != grant.address) { return; }  // a virtual function that is yet to be made
  const auto mechanism = device.mechanism;
  const bool fits = grant.kind == GrantKind::mdev ? mechanism == Mechanism::mdev
                    : grant.kind == GrantKind::vendor_vfio
                        ? mechanism == Mechanism::vendor_vfio
                        : mechanism == Mechanism::passthrough || mechanism == Mechanism::undecided;
  if (!fits) {
    refuse_field(field + ".kind", to_string(grant.kind),
                 "a kind in which this host can assign the device" +
                     (device.mechanism_reason.empty() ? "" : " (" + device.mechanism_reason + ")"));
  }
  if (is_made_for_each_vm(grant)) { return; }
  for (const auto& member : device.function.iommu_group_members) {
    if (slot_of(member) != slot_of(grant.address) && find_device(host, member) != nullptr &&
        !acquired.contains(std::string(device_name) + member)) {
      refuse_field(field + ".address", grant.address,
                   "acquired with the rest of its IOMMU group, " + member + " among it");
    }
  }
}

/// A plan says of a device what this host itself has read of it.
void require_as_read(const std::string& field, const PlacedDevice& said, const HostDevice& device) {
  auto read = placed(said.grant, device);
  read.vfio = said.vfio;
  read.mac = said.mac;
  for (const auto& type : device.vgpu_types) {
    if (type.id == said.grant.vgpu_type) { read.vgpu_name = type.name; }
  }
  wire::for_each_member<PlacedDevice>([&](const char* name, auto member) {
    const auto is = wire::write(said.*member), wanted = wire::write(read.*member);
    if (is != wanted) {
      refuse_field(fmt::format("{}.{}", field, name), is.dump(-1, ' ', true),
                   "as this host has it: " + excerpt(wanted.dump(-1, ' ', true)));
    }
  });
}

// --- nodes

bool is_mac(const std::string& text) {
  Scanner mac(text);
  const auto byte = [&] {
    return mac.take(":") &&
           mac.take_while([](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }, 2, 2).size() == 2;
  };
  return mac.take("52:54") && byte() && byte() && byte() && byte() && mac.at_end();
}

/// "10.77.3.4/16" in a network of this host alone, "10.91.4.7/22" in one that goes to others.
bool is_tenants_address(const std::string& text) {
  Scanner address(text);
  address.take("10.");
  const auto second = parse_integer(address.take_while(is_digit)).value_or(-1);
  address.take(".");
  const auto third = parse_integer(address.take_while(is_digit)).value_or(-1);
  address.take(".");
  const auto fourth = parse_integer(address.take_while(is_digit)).value_or(-1);
  if (third < 0 || third > 255 || fourth < 0 || fourth > 255) { return false; }
  if (second == 77 && fourth >= 1 && fourth <= 254 && text == fmt::format("10.77.{}.{}/16", third, fourth)) {
    return true;
  }
  const auto of_network = third % 4 * 256 + fourth;
  return second >= 64 && second <= 127 && of_network >= 1 && of_network <= 1022 &&
         text == fmt::format("10.{}.{}.{}/22", second, third, fourth);
}

/// "192.0.2.7", "2001:db8::7": of one machine, in the form that all have of it.
bool is_hosts_address(const std::string& text) {
  char again[INET6_ADDRSTRLEN] = "";
  if (in_addr v4{}; ::inet_pton(AF_INET, text.c_str(), &v4) == 1) {
    const auto first = ntohl(v4.s_addr) >> 24;
    return first != 0 && first != 127 && first < 224 &&
           text == ::inet_ntop(AF_INET, &v4, again, sizeof again);
  }
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) != 1) { return false; }
  const bool is_one = !IN6_IS_ADDR_MULTICAST(&v6) && !IN6_IS_ADDR_LOOPBACK(&v6) &&
                      !IN6_IS_ADDR_UNSPECIFIED(&v6) && !IN6_IS_ADDR_LINKLOCAL(&v6) &&
                      !IN6_IS_ADDR_V4MAPPED(&v6);
  return is_one && text == ::inet_ntop(AF_INET6, &v6, again, sizeof again);
}

void require_new(const std::string& field, std::set<std::string>& taken, const std::string& said) {
  if (!taken.insert(said).second) { refuse_field(field, said, "that of one node only"); }
}

std::string field_of_node(std::size_t tenant, std::size_t node) {
  return fmt::format("tenants[{}][{}]", tenant, node);
}

bool is_sha256(const std::string& text) {
  constexpr std::size_t digits = 64;
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); });
}

void require_node_form(const std::string& field, const NodeGroupSpec& group, const NodeSpec& node,
                       const std::string& hostname, std::set<std::string>& macs) {
  const bool is_vm = group.kind == NodeKind::vm;
  if (node.hostname != hostname) { refuse_field(field + ".hostname", node.hostname, hostname); }
  if (!is_tenants_address(node.address)) {
    refuse_field(field + ".address", node.address,
                 "one of 10.77.0.0/16, with /16, or of 10.64.0.0/10, with /22");
  }
  if (is_vm || !node.mac.empty()) {
    if (!is_mac(node.mac)) { refuse_field(field + ".mac", node.mac, "an address such as 52:54:00:00:00:01"); }
    require_new(field + ".mac", macs, node.mac);
  }
  const auto vcpus = static_cast<std::size_t>(group.guest.vcpus);
  if (node.cores.size() != vcpus) {
    refuse_field(field + ".cores", format_cpu_list(node.cores), counted(vcpus, "core"));
  }
  if (!node.core_numa_nodes.empty() && node.core_numa_nodes.size() != vcpus) {
    refuse_field(field + ".core_numa_nodes", counted(node.core_numa_nodes.size(), "node"),
                 "one for each core");
  }
  require_most(field + ".emulator_cores", node.emulator_cores.size(), most_nodes);
  require_most(field + ".devices", node.devices.size(), most_devices_of_a_node);
  require_fit(field + ".memory_bytes", node.memory_bytes, property_of(&GuestSpec::memory_bytes));
  require_fit(field + ".limits", node.limits, {.text = ""});
  if (node.scratch_bytes > most_scratch_bytes) {
    refuse_field(field + ".scratch_bytes", fmt::format("{}", node.scratch_bytes),
                 fmt::format("{} at most", most_scratch_bytes));
  }
  if (!node.payload.empty() && !is_sha256(node.payload)) {
    refuse_field(field + ".payload", node.payload, "empty, or a SHA-256 of 64 hexadecimal digits");
  }
  if (!node.host.empty()) { judge_name((field + ".host").c_str(), node.host); }
  const auto channel = planted_channel_of(node);
  if (!node.planted_channel.empty() && node.planted_channel != channel) {
    refuse_field(field + ".planted_channel", node.planted_channel, "empty or " + channel);
  }
}

/// The NUMA node of each core of this host.
std::map<int, int> numa_nodes_by_core(const Inventory& host) {
  std::map<int, int> nodes;
  for (const auto& core : host.cores) { nodes.emplace(core.id, core.numa_node); }
  return nodes;
}

void require_node_cores(const std::string& field, const std::map<int, int>& cores, const Acquired& acquired,
                        const NodeSpec& node) {
  for (std::size_t i = 0; i < node.cores.size(); ++i) {
    const auto name = fmt::format("{}{}", core_name, node.cores[i]);
    const auto core = cores.find(node.cores[i]);
    if (core == cores.end() || !acquired.contains(name)) {
      refuse_field(fmt::format("{}.cores[{}]", field, i), fmt::format("{}", node.cores[i]),
                   "a core that the run has acquired");
    }
    if (i < node.core_numa_nodes.size() && node.core_numa_nodes[i] != core->second) {
      refuse_field(fmt::format("{}.core_numa_nodes[{}]", field, i),
                   fmt::format("{}", node.core_numa_nodes[i]), fmt::format("{} here", core->second));
    }
    if (node.numa_node && *node.numa_node != core->second) {
      refuse_field(field + ".numa_node", fmt::format("{}", *node.numa_node), "that of all its cores");
    }
  }
  for (const int core : node.emulator_cores) {
    if (!cores.contains(core)) {
      refuse_field(field + ".emulator_cores", fmt::format("{}", core), "cores of this host");
    }
  }
}

/// A VM's; slices see the host's own.
void require_node_devices(const std::string& node, const Inventory& host, const Acquired& acquired,
                          const std::vector<PlacedDevice>& devices, std::set<std::string>& taken,
                          std::set<std::string>& macs) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto& device = devices[i];
    const auto field = fmt::format("{}.devices[{}]", node, i);
    const auto& found = require_grant(field + ".grant", host, device.grant);
    require_acquired(field + ".grant.address", acquired, device.grant);
    require_lendable(field + ".grant", host, acquired, device.grant, found);
    require_as_read(field, device, found);
    if (device.grant.kind != GrantKind::mdev) {
      require_new(field + ".grant.address", taken, device.grant.address);
    }
    if (device.mac.empty()) { continue; }
    if (!is_mac(device.mac)) { refuse_field(field + ".mac", device.mac, "such as 52:54:01:00:00:01"); }
    require_new(field + ".mac", macs, device.mac);
  }
}

/// The virtual function that is a node's network, of the NIC that the run's host gives for it.
void require_network_function(const std::string& node, const Inventory& host, const Acquired& acquired,
                              const NodeGroupSpec& group, const RunSpec& run, const NodeSpec& said,
                              std::set<std::string>& taken) {
  const auto field = node + ".network_function";
  if (run.network.kind != HostNetworkKind::vf) {
    if (said.network_function) { refuse_field(field, said.network_function->grant.address, "absent"); }
    return;
  }
  if (!said.network_function) {
    // The shared arm has the host's own NIC.
    if (group.kind == NodeKind::shared_slice) { return; }
    refuse_field(field, "", "a virtual function of " + run.network.name);
  }
  const auto& function = *said.network_function;
  const auto& grant = function.grant;
  const auto& device = require_grant(field + ".grant", host, grant);
  const auto* physical = find_device(host, grant.physical_function);
  const bool is_of_nic =
      physical != nullptr && grant.kind == GrantKind::virtual_function &&
      device.function.address == grant.address &&
      std::ranges::find(physical->interfaces, run.network.name) != physical->interfaces.end();
  if (!is_of_nic) { refuse_field(field, grant.address, "a virtual function of " + run.network.name); }
  require_acquired(field + ".grant.address", acquired, grant);
  if (group.kind == NodeKind::vm) { require_lendable(field + ".grant", host, acquired, grant, device); }
  require_as_read(field, function, device);
  require_new(field + ".grant.address", taken, grant.address);
  if (!function.mac.empty()) { refuse_field(field + ".mac", function.mac, "empty: the node says it"); }
  if (!is_mac(said.mac)) { refuse_field(node + ".mac", said.mac, "an address such as 52:54:00:00:00:01"); }
}

}  // namespace

void judge_path(const std::string& field, const std::string& path) {
  require_plain(field, path, most_path_bytes);
  const fs::path given(path);
  const bool is_normal =
      std::ranges::none_of(split(path, '/'), [](const auto& part) { return part == "." || part == ".."; });
  if (!given.is_absolute() || !is_normal) {
    refuse_field(field, path, "an absolute path without '.' and '..'");
  }
}

void judge_name(const char* field, const std::string& name) {
  require_plain(field, name, most_name_bytes);
  if (name.empty() || name.find('/') != std::string::npos) { refuse_field(field, name, "a name"); }
}

void judge_program(const std::string& name) {
  const auto is_of_name = [](char c) { return is_lower(c) || is_digit(c) || c == '-'; };
  if (!name.starts_with(our_programs) || name.size() > most_name_bytes ||
      !std::ranges::all_of(name, is_of_name)) {
    refuse_field("program", name, "the name of a program of virtrain's");
  }
}

void judge_programs(const std::vector<std::string>& programs, bool is_for_another) {
  require_most("programs", programs.size(), most_programs);
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const auto field = fmt::format("programs[{}]", i);
    if (!is_for_another && programs[i].starts_with('/')) {
      judge_path(field, programs[i]);
    } else {
      judge_program(programs[i]);
    }
  }
}

void judge_run(const RunSpec& run, bool is_for_another) {
  if (!is_experiment_id(run.experiment)) {
    refuse_field("experiment", run.experiment, "the id of an experiment");
  }
  require_plain("results_db", run.results_db, most_path_bytes);
  judge_programs(run.programs, is_for_another);
  if (!run.host.empty()) { judge_name("host", run.host); }
  judge_network("network", run.network);
  require_most("peers", run.peers.size(), most_peers);
  if (!run.peers.empty() && run.network.kind != HostNetworkKind::vxlan) {
    refuse_field("peers", run.peers.front(), "empty without a VXLAN");
  }
  std::set<std::string> peers;
  for (std::size_t i = 0; i < run.peers.size(); ++i) {
    const auto field = fmt::format("peers[{}]", i);
    if (!is_hosts_address(run.peers[i])) {
      refuse_field(field, run.peers[i], "the IP address of a host, as ip prints it");
    }
    require_new(field, peers, run.peers[i]);
  }
}

void judge_network(const std::string& field, const HostNetwork& network) {
  const auto& name = network.name;
  if (network.kind == HostNetworkKind::none) {
    if (!name.empty()) { refuse_field(field + ".name", name, "empty for this kind"); }
    return;
  }
  if (!is_device_name(name)) { refuse_field(field + ".name", name, "the name of a network device"); }
  // Else a node of one tenant could be plugged into another's network.
  if (generated_tag(name)) { refuse_field(field + ".name", name, "a device that is not virtrain's"); }
}

void judge_resources(const Inventory& host, const std::vector<std::string>& resources) {
  const auto cores = numa_nodes_by_core(host);
  std::set<std::string> taken;
  for (std::size_t i = 0; i < resources.size(); ++i) {
    const auto field = fmt::format("resources[{}]", i);
    const std::string_view said = resources[i];
    require_new(field, taken, resources[i]);
    if (said.starts_with(device_name)) {
      require_device(field, host, std::string(said.substr(device_name.size())));
      continue;
    }
    const auto number = said.starts_with(core_name) ? parse_integer(said.substr(core_name.size()))
                                                    : std::optional<std::int64_t>();
    const bool is_core = number && std::in_range<int>(*number) && cores.contains(static_cast<int>(*number));
    if (!is_core || said != fmt::format("{}{}", core_name, *number)) {
      refuse_field(field, resources[i], "'core:' or 'device:' with a core or device of this host");
    }
  }
}

void judge_image(const ImageSpec& image) {
  require_fit("image", image.image, property_of(&GuestSpec::image));
  require_fit("packages", image.packages, property_of(&GuestSpec::packages));
  require_most("texts", image.texts.size(), most_texts);
  std::size_t bytes = 0;
  for (const auto& [path, text] : image.texts) {
    judge_path("texts", path);
    bytes += text.size();
  }
  require_most("texts", bytes, most_text_bytes);
}

void judge_guest(const GuestSpec& guest) {
  require_fit("guest", guest, {.text = ""});
  judge_limits(guest.limits);
}

void judge_limits(const NodeLimits& limits) {
  require_fit("limits", limits, {.text = ""});
}

void judge_settings(const DeviceSettings& settings) {
  require_fit("settings", settings, {.text = ""});
}

void judge_grants(const Inventory& host, const std::vector<std::string>& acquired,
                  const std::vector<DeviceGrant>& grants) {
  const Acquired ours(acquired.begin(), acquired.end());
  for (std::size_t i = 0; i < grants.size(); ++i) {
    const auto field = fmt::format("grants[{}]", i);
    require_grant(field, host, grants[i]);
    require_acquired(field + ".address", ours, grants[i]);
  }
}

void judge_lending(const Inventory& host, const std::vector<std::string>& acquired,
                   const std::vector<DeviceGrant>& grants) {
  judge_grants(host, acquired, grants);
  const Acquired ours(acquired.begin(), acquired.end());
  for (std::size_t i = 0; i < grants.size(); ++i) {
    const auto field = fmt::format("grants[{}]", i);
    if (grants[i].kind == GrantKind::mdev && grants[i].uuid.empty()) {
      refuse_field(field + ".uuid", "", "that of a mediated device");
    }
    require_lendable(field, host, ours, grants[i], require_grant(field, host, grants[i]));
  }
}

void judge_addresses(const Inventory& host, const std::vector<std::string>& addresses) {
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    require_device(fmt::format("addresses[{}]", i), host, addresses[i]);
  }
}

void judge_demands(const Inventory& host, const std::vector<DeviceDemand>& demands) {
  for (std::size_t d = 0; d < demands.size(); ++d) {
    for (const auto& device : demands[d].devices()) {
      const auto field = fmt::format("demands[{}]", d);
      require_as_read(field, device, require_grant(field + ".grant", host, device.grant));
    }
  }
}

void judge_group(const NodeGroupSpec& group) {
  judge_guest(group.guest);
  judge_network("network", group.network);
  require_most("tenants", group.tenants.size(), most_nodes);
  if (group.tenants.empty()) { refuse_field("tenants", "", "one at least"); }
  std::size_t nodes = 0;
  std::set<std::string> macs;
  for (std::size_t t = 0; t < group.tenants.size(); ++t) {
    const auto& tenant = group.tenants[t];
    nodes += tenant.size();
    require_most("tenants", nodes, most_nodes);
    std::set<std::string> addresses;  // each tenant's network is its own
    for (std::size_t n = 0; n < tenant.size(); ++n) {
      const auto field = field_of_node(t, n);
      require_node_form(field, group, tenant[n], fmt::format("t{}n{}", t + 1, n + 1), macs);
      require_new(field + ".address", addresses, tenant[n].address);
    }
  }
}

void judge_nodes(const Inventory& host, const std::vector<std::string>& acquired, const NodeGroupSpec& group,
                 const RunSpec& run) {
  judge_group(group);
  const bool share_an_ethernet = shares_ethernet(run.network.kind);
  std::set<std::string> addresses;
  const Acquired ours(acquired.begin(), acquired.end());
  const auto cores = numa_nodes_by_core(host);
  std::uint64_t memory = 0;  // each is bounded, and so is their number: the sum fits
  std::set<std::string> devices, macs;
  for (std::size_t t = 0; t < group.tenants.size(); ++t) {
    if (group.tenants[t].empty()) { refuse_field(fmt::format("tenants[{}]", t), "", "one node at least"); }
    for (std::size_t n = 0; n < group.tenants[t].size(); ++n) {
      const auto& node = group.tenants[t][n];
      const auto field = field_of_node(t, n);
      if (share_an_ethernet) { require_new(field + ".address", addresses, node.address); }
      if (node.host != run.host) { continue; }
      require_node_cores(field, cores, ours, node);
      memory += node.memory_bytes;
      if (memory > host.memory_bytes) {
        refuse_field(
            field + ".memory_bytes", fmt::format("{}", node.memory_bytes),
            fmt::format("with all others at most the {} of this host", format_size(host.memory_bytes)));
      }
      if (group.kind == NodeKind::vm) {
        require_node_devices(field, host, ours, node.devices, devices, macs);
      }
      require_network_function(field, host, ours, group, run, node, devices);
    }
  }
}

void judge_functions(const std::vector<PciFunction>& functions) {
  require_most("guest", functions.size(), most_functions);
}

void judge_canaries(const std::vector<Canary>& canaries) {
  require_most("canaries", canaries.size(), most_canaries);
  for (const auto& canary : canaries) {
    require_plain("canary.name", canary.name, most_name_bytes);
    if (!is_canary_text(canary.text)) { refuse_field("canary.text", canary.text, "a canary's"); }
  }
}

void judge_libvirt(const std::string& uri) {
  const auto& known = libvirt_connections;
  if (!uri.empty() && std::find(std::begin(known), std::end(known), uri) == std::end(known)) {
    refuse_field("libvirt", uri,
                 "empty, " + join(std::vector<std::string>(std::begin(known), std::end(known)), ", "));
  }
}

}  // namespace virtrain::vmctl
