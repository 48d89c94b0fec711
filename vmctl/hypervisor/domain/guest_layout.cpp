#include "vmctl/hypervisor/domain/guest_layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"

namespace virtrain::vmctl {
namespace {

using Devices = std::vector<PlacedDevice>;
using Members = std::vector<std::size_t>;  ///< of the devices

constexpr int buses = 256;
constexpr int buses_of_root = 64;  ///< left to libvirt's own ports and whatever hangs there
constexpr int slots = 32;

/// In the order of first appearance; what has an empty key is a group of its own.
template <typename KeyOf>
std::vector<Members> grouped(const Members& members, KeyOf&& key_of) {
  std::vector<Members> groups;
  for (const auto member : members) {
    const std::string key = key_of(member);
    const auto same = std::ranges::find_if(
        groups, [&](const Members& group) { return !key.empty() && key_of(group.front()) == key; });
    if (same == groups.end()) {
      groups.push_back({member});
    } else {
      same->push_back(member);
    }
  }
  return groups;
}

class LayoutBuilder {
 public:
  LayoutBuilder(const Devices& devices, const std::vector<int>& cells) : devices_(devices), cells_(cells) {
    layout_.slots.resize(devices.size());
  }

  GuestLayout build() {
    Members all(devices_.size());
    for (std::size_t i = 0; i < all.size(); ++i) { all[i] = i; }
    // Without a known root complex nothing is known of nearness: these share one.
    const auto complexes = grouped(all, [&](std::size_t i) { return "at " + devices_[i].root_complex; });
    const int step = (buses - buses_of_root) / std::max(1, static_cast<int>(complexes.size()));
    for (std::size_t i = 0; i < complexes.size(); ++i) {
      next_bus_ = buses_of_root + static_cast<int>(i) * step;
      last_bus_ = next_bus_ + step - 1;
      add_complex(complexes[i]);
    }
    return std::move(layout_);
  }

 private:
  struct Bus {
    int index;   ///< of the controller that provides it
    int number;  ///< as the guest counts
  };

  void add_complex(const Members& members) {
    GuestController expander{next_index_++, "pcie-expander-bus", {}, take_bus(), {}, ""};
    const auto cell = std::ranges::find(cells_, devices_[members.front()].numa_node);
    if (cell != cells_.end()) { expander.numa_cell = static_cast<int>(cell - cells_.begin()); }
    const Bus bus{expander.index, expander.bus_number};
    layout_.controllers.push_back(std::move(expander));
    add_ports(members, 0, bus, "pcie-root-port", {bus.index});
  }

  /// A port for each bridge at this depth of the members' paths, and one for each whose path ends above it.
  void add_ports(const Members& members, std::size_t depth, Bus bus, const char* model,
                 const std::vector<int>& above) {
    int slot = 0;
    const auto groups = grouped(members, [&](std::size_t i) { return bridge(i, depth); });
    for (const auto& group : groups) {
      if (slot == slots) {
        throw Error("lay out the guest's PCIe tree", ErrorCode::bad_input,
                    fmt::format("{} devices at one place (at most {})", groups.size(), slots));
      }
      add_port(group, depth + 1, bus, slot++, model, above);
    }
  }

  void add_port(const Members& members, std::size_t depth, Bus bus, int slot, const char* model,
                std::vector<int> above) {
    const auto port = add_controller(model, bus, slot);
    above.push_back(port.index);
    if (members.size() == 1) {
      layout_.slots[members[0]] = {{port.index, 0}, address_on(port, 0), std::move(above)};
      return;
    }
    while (share_bridge(members, depth)) { ++depth; }
    const auto upstream = add_controller("pcie-switch-upstream-port", port, 0);
    above.push_back(upstream.index);
    add_ports(members, depth, upstream, "pcie-switch-downstream-port", above);
  }

  Bus add_controller(const char* model, Bus on, int slot) {
    const Bus provides{next_index_++, take_bus()};
    layout_.controllers.push_back({provides.index, model, GuestPlug{on.index, slot}, provides.number,
                                   std::nullopt, address_on(on, slot)});
    return provides;
  }

  int take_bus() {
    if (next_bus_ > last_bus_) {
      throw Error("lay out the guest's PCIe tree", ErrorCode::bad_input,
                  fmt::format("{} devices take more PCI buses than there are ({})", devices_.size(), buses));
    }
    return next_bus_++;
  }

  std::string bridge(std::size_t device, std::size_t depth) const {
    const auto& bridges = devices_[device].bridges;
    return depth < bridges.size() ? bridges[depth] : "";
  }

  bool share_bridge(const Members& members, std::size_t depth) const {
    const auto first = bridge(members[0], depth);
    return !first.empty() &&
           std::ranges::all_of(members, [&](std::size_t i) { return bridge(i, depth) == first; });
  }

  static std::string address_on(Bus bus, int slot) {
    return fmt::format("0000:{:02x}:{:02x}.0", bus.number, slot);
  }

  const Devices& devices_;
  const std::vector<int>& cells_;
  GuestLayout layout_;
  int next_index_ = 1;  // 0 is the root
  int next_bus_ = 0;
  int last_bus_ = 0;
};

}  // namespace

const GuestController& GuestLayout::controller(int index) const {
  return controllers.at(static_cast<std::size_t>(index) - 1);
}

GuestLayout guest_layout(const Devices& devices, const std::vector<int>& cells) {
  return LayoutBuilder(devices, cells).build();
}

}  // namespace virtrain::vmctl
