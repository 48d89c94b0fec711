#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/model/described.h"

namespace virtrain::results {

using virtrain::FactRule;

struct FieldRule {
  std::string_view field;  ///< key of a fingerprint
  FactRule rule;
  std::string_view why;
  bool of_work = false;  ///< it says what was done and by what share of the machine, not on which system
};

/// The guard's table: every fact that has a rule.
std::span<const FieldRule> field_rules();
/// Their fields, for Store::comparison_data().
std::vector<std::string> fields_with_rules();

/// Values seen for each field, by one trial or a whole side; facts of the host have the prefix "host.".
using Facts = std::map<std::string, std::set<std::string>>;
/// Facts that are held against each other, and how often: those of both trials of a pair; of unpaired trials
/// those of one, beside a null.
using ComparedFacts = std::map<std::pair<const Facts*, const Facts*>, std::int64_t>;

struct FactDifference {
  std::string field;
  FactRule rule;
  std::set<std::string> baseline;
  std::set<std::string> candidate;
  std::string why = {};     ///< of the rule
  std::string detail = {};  ///< where not all trials differ: "in 5 of 6 pairs", or the shares that do
};

/// Whether two sides' values of a field say the same. Fields of cards list those of all of a node's ranks,
/// which may be of one node on one side and of several on the other.
bool are_equal(std::string_view field, const std::set<std::string>& ours,
               const std::set<std::string>& theirs);

/// Differences in fields that have a rule and are known on both sides, in the table's order: within a pair,
/// in the values of the sides, and (of unpaired trials, where they must be equal) in how large a share of a
/// side has each value. Where both sides are one arm (of two labels, hosts or dates) or two variants of it,
/// the arm explains nothing: such a field must be equal. `changed`: keys of the scenario that the arms set
/// differently on purpose; what follows from them is explained.
std::vector<FactDifference> differences(const ComparedFacts& compared, bool one_arm = false,
                                        const std::set<std::string>& changed = {});
/// Between two labels, dates, hosts or experiments of one arm the question is what changed: there facts of
/// the system that must else be equal are part of the answer, or explained where `meant` has them. Facts of
/// the work stay as they are.
void read_as_change(std::vector<FactDifference>& differences, const std::set<std::string>& meant);
/// Differences of two trials.
std::vector<FactDifference> differences(const Facts& baseline, const Facts& candidate, bool one_arm = false,
                                        const std::set<std::string>& changed = {});
/// "driver differs: 470 in bare_metal, 580 in vm (…why, and what follows)".
std::string to_sentence(const FactDifference& difference, const std::string& baseline,
                        const std::string& candidate);

/// Values for people; long ones are cut.
std::string words_of_values(const std::set<std::string>& values);

/// Whether this difference forbids the comparison.
bool forbids(const FactDifference& difference);
/// A sentence for each of those that do.
std::vector<std::string> what_forbids(const std::vector<FactDifference>& differences,
                                      const std::string& baseline, const std::string& candidate);

}  // namespace virtrain::results
