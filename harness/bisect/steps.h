#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/bisect/search.h"
#include "harness/bisect/subject.h"
#include "results/statistics/statistics.h"

// From a question of the search to a scenario, and from its comparison to the answer. Pure.
namespace virtrain::harness {

/// One comparison that was run.
struct Step {
  Suspects tried = {};
  StepOutcome outcome = StepOutcome::unclear;
  double ratio = 1;                          ///< tried to good
  std::optional<results::Interval> ci = {};  ///< the one that the verdict used, at the level of its look
  std::int64_t pairs = 0;
  std::string experiment = {};
};

/// How `run` is to pair and how long.
struct StepLimits {
  std::int64_t pairs = 12;  ///< of one comparison, at most
  std::int64_t seed = 1;    ///< of the order of trials
};

/// Ending of bisect's scenario names, whose experiments are not nights (results/store/queries/nights.sql).
inline constexpr std::string_view bisect_ending = ".bisect";

/// Half of a loss: beyond it trials lost what is looked for, within it they did not.
double step_margin(double ratio);

/// The scenario of a comparison; its name ends with .bisect, so that it is no night.
std::string step_scenario(const Subject& subject, const Suspects& tried, const StepLimits& limits);

/// Reads a comparison at step_margin(). `whole`: the step in which all suspects were tried; null: this is it.
StepOutcome outcome_of(const std::optional<results::RatioTest>& test, const Step* whole);

/// How much a cause lost: the step in which exactly these were tried, else the fewest beside them.
const Step& step_of_cause(const Suspects& cause, const std::vector<Step>& steps);
std::int64_t trials_of(const std::vector<Step>& steps);

/// "guest.pinning: none → cores loses 9.8 % (8.1 to 11.2), 4 pairs".
std::string words_of(const Subject& subject, const Step& step);

/// The answer: one sentence, or one for each cause.
std::string answer(const Subject& subject, const Search& search, const std::vector<Step>& steps);

}  // namespace virtrain::harness
