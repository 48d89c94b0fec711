#pragma once

#include <string>
#include <vector>

#include "harness/plan/devices/lack.h"
#include "harness/plan/placement.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// Why a placement's VMs could not start or would not work.
struct VmFindings {
  std::vector<Lack> problems;
  std::vector<Lack> busy;  ///< what will be possible once others are done
  std::vector<std::string> warnings;
};

/// By memory and huge pages, devices and their memory regions, NVSwitches, vCPUs and the kernel's command
/// line. `emulated`: under TCG, whose QEMU takes more memory. Pure.
VmFindings vm_findings(const Placement& placement, const Scenario& scenario,
                       const vmctl::Inventory& inventory, bool emulated);

}  // namespace virtrain::harness
