#pragma once

#include <string>
#include <vector>

#include "harness/bisect/switches.h"
#include "results/store/store.h"

namespace virtrain::harness {

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
