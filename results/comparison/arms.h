#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/store/comparison_data.h"

namespace virtrain::results {

/// Price of one node for an hour.
struct Price {
  double amount = 0;
  std::string currency = {};
};

/// An arm as the plan of its experiment has it. Of imported arms only the name is known.
struct ArmRecord {
  std::string name = {};
  std::string base = {};                            ///< bare_metal, vm, bare_metal_shared or attach
  std::string like = {};                            ///< the arm of which it is a variant; empty: of none
  std::map<std::string, std::string> changes = {};  ///< against its base: "guest.pinning" to "none"
  std::optional<Price> price = {};
  std::size_t position = 0;  ///< in its plan
};

/// "Arm vm-unpinned is vm with guest.pinning none." for each variant of a plan, but for those named.
std::vector<std::string> variant_sentences(const nlohmann::json& plan, const std::set<std::string>& but = {});

/// The arms of the compared experiments, by name; of experiments that differ the newest counts, but for what
/// they do not agree in: changes, prices.
using ArmRecords = std::map<std::string, ArmRecord>;
ArmRecords arm_records(const ComparisonData& data);

/// The nearest arm on the way from a variant to its base for which this holds; empty: there is none.
std::string nearest_like(const ArmRecords& records, std::string name,
                         const std::function<bool(const std::string&)>& holds);

/// Which arms a comparison is of where nobody says: baseline and candidate.
using ArmPair = std::pair<std::string, std::string>;
/// vm against bare_metal where both ran, and each variant against the arm that it is like, or where that did
/// not run the next one on the way to its base; an arm of attached machines against bare_metal, else vm.
/// Where only variants of one arm ran, each against the first of the plan. Never empty. `ran` in the order
/// they were first run.
std::vector<ArmPair> default_pairs(const std::vector<std::string>& ran, const ArmRecords& records);

/// The keys that two arms set differently on purpose.
std::set<std::string> changed_keys(const ArmRecords& records, const std::string& baseline,
                                   const std::string& candidate);
/// Whether the arms run on the same thing: both in VMs, or both on bare metal in the same way.
bool same_base(const ArmRecords& records, const std::string& baseline, const std::string& candidate);
/// Whether the arm's nodes are machines that existed already.
bool is_attached(const ArmRecords& records, const std::string& arm);
/// Whether one of the arms attaches machines, and the other runs elsewhere.
bool are_of_other_machines(const ArmRecords& records, const std::string& baseline,
                           const std::string& candidate);

}  // namespace virtrain::results
