#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/model/trial_key.h"
#include "harness/scenario/scenario.h"

// Scenarios made of others: two arms that differ in some settings, and what a command line changes.
namespace virtrain::harness {

/// A key of a scenario with an old and a new value. Nothing: the scenario did not say it.
struct Setting {
  bool operator==(const Setting&) const = default;
  std::string key = {};  ///< "workload.env.NCCL_ALGO", "guest.pinning"
  std::optional<std::string> before = {};
  std::optional<std::string> after = {};
  bool is_list = false;  ///< its values are texts of lists, "[a, b]"
};

/// Shown in place of a value that is absent.
inline constexpr const char* not_set = "not set";

/// Differences between two sound scenario texts for a case in an arm: the settings of that arm, but for those
/// that the case sets itself in both, and "cases" where the case itself was edited.
std::vector<Setting> edited_settings(const std::string& before, const std::string& after,
                                     const std::string& case_of_file, const std::string& arm);

/// Why two arms cannot differ in this key; empty: they can.
std::string why_arms_cannot_differ(const std::string& key);

inline constexpr const char* arm_good = "good";    ///< all settings at their old values
inline constexpr const char* arm_tried = "tried";  ///< some at their new ones

/// A scenario of one case in two arms.
struct TwoArms {
  std::string name = {};
  std::string description = {};
  std::string case_name = {};
  std::string arm = {};  ///< what both are like
  std::vector<Setting> settings = {};
  std::set<std::size_t> tried = {};  ///< of `settings`: those that the arm `tried` has at their new values
  std::int64_t pairs = 0;            ///< at most; a verdict ends it earlier
  CaseKey case_key = {};
};

/// The text of that scenario, made from a sound one that has the case and the arm. Error(usage) where it
/// cannot be made: isolation, several hosts, a point of a sweep, no such case or arm.
std::string two_arm_scenario(const std::string& text, const TwoArms& wanted);

/// Changes of a scenario that a command line asks for.
struct ScenarioEdits {
  std::vector<std::string> values = {};  ///< "workload.batch_size=64", the value in YAML
  std::vector<std::string> cases = {};   ///< those to keep, "weak-scaling" or one of its sizes; empty: all

  bool empty() const { return values.empty() && cases.empty(); }
};

/// The text of a sound scenario with these changes. Error(usage) where they cannot be made; whether the
/// outcome is sound is for its decoder.
std::string edited_scenario(const Scenario& scenario, const ScenarioEdits& edits);

}  // namespace virtrain::harness
