#pragma once

#include <string>
#include <vector>

#include "harness/plan/placement.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// Why a placement's VMs could not start or would not work.
struct VmFindings {
  std::vector<std::string> problems;
  std::vector<std::string> busy;  ///< what will be possible once others are done
  std::vector<std::string> warnings;
};

/// By memory and huge pages, devices and their memory regions, NVSwitches, vCPUs and the kernel's command
/// line. `emulated`: under TCG, whose QEMU takes more memory. Pure.
VmFindings vm_findings(const Placement& placement, const Scenario& scenario,
                       const vmctl::Inventory& inventory, bool emulated);

}  // namespace virtrain::harness
