#include <algorithm>
#include <filesystem>

#include "common/files/reading.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

constexpr std::string_view device_prefix = "vt";
constexpr std::string_view namespace_prefix = "vt-";

bool has_foreign_port(const std::string& bridge) {
  const auto ports = bridge_ports(bridge);
  return std::ranges::any_of(ports, [](const auto& port) { return !port.starts_with(device_prefix); });
}

bool has_alias(const std::string& device) {
  return !read_value(std::filesystem::path("/sys/class/net") / device / "ifalias").value_or("").empty();
}

/// Bridges, veths and VXLANs; taps and libvirt's bridges go with their domain and network.
void find_links(Search& search) {
  for (const auto& device : list_links()) {
    const auto kind = link_kind(device);
    const auto marked = link_experiment(device);
    if (!marked && !device.starts_with(device_prefix)) { continue; }
    const bool is_of_libvirt =
        std::ranges::any_of(search.networks, [&](const auto& network) { return network.bridge == device; });
    if (kind == LinkKind::tap || is_of_libvirt) { continue; }
    const bool other_alias = !marked && has_alias(device);
    if (kind == LinkKind::other || other_alias || (kind == LinkKind::bridge && has_foreign_port(device))) {
      search.add_foreign({EffectKind::bridge, device, "", "network device that is not virtrain's"});
      continue;
    }
    const auto found_as = kind == LinkKind::bridge  ? EffectKind::bridge
                          : kind == LinkKind::vxlan ? EffectKind::vxlan
                                                    : EffectKind::veth;
    if (marked) {
      search.add_held(root_user, {found_as, device, *marked, "network device with virtrain's alias"});
    } else {
      search.add_unmarked(root_user, {found_as, device, "", "network device with virtrain's name"});
    }
  }
}

void find_namespaces(Search& search) {
  for (const auto& name : list_namespaces()) {
    if (!name.starts_with(namespace_prefix)) { continue; }
    search.add_unmarked(root_user, {EffectKind::netns, name, "", "network namespace with a slice's name"},
                        search.used_slices.contains(name));
  }
}

void remove_link(const Leftover& found, Hypervisor* /*unused*/) {
  delete_link(found.name);
}

void remove_namespace(const Leftover& found, Hypervisor* /*unused*/) {
  delete_namespace(found.name);
}

}  // namespace

const Handler veth_handler{.kind = EffectKind::veth, .find = find_links, .remove = remove_link};

// Found with the veths.
const Handler bridge_handler{.kind = EffectKind::bridge, .remove = remove_link};
const Handler vxlan_handler{.kind = EffectKind::vxlan, .remove = remove_link};

const Handler netns_handler{.kind = EffectKind::netns, .find = find_namespaces, .remove = remove_namespace};

}  // namespace virtrain::vmctl
