#pragma once

#include <string>
#include <vector>

#include "vmctl/api/device_demand.h"
#include "vmctl/api/host.h"
#include "vmctl/api/inventory.h"

// The judge of what a coordinator asks of this host. It is taken to be hostile, and to say whatever the
// protocol can carry: each value is held against the host's own inventory, and against what the run has
// acquired, before anything is done. Pure. Each function throws Error(protocol), which names the field, its
// value and what is allowed.

namespace virtrain::vmctl {

/// `is_for_another`: the host works for another user than it runs as. Then programs are virtrain's own.
void judge_programs(const std::vector<std::string>& programs, bool is_for_another);
void judge_run(const RunSpec& run, bool is_for_another);
/// A bridge or NIC by the name of a device, or nothing.
void judge_network(const std::string& field, const HostNetwork& network);
/// Cores and devices that this host has, none of them twice.
void judge_resources(const Inventory& host, const std::vector<std::string>& resources);

/// A program of virtrain's by its plain name.
void judge_program(const std::string& name);
void judge_image(const ImageSpec& image);
void judge_guest(const GuestSpec& guest);
void judge_limits(const NodeLimits& limits);
void judge_settings(const DeviceSettings& settings);

/// Devices of this host that the run has acquired.
void judge_grants(const Inventory& host, const std::vector<std::string>& acquired,
                  const std::vector<DeviceGrant>& grants);
/// The same for VMs: in a form in which this host can lend them, with all of their IOMMU groups.
void judge_lending(const Inventory& host, const std::vector<std::string>& acquired,
                   const std::vector<DeviceGrant>& grants);
/// Addresses of devices that this host has.
void judge_addresses(const Inventory& host, const std::vector<std::string>& addresses);
void judge_demands(const Inventory& host, const std::vector<DeviceDemand>& demands);

/// Names, addresses and sizes as a group of nodes has them, of whichever host; tenants that are not asked
/// about may be without nodes.
void judge_group(const NodeGroupSpec& group);
/// The same, and this host's own nodes on the cores and devices that the run has acquired of it.
void judge_nodes(const Inventory& host, const std::vector<std::string>& acquired, const NodeGroupSpec& group,
                 const RunSpec& run = {});
/// As many PCI functions as a guest may have.
void judge_functions(const std::vector<PciFunction>& functions);

void judge_canaries(const std::vector<Canary>& canaries);

/// One of libvirt_connections, or empty.
void judge_libvirt(const std::string& uri);
/// The name of a domain or an experiment, or the address of a device.
void judge_name(const char* field, const std::string& name);
/// An absolute path without "." and "..".
void judge_path(const std::string& field, const std::string& path);

}  // namespace virtrain::vmctl
