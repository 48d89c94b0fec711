#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/comparison_data.h"
#include "results/store/nights.h"

namespace virtrain::results {

/// Values of each fact in one night: "kernel" as nodes saw it, "host.driver", "virtrain", "libvirtd",
/// "label".
using NightFacts = std::map<std::string, std::set<std::string>>;

/// The fact's name without "host.", as rules of comparability and scenarios know it.
std::string_view without_host(std::string_view fact);

/// Facts of a night and, of its cases and arms, those that concern a series: the case's facts, of all arms.
NightFacts facts_of(const Night& night, std::span<const ArmFact> facts, const std::string& case_name);

/// A fact that differed between the good and the bad nights.
struct Suspect {
  std::string fact;
  std::string before;          ///< values before it changed, joined by ", "
  std::string after;           ///< and since
  double fit = 0;              ///< 1: this value in all bad nights, in no good one
  bool at_the_change = false;  ///< it changed just between the last good and the first bad night
  bool earlier = false;        ///< it changed in one of the good nights; neither: in one of the bad ones
  bool fits = false;           ///< it changed where the level did, and then stayed so
};

/// How many nights earlier or later than the first bad one the level may have changed: of a small change in a
/// noisy series the first night is not certain.
struct ChangeWindow {
  std::size_t earlier = 0;
  std::size_t later = 0;
};

/// Possible causes of a change, the likeliest first: how well the values that are new in bad nights fit them,
/// whether they came with the first one, how rarely the fact changed without consequences, and what kind of
/// fact it is; those that fit come first. Nights in their order.
std::vector<Suspect> rank_suspects(std::span<const NightFacts> good, std::span<const NightFacts> bad,
                                   const ChangeWindow& window = {});

}  // namespace virtrain::results
