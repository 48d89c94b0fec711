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

/// Which trials make up one side of a comparison. Terms of one kind are alternatives, terms of different
/// kinds must all hold.
struct Selector {
  std::string text = {};  ///< as given
  std::string arm = {};   ///< empty: any, each compared with itself
  std::vector<std::string> labels = {};
  std::vector<std::string> experiments = {};
  std::vector<std::string> hosts = {};
  std::vector<std::string> scenarios = {};
  /// Dates or times as ISO 8601 writes them, both ends included; an empty end is open.
  struct Span {
    std::string from = {};
    std::string to = {};
  };
  std::vector<Span> dates = {};

  /// Whether it says more than an arm.
  bool beyond_arms() const;
};

/// Reads "vm", "label:before", "host:a,arm:vm", "date:2026-11-01..2026-11-10": terms separated by commas.
/// Error(usage) with the allowed terms for anything else.
Selector parse_selector(const std::string& text);

/// The same of a side that may have no name: then it selects any trial.
Selector selector_of(const std::string& side);

/// When a trial began, as far as anybody said.
const std::string& start_of(const ComparisonExperiment& experiment, const ComparisonRow& row);
/// Whether trials of this experiment that began at these times can be meant at all.
bool selects(const Selector& selector, const ComparisonExperiment& experiment,
             const std::set<std::string>& starts);
/// Whether this trial of it is.
bool selects(const Selector& selector, const ComparisonExperiment& experiment, const ComparisonRow& row);

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
