#pragma once

#include <string>
#include <vector>

#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

/// Where a guest does not see what was planned.
struct TopologyDifference {
  std::string words;
  std::string xml;  ///< what of the domain's XML would mend it; empty: none would
};

struct GuestTopology {
  std::vector<TopologyDifference> differences;
  std::vector<std::string> peer_differences = {};  ///< of `differences`, those of pairs of GPUs
  std::vector<std::string> missing;                ///< host addresses of devices that the guest does not show
  std::vector<int> gpu_numa_nodes = {};            ///< of its GPUs, as the guest shows them; -1: none
  /// For NCCL_TOPO_FILE in the guest: the host's switches and links under the guest's addresses. Empty
  /// without GPUs.
  std::string nccl_topology;
};

/// Pure: whether the guest's PCI functions are as the domain's devices were planned: each device there, on
/// the NUMA node of its host node, near those it is near to on the host, with the link it has there; and
/// where `peers` is what `nvidia-smi topo -p2p r` says in the guest, whether GPUs reach each other as they
/// should (over NVLink, or because the XML says so).
GuestTopology check_guest_topology(const DomainSpec& spec, const std::vector<PciFunction>& guest,
                                   const std::string& peers = {});

/// The matrix of `nvidia-smi topo -p2p r`: its words ("OK", "CNS", …) by row and column; empty where the text
/// has another form.
std::vector<std::vector<std::string>> read_peer_matrix(const std::string& text);

}  // namespace virtrain::vmctl
