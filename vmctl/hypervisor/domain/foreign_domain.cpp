#include "vmctl/hypervisor/domain/foreign_domain.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/hypervisor/domain/device_xml.h"
#include "vmctl/hypervisor/domain/nccl_pci.h"

namespace virtrain::vmctl {
namespace {

constexpr std::size_t most_bytes = 1 << 20;
constexpr int most_bus = 255;
constexpr int most_cells = 1024;
constexpr int most_domain = std::numeric_limits<int>::max();  // those behind Intel VMD begin at 0x10000

[[noreturn]] void refuse(const std::string& words) {
  throw Error("read a domain's XML", ErrorCode::bad_input, words);
}

/// "0x1f", "31" or "015" (octal, as libvirt reads it) from 0 to `most`.
int number(pugi::xml_node node, const char* attribute, int most) {
  std::string text = node.attribute(attribute).value();
  const bool is_hex = text.starts_with("0x");
  const int base = is_hex ? 16 : text.size() > 1 && text.front() == '0' ? 8 : 10;
  const char* begin = text.c_str() + (is_hex ? 2 : 0);
  const char* end = text.c_str() + text.size();
  int value = 0;
  const auto [rest, error] = std::from_chars(begin, end, value, base);
  if (error != std::errc() || rest != end || value < 0 || value > most) {
    refuse(fmt::format("{}='{}' of <{}> is not a number from 0 to {}", attribute, excerpt(text), node.name(),
                       most));
  }
  return value;
}

/// Where something is plugged in, in libvirt's words: bus (a controller's index), slot and function.
struct Plug {
  int bus = 0, slot = 0, function = 0;
  auto operator<=>(const Plug&) const = default;
};

std::optional<Plug> plug_of(pugi::xml_node node) {
  for (auto address : node.children("address")) {
    if (std::string(address.attribute("type").value()) != "pci") { continue; }
    return Plug{number(address, "bus", most_bus), number(address, "slot", 31),
                address.attribute("function") ? number(address, "function", 7) : 0};
  }
  return std::nullopt;
}

struct Controller {
  int index = 0;
  bool is_expander = false;
  int bus_number = 0;  ///< that devices below an expander bus are on
  std::optional<int> cell;
  std::optional<Plug> plug;
};

std::vector<Controller> controllers_of(pugi::xml_node devices) {
  std::vector<Controller> found;
  std::set<int> indexes;
  for (auto node : devices.children("controller")) {
    if (std::string(node.attribute("type").value()) != "pci") { continue; }
    Controller controller;
    controller.index = number(node, "index", most_bus);
    const std::string model = node.attribute("model").value();
    if (model.ends_with("-root")) { continue; }
    if (!indexes.insert(controller.index).second) {
      refuse(fmt::format("two PCI controllers have index {}", controller.index));
    }
    controller.is_expander = model.ends_with("expander-bus");
    const auto target = node.child("target");
    if (controller.is_expander) { controller.bus_number = number(target, "busNr", most_bus); }
    // QEMU's pxb is a root bus with one bridge, which libvirt does not show; what is plugged in is below it.
    if (model == "pci-expander-bus") { ++controller.bus_number; }
    if (controller.is_expander && target.child("node")) {
      const auto cell = parse_integer(trim(target.child("node").text().get()));
      if (!cell || *cell < 0 || *cell >= most_cells) {
        refuse("the <node> of an expander bus is not a number");
      }
      controller.cell = static_cast<int>(*cell);
    }
    controller.plug = plug_of(node);
    found.push_back(controller);
  }
  return found;
}

/// Bus numbers by controller index: 0 for the root, an expander's, and for what is below them the next free
/// one, depth first in the order of slots.
class BusNumbers {
 public:
  explicit BusNumbers(const std::vector<Controller>& controllers) {
    for (const auto& controller : controllers) {
      if (!controller.is_expander && controller.plug) { below_[controller.plug->bus].push_back(&controller); }
    }
    number_below(0, 0, std::nullopt);
    for (const auto& controller : controllers) {
      if (controller.is_expander) { number_below(controller.index, controller.bus_number, controller.cell); }
    }
  }

  struct Bus {
    int number = 0;
    std::optional<int> cell;
  };
  const Bus& at(int index) const {
    const auto found = numbers_.find(index);
    if (found == numbers_.end()) { refuse(fmt::format("no PCI controller provides bus {}", index)); }
    return found->second;
  }

 private:
  void number_below(int index, int bus_number, std::optional<int> cell) {
    if (bus_number > most_bus || !numbers_.try_emplace(index, Bus{bus_number, cell}).second) {
      refuse("its PCI controllers are plugged into each other in a circle, or have more than 256 buses");
    }
    next_ = bus_number + 1;
    auto children = below_[index];
    std::ranges::sort(children, [](const auto* a, const auto* b) { return *a->plug < *b->plug; });
    for (const auto* child : children) { number_below(child->index, next_, cell); }
  }

  std::map<int, std::vector<const Controller*>> below_;
  std::map<int, Bus> numbers_;
  int next_ = 0;
};

std::string host_address_of(pugi::xml_node device) {
  const auto address = device.child("source").child("address");
  if (!address.attribute("bus")) { return ""; }  // a mediated device, USB, SCSI
  return fmt::format(
      "{:04x}:{:02x}:{:02x}.{:x}", address.attribute("domain") ? number(address, "domain", most_domain) : 0,
      number(address, "bus", most_bus), number(address, "slot", 31), number(address, "function", 7));
}

std::string guest_address(const BusNumbers::Bus& bus, const Plug& plug) {
  return fmt::format("0000:{:02x}:{:02x}.{:x}", bus.number, plug.slot, plug.function);
}

bool is_pci_of_host(pugi::xml_node node) {
  const std::string name = node.name(), type = node.attribute("type").value();
  return (name == "hostdev" && type == "pci") || (name == "interface" && type == "hostdev");
}

/// A function of a card that is lent with it and that the guest does not get.
bool is_unassigned(pugi::xml_node node) {
  const auto addresses = node.children("address");
  return std::ranges::any_of(addresses, [](const auto& address) {
    return std::string(address.attribute("type").value()) == "unassigned";
  });
}

/// "0000:31:00.0" of QEMU's "vfio-pci,host=31:00.0,bus=…", of a sysfsdev, or of the JSON form; what else
/// stands there as it is; nothing of other arguments.
std::optional<std::string> host_of_argument(const std::string& argument) {
  if (argument.find("vfio-pci") == std::string::npos) { return std::nullopt; }
  for (const auto& part : split(argument, ',')) {
    std::string pair(trim(part));
    for (const char unwanted : {'"', '{', '}', ' ', '\''}) { std::erase(pair, unwanted); }
    for (const std::string_view key : {"host=", "host:", "sysfsdev=", "sysfsdev:"}) {
      if (!pair.starts_with(key)) { continue; }
      auto address = pair.substr(std::max(key.size(), pair.rfind('/') + 1));
      return std::ranges::count(address, ':') == 1 ? "0000:" + address : address;
    }
  }
  return std::nullopt;
}

/// "arg" of "qemu:arg", whatever the prefix of the name space is.
bool has_local_name(pugi::xml_node node, std::string_view name) {
  const std::string_view full = node.name();
  return full.substr(full.rfind(':') + 1) == name;
}

/// Devices that libvirt hands to QEMU unread.
std::vector<std::string> devices_of_commandline(pugi::xml_node domain) {
  std::vector<std::string> words;
  for (auto line : domain.children()) {
    if (!has_local_name(line, "commandline")) { continue; }
    for (auto argument : line.children()) {
      const auto host = has_local_name(argument, "arg")
                            ? host_of_argument(argument.attribute("value").value())
                            : std::nullopt;
      if (!host) { continue; }
      words.push_back(
          excerpt(*host) +
          ": it is assigned by qemu:commandline, where libvirt does not say its address in the guest "
          "(use a <hostdev> of type pci)");
    }
  }
  return words;
}

/// "mediated device af5972fb-… (0000:05:00.0 in the guest)".
std::string mediated_words(pugi::xml_node device, const BusNumbers& numbers) {
  const auto plug = plug_of(device);
  return fmt::format(
      "mediated device {}{}", excerpt(device.child("source").child("address").attribute("uuid").value()),
      plug ? fmt::format(" ({} in the guest)", guest_address(numbers.at(plug->bus), *plug)) : "");
}

/// "0-3,^2,8" of libvirt's node sets.
std::vector<int> node_set(const std::string& text) {
  std::set<int> nodes;
  for (const auto& part : split(text, ',')) {
    const bool without = part.starts_with('^');
    const auto ends = split(without ? part.substr(1) : part, '-');
    const auto first = parse_integer(ends.front()), last = parse_integer(ends.back());
    if (!first || !last || ends.size() > 2 || *first < 0 || *last < *first || *last >= most_cells) {
      refuse("nodeset='" + excerpt(text) + "' is not a list of NUMA nodes");
    }
    for (auto node = *first; node <= *last; ++node) {
      without ? void(nodes.erase(static_cast<int>(node))) : void(nodes.insert(static_cast<int>(node)));
    }
  }
  return {nodes.begin(), nodes.end()};
}

std::vector<std::vector<int>> nodes_of_cells(pugi::xml_node domain) {
  std::vector<std::vector<int>> found;
  for (auto memory : domain.child("numatune").children("memnode")) {
    const auto cell = static_cast<std::size_t>(number(memory, "cellid", most_cells - 1));
    found.resize(std::max(found.size(), cell + 1));
    found[cell] = node_set(memory.attribute("nodeset").value());
  }
  return found;
}

const HostDevice* find_device(const std::vector<HostDevice>& devices, const std::string& address) {
  for (const auto& device : devices) {
    const auto& parts = device.function.virtual_functions;
    if (device.function.address == address || std::ranges::find(parts, address) != parts.end()) {
      return &device;
    }
  }
  return nullptr;
}

int cell_of(const ForeignDomain& domain, const ForeignDevice& device, int host_node) {
  if (device.cell) { return *device.cell; }
  for (std::size_t cell = 0; cell < domain.host_nodes_of_cells.size(); ++cell) {
    const auto& nodes = domain.host_nodes_of_cells[cell];
    if (std::ranges::find(nodes, host_node) != nodes.end()) { return static_cast<int>(cell); }
  }
  return 0;
}

struct Member {
  const ForeignDevice* device;
  const HostDevice* host;
};

/// Draws the members below `parent`, with a switch for each bridge at `depth` and below that several share.
class SwitchDrawer {
 public:
  void draw(pugi::xml_node parent, const std::vector<Member>& members, std::size_t depth) {
    std::map<std::string, std::vector<Member>> groups;
    for (const auto& member : members) {
      const auto& bridges = member.host->function.bridges;
      groups[depth < bridges.size() ? bridges[depth] : ""].push_back(member);
    }
    for (const auto& [bridge, group] : groups) {
      if (bridge.empty()) {
        for (const auto& member : group) { add_leaf(parent, member); }
      } else if (group.size() == 1) {
        add_leaf(parent, group.front());
      } else {
        draw_switch(parent, group, depth + 1);
      }
    }
  }

 private:
  static void add_leaf(pugi::xml_node parent, const Member& member) {
    add_nccl_pci(parent, member.device->guest_address, nccl_class(member.host->device_class),
                 member.host->function.link_possible);
  }

  /// Functions that share a root port share the switch below it; ports that all go through are one switch.
  void draw_switch(pugi::xml_node parent, const std::vector<Member>& group, std::size_t depth) {
    const auto bridge_at = [](const Member& member, std::size_t level) {
      const auto& bridges = member.host->function.bridges;
      return level < bridges.size() ? bridges[level] : std::string();
    };
    const auto shared = [&](std::size_t level) {
      const auto first = bridge_at(group.front(), level);
      return !first.empty() && std::ranges::all_of(group, [&](const auto& member) {
        return bridge_at(member, level) == first;
      });
    };
    while (shared(depth)) { ++depth; }
    const int number = next_switch_++;
    auto node = add_nccl_pci(parent, fmt::format("ffff:ff:{:02x}.{:x}", number / 8, number % 8),
                             nccl_bridge_class, group.front().host->function.link_possible);
    draw(node, group, depth);
  }

  int next_switch_ = 8;  // ffff:ff:01.0
};

}  // namespace

ForeignDomain read_foreign_domain(const std::string& xml) {
  if (xml.size() > most_bytes) { refuse("it has more than 1 MiB"); }
  pugi::xml_document document;
  if (const auto parsed = document.load_buffer(xml.data(), xml.size()); !parsed) {
    refuse(fmt::format("it is not XML: {} at byte {}", parsed.description(), parsed.offset));
  }
  const auto domain = document.child("domain");
  if (!domain) { refuse("it has no <domain> (allowed: what `virsh dumpxml` prints)"); }
  if (domain.next_sibling("domain")) { refuse("it has more than one <domain>; give each a file of its own"); }
  ForeignDomain found;
  found.name = domain.child("name").text().get();
  found.host_nodes_of_cells = nodes_of_cells(domain);
  found.left_out = devices_of_commandline(domain);
  const auto devices = domain.child("devices");
  const BusNumbers numbers(controllers_of(devices));
  for (auto node : devices.children()) {
    if (node.name() == std::string("hostdev") && node.attribute("type").value() == std::string("mdev")) {
      found.mediated.push_back(mediated_words(node, numbers));
    }
    if (!is_pci_of_host(node)) { continue; }
    const auto host_address = host_address_of(node);
    if (host_address.empty()) { continue; }
    const auto plug = plug_of(node);
    if (is_unassigned(node)) {
      found.left_out.push_back(host_address +
                               ": its address is of type unassigned, so the guest does not see it");
      continue;
    }
    if (!plug) {
      refuse("device " + host_address +
             " has no address in the guest yet; define the domain and take what `virsh dumpxml` prints");
    }
    const auto& bus = numbers.at(plug->bus);
    const ForeignDevice device{host_address, guest_address(bus, *plug), bus.cell};
    for (const auto& other : found.devices) {
      if (other.host_address == device.host_address) {
        refuse("device " + host_address + " is assigned twice");
      }
      if (other.guest_address != device.guest_address) { continue; }
      refuse(
          fmt::format("devices {} and {} have one address in the guest", other.host_address, host_address));
    }
    found.devices.push_back(device);
  }
  return found;
}

std::vector<std::string> left_out_of_topology(const ForeignDomain& domain,
                                              const std::vector<HostDevice>& devices,
                                              const std::vector<HostDevice>& others) {
  std::vector<std::string> words;
  for (const auto& device : domain.devices) {
    if (find_device(devices, device.host_address) || find_device(others, device.host_address)) { continue; }
    words.push_back(fmt::format("{} ({} in the guest): this host has no such device", device.host_address,
                                device.guest_address));
  }
  words.insert(words.end(), domain.left_out.begin(), domain.left_out.end());
  for (const auto& one : domain.mediated) {
    words.push_back(one + ": the domain's XML does not say which GPU it is a part of");
  }
  return words;
}

std::string nccl_topology_of(const ForeignDomain& domain, const std::vector<HostDevice>& devices) {
  std::map<int, std::map<std::string, std::vector<Member>>> cells;  // by cell, then root complex
  bool has_gpu = false;
  for (const auto& device : domain.devices) {
    const auto* host = find_device(devices, device.host_address);
    if (host == nullptr || nccl_class(host->device_class) == nullptr) { continue; }
    has_gpu = has_gpu || host->device_class == DeviceClass::gpu;
    cells[cell_of(domain, device, host->function.numa_node)][host->function.root_complex].push_back(
        {&device, host});
  }
  if (!has_gpu) {
    throw Error("make NCCL's topology", ErrorCode::not_found,
                fmt::format("none of the {} PCI devices of this domain is a GPU of this host",
                            domain.devices.size()));
  }
  pugi::xml_document document;
  auto system = with(add(document, "system"), "version", "1");
  SwitchDrawer drawer;
  for (const auto& [cell, complexes] : cells) {
    auto cpu = with(add(system, "cpu"), "numaid", std::to_string(cell));
    for (const auto& [complex, members] : complexes) { drawer.draw(cpu, members, 0); }
  }
  return xml_text(document);
}

}  // namespace virtrain::vmctl
