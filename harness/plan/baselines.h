#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// What an arm's devices can be set beside: one row for each kind of device and arm.
struct BaselineRule {
  DeviceKind kind;
  std::string_view arm;
  bool can_run;          ///< on the host that has such devices
  std::string_view why;  ///< a sentence for people, also where it can
};

/// The whole table.
std::span<const BaselineRule> baseline_rules();

/// Arms of the scenario that no host with its kind of devices can run: "arm bare_metal: …" for each.
std::vector<std::string> impossible_arms(const Scenario& scenario);

}  // namespace virtrain::harness
