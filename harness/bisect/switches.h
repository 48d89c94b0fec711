#pragma once

#include <optional>
#include <string>

#include "harness/scenario/edits/edits.h"
#include "results/changes/suspects.h"

namespace virtrain::harness {

/// A possible cause of a loss, and how a scenario switches it.
struct Suspected {
  std::string name = {};  ///< a fact as `changes` names it, or a key of the scenario
  std::string before = {};
  std::string after = {};
  std::optional<Setting> setting = {};  ///< nothing: a scenario cannot switch it
  std::string why_not = {};             ///< why, and what to do instead

  /// "guest.pinning: none → cores".
  std::string words() const;
};

/// A fact that differs, with the key that sets it to either value where there is one. Pure.
Suspected suspected_fact(const results::Suspect& suspect);
/// A setting that was edited, or that the user knows of. Pure.
Suspected suspected_setting(const Setting& setting);

}  // namespace virtrain::harness
