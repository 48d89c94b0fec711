#include "harness/bisect/steps.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr double least_margin = 0.002;
constexpr double most_margin = 0.45;
constexpr double share_of_a_part = 0.8;
constexpr std::size_t longest_name = 64;

/// "9.8 % (8.1 to 11.2)": what was lost.
std::string loss_words(const Step& step) {
  const auto percent = [](double ratio) { return (1 - ratio) * 100; };
  auto words = fmt::format("{:.1f} %", percent(step.ratio));
  if (step.ci) { words += fmt::format(" ({:.1f} to {:.1f})", percent(step.ci->high), percent(step.ci->low)); }
  return words;
}

std::string words_of(const std::vector<Suspected>& switched, const Suspects& some) {
  std::vector<std::string> words;
  for (const auto i : some) { words.push_back(switched.at(i).words()); }
  return join(words, " and ");
}

std::string words_of_others(const Subject& subject) {
  std::vector<std::string> words;
  for (const auto& one : subject.others()) {
    words.push_back(fmt::format("{} ({})", one.words(), one.why_not));
  }
  return words.empty() ? "and no other suspect is stored"
                       : "the cause is among what a scenario cannot switch: " + join(words, "; ");
}

}  // namespace

const Step& step_of_cause(const Suspects& cause, const std::vector<Step>& steps) {
  const Step* best = &steps.front();
  for (const auto& step : steps) {
    const bool holds = std::includes(step.tried.begin(), step.tried.end(), cause.begin(), cause.end());
    if (holds && step.tried.size() < best->tried.size()) { best = &step; }
  }
  return *best;
}

std::int64_t trials_of(const std::vector<Step>& steps) {
  std::int64_t pairs = 0;
  for (const auto& step : steps) { pairs += step.pairs; }
  return 2 * pairs;
}

double step_margin(double ratio) {
  return std::clamp((1 - ratio) / 2, least_margin, most_margin);
}

std::string step_scenario(const Subject& subject, const Suspects& tried, const StepLimits& limits) {
  TwoArms wanted;
  wanted.name = subject.scenario.substr(0, longest_name - bisect_ending.size()) + std::string(bisect_ending);
  wanted.case_name = subject.case_name;
  wanted.case_key = subject.case_key;
  wanted.arm = subject.arm;
  wanted.tried = tried;
  wanted.pairs = limits.pairs;
  const auto switched = subject.switched();
  for (const auto& one : switched) { wanted.settings.push_back(*one.setting); }
  constexpr std::size_t most_bytes = 2000;
  wanted.description = excerpt(fmt::format("virtrain bisect {}: {} against the old values; order by seed {}",
                                           subject.id, words_of(switched, tried), limits.seed),
                               most_bytes);
  return two_arm_scenario(subject.text, wanted);
}

StepOutcome outcome_of(const std::optional<results::RatioTest>& test, const Step* whole) {
  if (!test || !test->ci_tost) { return StepOutcome::unclear; }
  switch (test->verdict) {
    case results::Verdict::worse: {
      const bool clearly_less = whole != nullptr && whole->ci && test->ci_tost->low > whole->ci->high &&
                                1 - test->ratio < share_of_a_part * (1 - whole->ratio);
      return clearly_less ? StepOutcome::part : StepOutcome::loss;
    }
    case results::Verdict::equivalent:
    case results::Verdict::better:
    case results::Verdict::non_inferior:
      return StepOutcome::none;
    case results::Verdict::inconclusive:
    case results::Verdict::not_comparable:
      break;
  }
  return test->ci_tost->high < 1 ? StepOutcome::part : StepOutcome::unclear;
}

std::string words_of(const Subject& subject, const Step& step) {
  const auto words = words_of(subject.switched(), step.tried);
  const auto pairs = counted(step.pairs, "pair");
  switch (step.outcome) {
    case StepOutcome::loss:
      return fmt::format("{} loses {}, {}", words, loss_words(step), pairs);
    case StepOutcome::part:
      return fmt::format("{} loses a part: {}, {}", words, loss_words(step), pairs);
    case StepOutcome::none:
      return fmt::format("{} is not it: {}, {}", words, loss_words(step), pairs);
    case StepOutcome::unclear:
      break;
  }
  return fmt::format("{}: no verdict after {}", words, pairs);
}

std::string answer(const Subject& subject, const Search& search, const std::vector<Step>& steps) {
  const auto switched = subject.switched();
  const auto trials = counted(trials_of(steps), "trial");
  if (switched.empty()) {
    return subject.others().empty()
               ? "no suspect is stored: nothing that virtrain keeps differs between the two"
               : "a scenario can switch no suspect: " + words_of_others(subject);
  }
  if (search.end == SearchEnd::nothing) {
    return fmt::format("no switched suspect brings it back ({}): {}",
                       steps.empty() ? "none was tried" : loss_words(steps.front()) + ", " + trials,
                       words_of_others(subject));
  }
  if (search.end != SearchEnd::found) {
    const auto among = search.candidates.empty() ? "" : words_of(switched, search.candidates);
    return fmt::format("no verdict after {}: the cause is among {} (more pairs may tell: --pairs)", trials,
                       among);
  }
  std::vector<std::string> sentences;
  for (const auto& cause : search.causes) {
    const auto& step = step_of_cause(cause, steps);
    const bool part = search.causes.size() > 1 || step.outcome == StepOutcome::part;
    const auto accounts = cause.size() > 1 ? part ? "bring a part of the change, and only together"
                                                  : "account for the change, and only together"
                          : part           ? "accounts for a part of the change"
                                           : "accounts for the change";
    sentences.push_back(
        fmt::format("{} {}: {}, {}", words_of(switched, cause), accounts, loss_words(step), trials));
  }
  return join(sentences, "\n");
}

}  // namespace virtrain::harness
