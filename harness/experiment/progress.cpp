#include "harness/experiment/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/wrap.h"
#include "harness/job/programs.h"
#include "harness/plan/node_group.h"
#include "results/changes/scenario_version.h"

namespace virtrain::harness {
namespace {

/// "4:07", with hours where there are some.
std::string clock_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(seconds);
  const auto minutes = whole / 60;
  return minutes < 60 ? fmt::format("{}:{:02}", minutes, whole % 60)
                      : fmt::format("{}:{:02}:{:02}", minutes / 60, minutes % 60, whole % 60);
}

/// A stage, in words for who waits; other words as they are.
std::string stage_words(const std::string& now) {
  static const std::map<std::string, std::string> words{{"image", "building the guest image"},
                                                        {"bind", "binding devices"},
                                                        {"define", "making nodes"},
                                                        {"boot", "booting"},
                                                        {"agent", "waiting for guest"},
                                                        {"place", "starting ranks"},
                                                        {"barrier", "waiting for all ranks"},
                                                        {"run", "training"},
                                                        {"collect", "collecting results"},
                                                        {"tear_down", "removing nodes"}};
  const auto found = words.find(now);
  return found == words.end() ? now : found->second;
}

/// "a, b, c" without its last clause; empty where it has one only.
std::string without_last_clause(const std::string& words) {
  const auto comma = words.rfind(", ");
  return comma == std::string::npos ? "" : words.substr(0, comma);
}

}  // namespace

std::string progress_words(const Progress& progress, std::int64_t now_ns, std::size_t columns) {
  const auto since = [now_ns](std::int64_t then_ns) { return static_cast<double>(now_ns - then_ns) * 1e-9; };
  const double passed = since(progress.at_ns);
  const auto times = fmt::format("{}, {} left", clock_time(since(progress.began_ns)),
                                 to_words({std::max(1.0, progress.left_then.low - passed),
                                           std::max(1.0, progress.left_then.high - passed)}));
  // A line that wraps cannot be written over. Times stay, they are what is waited for.
  const auto fits = [&](const std::string& line) { return text_width(line) < columns; };
  for (auto trial = progress.trial; !trial.empty(); trial = without_last_clause(trial)) {
    for (auto now = stage_words(progress.now); !now.empty(); now = without_last_clause(now)) {
      auto line = fmt::format("{}: {} ({})", trial, now, times);
      if (fits(line)) { return line; }
    }
  }
  for (const auto& line : {fmt::format("{} ({})", stage_words(progress.now), times), times}) {
    if (fits(line)) { return line; }
  }
  return "";
}

namespace {

/// The event by which a run says that guests have an image.
bool is_image_ready(const results::Event& event) {
  return event.stage == "image" && event.detail.is_object() && event.detail.contains("from_cache");
}

std::optional<double> seconds_of(const results::Event& event) {
  const auto found = event.detail.find("seconds");
  return found != event.detail.end() && found->is_number() ? std::optional(found->get<double>())
                                                           : std::nullopt;
}

}  // namespace

void look_for_image(vmctl::HostLooks& host, const Scenario& scenario, Plan& plan) {
  if (plan.image.high == 0 || !plan.security.empty()) { return; }
  try {
    const vmctl::ImageSpec image{.with_nvidia_driver = lends_nvidia_devices(plan),
                                 .packages = scenario.guest.packages};
    if (host.has_image(image, needed_programs(scenario, plan))) { leave_out_image(plan); }
  } catch (const Error& error) {  // the run says what it lacks; an estimate is worth no failure
    log::debug("the time for the guest image stays in the estimate", {{"reason", error.what()}});
  }
}

PastTrials past_trials(const results::Store& store, const Scenario& scenario, const std::string& host) {
  constexpr std::size_t newest = 3, most_looked_at = 20;
  struct Sum {
    double seconds = 0, trials = 0;
  };
  std::map<std::pair<std::string, std::string>, Sum> sums;
  std::size_t read = 0;
  const auto version = results::scenario_version(scenario.text);
  auto ids = store.select({.scenario = scenario.name});
  std::ranges::reverse(ids);
  ids.resize(std::min(ids.size(), most_looked_at));
  for (const auto& id : ids) {
    const auto experiment = store.experiment(id);
    if (read == newest) { break; }
    if (!experiment || experiment->host_name != host ||
        results::scenario_version(experiment->scenario_text) != version) {
      continue;
    }
    ++read;
    std::map<std::int64_t, double> of_image;
    for (const auto& event : store.events(id)) {
      if (event.trial && is_image_ready(event)) { of_image[*event.trial] = seconds_of(event).value_or(0); }
    }
    for (const auto& trial : store.trials(id)) {
      const auto began = seconds_of_iso8601(trial.started_at), ended = seconds_of_iso8601(trial.ended_at);
      if (trial.status != Status::finished || !began || !ended || *ended <= *began) { continue; }
      auto& sum = sums[{trial.case_name, trial.arm}];
      const auto image = of_image.find(trial.id);
      sum.seconds +=
          std::max(0.0, static_cast<double>(*ended - *began) - (image == of_image.end() ? 0 : image->second));
      sum.trials += 1;
    }
  }
  PastTrials past;
  for (const auto& [of, sum] : sums) { past[of] = sum.seconds / sum.trials; }
  return past;
}

void RemainingTime::finished(const PlannedTrial& trial, double seconds) {
  for (auto* sum : {&by_kind_[runs_in_vms(trial.base)], &by_arm_[trial.arm]}) {
    sum->taken += seconds;
    sum->estimated += trial.estimate_seconds;
  }
}

SecondsRange RemainingTime::expected_seconds(const PlannedTrial& trial) const {
  if (const auto arm = by_arm_.find(trial.arm); arm != by_arm_.end()) {
    return proven(trial.estimate_seconds * arm->second.factor());
  }
  if (const auto kind = by_kind_.find(runs_in_vms(trial.base)); kind != by_kind_.end()) {
    return proven(trial.estimate_seconds * kind->second.factor());
  }
  return trial.likely;
}

SecondsRange RemainingTime::seconds_left(const PlannedTrial& present, double elapsed_seconds) const {
  auto expected = expected_seconds(present);
  if (runs_in_vms(present.base)) { expected += image_; }
  SecondsRange left{std::max(0.0, expected.low - elapsed_seconds),
                    std::max(0.0, expected.high - elapsed_seconds)};
  // A trial that takes longer than it should tells of those to come.
  const double overrun = std::max(1.0, elapsed_seconds / expected.high);
  for (const auto& trial : plan_.trials) {
    if (trial.order <= present.order) { continue; }
    const auto other = expected_seconds(trial);
    const bool is_alike = runs_in_vms(trial.base) == runs_in_vms(present.base);
    left += {other.low, other.high * (is_alike ? overrun : 1)};
  }
  if (!runs_in_vms(present.base)) { left += image_; }
  return left;
}

}  // namespace virtrain::harness
