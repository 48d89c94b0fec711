#pragma once

#include <string>

#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

/// What NCCL_TOPO_FILE may point at in this guest: under each of the guest's NUMA nodes the GPUs and adapters
/// at their addresses in the guest, below the switches they share on the host, with the links they have
/// there, which the emulated ports do not tell. What is not in it (affinity, model of the CPU, NVLinks) NCCL
/// asks the guest for. Empty without GPUs.
std::string nccl_topology(const DomainSpec& spec);

}  // namespace virtrain::vmctl
