#pragma once

#include <string>
#include <vector>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// The form in which a tenant has a scenario's devices.
enum class DeviceForm {
  none,
  passthrough,
  passthrough_with_mig,  ///< whole GPUs, which their tenant cuts into MIG instances
  vgpu,                  ///< time-sliced
  mig_backed_vgpu,
  virtual_function,
};

/// Each form that the scenario's tenants have.
std::vector<DeviceForm> forms_of(const Scenario& scenario);

/// Arms of the scenario that no host with its kind of devices can run: "arm bare_metal: …" for each.
std::vector<std::string> impossible_arms(const Scenario& scenario);

/// Conclusions that the scenario's figures do not support, a sentence each.
std::vector<std::string> caveats(const Scenario& scenario);

}  // namespace virtrain::harness
