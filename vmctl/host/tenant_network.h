#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "vmctl/api/host_network.h"
#include "vmctl/api/node.h"

// How the nodes of a tenant on several hosts reach each other. Pure.

namespace virtrain::vmctl {

/// The number, of 24 bits and never 0, of a tenant's VXLAN: the same on all hosts of the experiment. Tenants
/// of one experiment differ, and VMs that wait for their next trial differ from slices.
std::uint32_t vxlan_number(const std::string& experiment, std::size_t tenant, NodeKind kind);

/// The MTU of nodes' eth0: what the scenario says, or the largest for which nothing is dropped on the way.
/// Throws Error(host_unable) where a scenario says what this network does not carry, and on a bridge any
/// other than the bridge's: a port of another MTU would change it.
std::int64_t mtu_of_nodes(const GuestNetwork& guest, const HostNetwork& network,
                          const HostNetworkFacts& facts);

/// Throws Error(host_unable) where a tunnel from this address could not reach one of the others.
void require_reachable(const std::vector<std::string>& peers, const HostNetwork& network,
                       const HostNetworkFacts& facts);

/// Throws Error(host_unable) where ranks on the host itself, without a network of their own, could not talk
/// over the bridge or NIC.
void require_usable_by_host(const HostNetwork& network, const HostNetworkFacts& facts);

/// Root's list of bridges into which users may plug VMs, as QEMU's bridge helper reads it.
inline constexpr const char* allowed_bridges = "/etc/qemu/bridge.conf";
/// Root's list, of the same form, of NICs whose virtual functions users may have as their nodes' network.
inline constexpr const char* allowed_nics = "/etc/virtrain/vf.conf";
/// Whether such a list ("allow br0", "allow all", "deny br0") has the device. A line that denies it wins.
bool allows_device(std::string_view list, const std::string& device);

/// The address of the host's end of a link into somebody's bridge. A bridge takes the lowest of its ports'
/// addresses, so that this one is high, as libvirt's are.
std::string host_end_mac(const std::string& node_mac);

}  // namespace virtrain::vmctl
