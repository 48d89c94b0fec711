#pragma once

#include <optional>
#include <string>
#include <vector>

#include "vmctl/api/device.h"

namespace virtrain::vmctl {

/// A PCI device of the host in a VM that somebody else defined.
struct ForeignDevice {
  std::string host_address;   ///< "0000:17:00.0"
  std::string guest_address;  ///< as the guest's firmware numbers its buses, "0000:05:00.0"
  std::optional<int> cell;    ///< the guest's NUMA cell, where its expander bus says it
};

/// A domain as far as NCCL's topology needs it.
struct ForeignDomain {
  std::string name;
  std::vector<ForeignDevice> devices;
  std::vector<std::string> mediated;  ///< devices, for people: UUID and address in the guest
  std::vector<std::string> left_out;  ///< other devices that have no place in its topology, with the reason
  std::vector<std::vector<int>> host_nodes_of_cells;  ///< by guest cell, from numatune's memnodes
};

/// Pure: reads what `virsh dumpxml` prints. In libvirt's XML a bus is the index of a controller; firmware and
/// kernel number buses depth first, in the order of slots, from each root bus. Throws Error(bad_input) for
/// what is not the XML of one domain, for a device whose address in the guest is not yet said, and for
/// controllers in a circle.
ForeignDomain read_foreign_domain(const std::string& xml);

/// Pure: what of the domain NCCL's topology lacks though NCCL may use it, and why: devices that the host does
/// not have, and mediated devices. `others` are the host's devices that NCCL does not use.
std::vector<std::string> left_out_of_topology(const ForeignDomain& domain,
                                              const std::vector<HostDevice>& devices,
                                              const std::vector<HostDevice>& others);

/// Pure: a file for NCCL_TOPO_FILE in that VM, as nccl_topology() makes it for VMs of ours: GPUs and RDMA
/// adapters under the guest's NUMA node, below a switch for each that they share on the host. Such a switch
/// has an address that no guest uses, as the files of cloud providers have. `devices` are the host's. Throws
/// Error(not_found) where none of the domain's devices is a GPU of this host.
std::string nccl_topology_of(const ForeignDomain& domain, const std::vector<HostDevice>& devices);

}  // namespace virtrain::vmctl
