#pragma once

#include <string>
#include <vector>

#include "vmctl/api/node.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

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
