#include "vmctl/hypervisor/domain/topology_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>

#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/hypervisor/domain/device_xml.h"
#include "vmctl/hypervisor/domain/domain_xml.h"
#include "vmctl/hypervisor/domain/guest_layout.h"
#include "vmctl/hypervisor/domain/nccl_pci.h"

namespace virtrain::vmctl {
namespace {

bool concerns_nccl(const PlacedDevice& device) {
  return nccl_class(device.device_class) != nullptr;
}

/// Makes a file for NCCL_TOPO_FILE in this guest: under each of the guest's NUMA nodes the GPUs and adapters
/// at their addresses in the guest, below the switches they share on the host, with the links they have
/// there, which the emulated ports do not tell. NCCL asks the guest for the rest (affinity, model of the CPU,
/// NVLinks). Empty without GPUs.
std::string nccl_topology(const DomainSpec& spec) {
  const auto& devices = spec.devices;
  if (std::ranges::none_of(devices,
                           [](const auto& device) { return device.device_class == DeviceClass::gpu; })) {
    return "";
  }
  const auto layout = guest_layout(devices, host_nodes(spec));
  pugi::xml_document document;
  auto system = with(add(document, "system"), "version", "1");
  std::map<int, pugi::xml_node> cells;
  std::map<int, pugi::xml_node> switches;  // by index of the upstream port
  for (std::size_t i = 0; i < devices.size(); ++i) {
    if (!concerns_nccl(devices[i])) { continue; }
    const auto& path = layout.slots[i].controllers;
    const int cell = layout.controller(path.front()).numa_cell.value_or(0);
    auto& cpu = cells[cell];
    if (!cpu) { cpu = with(add(system, "cpu"), "numaid", std::to_string(cell)); }
    auto parent = cpu;
    for (const int index : path) {
      const auto& controller = layout.controller(index);
      if (controller.model != "pcie-switch-upstream-port") { continue; }
      auto& above = switches[index];
      if (!above) {
        above = add_nccl_pci(parent, controller.guest_address, nccl_bridge_class, devices[i].link);
      }
      parent = above;
    }
    add_nccl_pci(parent, layout.slots[i].guest_address, nccl_class(devices[i].device_class), devices[i].link);
  }
  return xml_text(document);
}

using Functions = std::vector<PciFunction>;

std::string fragment(const std::function<void(pugi::xml_node)>& fill) {
  pugi::xml_document document;
  fill(document);
  return xml_text(document);
}

bool is_numbered(const std::string& word, const char* prefix) {
  return word.starts_with(prefix) && word.find_first_not_of("0123456789", 3) == std::string::npos &&
         word.size() > 3;
}

class TopologyChecker {
 public:
  TopologyChecker(const DomainSpec& spec, const Functions& guest)
      : devices_(spec.devices),
        spec_(spec),
        layout_(guest_layout(spec.devices, host_nodes(spec))),
        guest_(guest) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      found_.push_back(at(layout_.slots[i].guest_address));
    }
  }

  GuestTopology look(const std::string& peers) {
    GuestTopology seen;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (!check_presence(i)) {
        seen.missing.push_back(devices_[i].grant.address);
        continue;
      }
      if (devices_[i].device_class == DeviceClass::gpu) {
        seen.gpu_numa_nodes.push_back(found_[i]->numa_node);
      }
      check_numa_node(i);
      check_link(i);
      for (std::size_t k = 0; k < i; ++k) {
        if (found_[k] != nullptr) { check_nearness(k, i); }
      }
    }
    const auto others = differences_.size();
    if (!peers.empty()) { check_peers(read_peer_matrix(peers)); }
    for (std::size_t i = others; i < differences_.size(); ++i) {
      seen.peer_differences.push_back(differences_[i].words);
    }
    seen.differences = std::move(differences_);
    seen.nccl_topology = nccl_topology(spec_);
    return seen;
  }

 private:
  void differ(std::string words, std::string xml = {}) {
    differences_.push_back({std::move(words), std::move(xml)});
  }

  const PciFunction* at(const std::string& address) const {
    const auto found =
        std::ranges::find_if(guest_, [&](const auto& function) { return function.address == address; });
    return found == guest_.end() ? nullptr : &*found;
  }

  /// As the plan calls it, and where it should be.
  std::string named(std::size_t i) const {
    return fmt::format("{} (in the guest {})", devices_[i].grant.address, layout_.slots[i].guest_address);
  }

  /// Whether the function there is the device, as far as its ids can tell: a vGPU has ids of its own.
  bool is_it(std::size_t i, const PciFunction& function) const {
    const auto& device = devices_[i];
    return device.grant.kind != GrantKind::passthrough || device.vendor.empty() ||
           (device.vendor == function.vendor && device.device == function.device);
  }

  bool check_presence(std::size_t i) {
    const auto* function = found_[i];
    if (function != nullptr && is_it(i, *function)) { return true; }
    const auto xml =
        fragment([&](pugi::xml_node node) { add_granted_device(node, devices_, i, layout_.slots[i].plug); });
    if (function != nullptr) {
      differ(fmt::format("{}: the guest has {}:{} there", named(i), function->vendor, function->device), xml);
    } else {
      differ(fmt::format("{}: the guest does not show it", named(i)), xml);
    }
    found_[i] = nullptr;
    return false;
  }

  const GuestController& expander(std::size_t i) const {
    return layout_.controller(layout_.slots[i].controllers.front());
  }

  void check_numa_node(std::size_t i) {
    const auto cells = host_nodes(spec_);
    const auto cell = std::ranges::find(cells, devices_[i].numa_node);
    if (cell == cells.end()) { return; }
    const int planned = static_cast<int>(cell - cells.begin());
    if (found_[i]->numa_node == planned) { return; }
    differ(fmt::format("{}: NUMA node {} of the host is the guest's node {}, but the guest shows {}",
                       named(i), devices_[i].numa_node, planned, found_[i]->numa_node),
           fragment([&](pugi::xml_node node) {
             auto controller = expander(i);
             controller.numa_cell = planned;
             add_controller(node, controller);
           }));
  }

  /// The emulated ports' own links say nothing; the device's possible one comes from the hardware.
  void check_link(std::size_t i) {
    const auto& host = devices_[i].link;
    const auto& guest = found_[i]->link_possible;
    if (host.width == 0 || guest.width == 0 || devices_[i].grant.kind != GrantKind::passthrough) { return; }
    if (host == guest) { return; }
    differ(fmt::format("{}: its link can do {} x{} on the host and {} x{} in the guest (no XML changes that)",
                       named(i), host.speed, host.width, guest.speed, guest.width));
  }

  /// Below one switch, or below one root complex, as planned.
  void check_nearness(std::size_t a, std::size_t b) {
    const auto& x = layout_.slots[a].controllers;
    const auto& y = layout_.slots[b].controllers;
    // Behind the expander bus and the root port comes the switch.
    const bool switch_planned = x.size() > 2 && y.size() > 2 && x[2] == y[2];
    const auto& p = *found_[a];
    const auto& q = *found_[b];
    const bool switch_seen = p.bridges.size() > 1 && q.bridges.size() > 1 && p.bridges[1] == q.bridges[1];
    if (switch_planned != switch_seen) {
      differ(fmt::format("{} and {} are {} one PCIe switch on the host and {} in the guest", named(a),
                         named(b), switch_planned ? "below" : "not below", switch_seen ? "are" : "are not"),
             controllers_above(a, b));
      return;
    }
    const bool complex_planned = x.front() == y.front();
    if (complex_planned != (p.root_complex == q.root_complex)) {
      differ(fmt::format("{} and {} are below {} on the host and {} in the guest", named(a), named(b),
                         complex_planned ? "one root complex" : "two root complexes",
                         complex_planned ? "not" : "below one"),
             controllers_above(a, b));
    }
  }

  std::string controllers_above(std::size_t a, std::size_t b) const {
    auto indexes = layout_.slots[a].controllers;
    const auto& more = layout_.slots[b].controllers;
    indexes.insert(indexes.end(), more.begin(), more.end());
    std::ranges::sort(indexes);
    indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
    return fragment([&](pugi::xml_node node) {
      for (const int index : indexes) { add_controller(node, layout_.controller(index)); }
    });
  }

  /// nvidia-smi counts GPUs in the order of their addresses.
  std::vector<std::size_t> gpus_in_order() const {
    std::vector<std::size_t> gpus;
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      if (devices_[i].device_class == DeviceClass::gpu) { gpus.push_back(i); }
    }
    std::ranges::sort(gpus, [&](std::size_t a, std::size_t b) {
      return layout_.slots[a].guest_address < layout_.slots[b].guest_address;
    });
    return gpus;
  }

  void check_peers(const std::vector<std::vector<std::string>>& matrix) {
    const auto gpus = gpus_in_order();
    if (matrix.size() != gpus.size()) {
      differ(fmt::format("the guest's driver sees {}, {} given", counted(matrix.size(), "GPU"),
                         counted(gpus.size(), "was", "were")));
      return;
    }
    for (std::size_t row = 0; row < gpus.size(); ++row) {
      for (std::size_t column = 0; column < row; ++column) {
        check_pair(gpus[column], gpus[row], matrix[row][column]);
      }
    }
  }

  void check_pair(std::size_t a, std::size_t b, const std::string& seen) {
    const bool nvlink = joined_by_nvlink(devices_[a], devices_[b]);
    const auto numbers = cliques(devices_, spec_.clique);
    const bool hinted = numbers[a] >= 0 && numbers[a] == numbers[b];
    if ((nvlink || hinted) == (seen == "OK")) { return; }
    if (seen == "OK") {
      differ(fmt::format("{} and {} reach each other in the guest, which nothing in the XML says", named(a),
                         named(b)));
      return;
    }
    differ(fmt::format("{} and {} should reach each other {}, the guest's driver says {}", named(a), named(b),
                       nvlink ? "over NVLink" : "over PCIe, as their clique says", seen),
           nvlink ? "" : fragment([&](pugi::xml_node node) {
             add_cliques(add(node, "domain"), devices_, spec_.clique);
           }));
  }

  const std::vector<PlacedDevice>& devices_;
  const DomainSpec& spec_;
  GuestLayout layout_;
  const Functions& guest_;
  std::vector<const PciFunction*> found_;
  std::vector<TopologyDifference> differences_;
};

}  // namespace

std::vector<std::vector<std::string>> read_peer_matrix(const std::string& text) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& line : split(text, '\n')) {
    const auto words = words_of(line);
    // The header's second word is GPU1 (or nothing), a row's is a status.
    if (words.size() < 2 || !is_numbered(std::string(words[0]), "GPU") ||
        is_numbered(std::string(words[1]), "GPU")) {
      continue;
    }
    rows.emplace_back(words.begin() + 1, words.end());
  }
  for (const auto& row : rows) {
    if (row.size() != rows.size()) { return {}; }
  }
  return rows;
}

GuestTopology check_guest_topology(const DomainSpec& spec, const Functions& guest, const std::string& peers) {
  return TopologyChecker(spec, guest).look(peers);
}

}  // namespace virtrain::vmctl
