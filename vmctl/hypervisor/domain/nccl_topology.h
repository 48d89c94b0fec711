#pragma once

#include <string>

#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

/// Makes a file for NCCL_TOPO_FILE in this guest: under each of the guest's NUMA nodes the GPUs and adapters
/// at their addresses in the guest, below the switches they share on the host, with the links they have
/// there, which the emulated ports do not tell. NCCL asks the guest for the rest (affinity, model of the CPU,
/// NVLinks). Empty without GPUs.
std::string nccl_topology(const DomainSpec& spec);

}  // namespace virtrain::vmctl
