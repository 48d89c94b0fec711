#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/edits/edits.h"
#include "results/changes/suspects.h"
#include "results/store/store.h"

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

/// The loss to be explained: a case in an arm that got slower.
struct Subject {
  std::string id = {};        ///< of the change, or "GOOD..BAD"
  std::string scenario = {};  ///< its name
  std::string text = {};      ///< the scenario of the first bad night
  std::string case_name = {};
  CaseKey case_key = {};
  std::string arm = {};
  double ratio = 1;  ///< bad nights to good ones
  std::vector<Suspected> suspects = {};
  std::string doubt = {};    ///< whether the two experiments go together at all; empty: none
  double trial_seconds = 0;  ///< what a trial of the bad night took with all around it; 0: not known

  /// The case as the scenario calls it, of which case_name may be a size.
  const std::string& case_of_file() const { return case_key.family.empty() ? case_name : case_key.family; }
  /// Those that a scenario can switch, in their order.
  std::vector<Suspected> switched() const;
  std::vector<Suspected> others() const;
};

/// Finds a confirmed loss that `changes` lists, by its id. Error(not_found) with the ids there are;
/// Error(usage) for a change that is not confirmed, is a gain, or is of a figure other than throughput.
/// `known` are settings that the user suspects beside those found.
Subject subject_of_change(const results::Store& store, const std::string& id,
                          const std::vector<Setting>& known);

/// Compares two experiments whose scenario may have been edited between them. An empty case or arm: where the
/// loss is largest. A setting in `known` stands for an edit of the same key.
Subject subject_of_experiments(const results::Store& store, const std::string& good_begin,
                               const std::string& bad_begin, const std::string& case_name,
                               const std::string& arm, const std::vector<Setting>& known);

}  // namespace virtrain::harness
