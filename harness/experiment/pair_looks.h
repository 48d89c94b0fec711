#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "common/system/time.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "results/statistics/sequential.h"
#include "results/store/store.h"

namespace virtrain::harness {

/// Enough pairs, and no more (`pairs: {at_most: …, until: verdict, budget: …}`): looks at what is stored
/// before each new pair of a case, and says which pairs are not run.
class PairLooks {
 public:
  /// `clock` in nanoseconds: the budget begins now.
  PairLooks(const Scenario& scenario, const results::Store& store, std::string experiment,
            std::function<std::int64_t()> clock = monotonic_ns);

  /// Why this pair of the case is not run; empty: it is. Asked before each trial, it looks once for each
  /// pair.
  const std::string& reason_against(const std::string& case_name, std::int64_t pair);

 private:
  struct Seen {
    std::int64_t pair = 1;  ///< that was looked at last; the first is always run
    std::string reason;
  };

  std::string look(const std::string& case_name, std::int64_t pairs) const;

  const Scenario& scenario_;
  const results::Store& store_;
  std::string experiment_;
  std::function<std::int64_t()> clock_;
  std::int64_t began_ns_;
  results::Settings settings_;
  std::optional<results::SequentialTest> sequential_;  ///< where a verdict ends a case
  std::map<std::string, Seen> seen_;
};

}  // namespace virtrain::harness
