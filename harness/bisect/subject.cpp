#include "harness/bisect/subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/decode.h"
#include "harness/scenario/yaml/scenario_keys.h"
#include "results/reading/reading.h"
#include "results/statistics/statistics.h"

namespace virtrain::harness {
namespace {

using results::Night;
using results::Store;

constexpr std::array<std::string_view, 3> throughput_kinds = {"throughput", "ratio", "efficiency"};

template <typename... Args>
[[noreturn]] void refuse(const std::string& id, ErrorCode code, fmt::format_string<Args...> words,
                         Args&&... args) {
  throw Error("bisect " + excerpt(id), code, fmt::format(words, std::forward<Args>(args)...));
}

/// Mean duration of a trial of an experiment, with boots and all else between its trials.
double trial_seconds(const Store& store, const std::string& experiment) {
  const auto record = store.experiment(experiment);
  const auto trials = store.trials(experiment).size();
  if (!record || record->status != Status::finished || trials == 0) { return 0; }
  const auto began = seconds_of_iso8601(record->started_at);
  const auto ended = seconds_of_iso8601(record->ended_at);
  return began && ended && *ended > *began
             ? static_cast<double>(*ended - *began) / static_cast<double>(trials)
             : 0;
}

/// A stored scenario may be an imported one: it is read as strictly as a file.
void require_sound(const Night& night) {
  if (night.scenario_text.empty()) {
    refuse(night.experiment, ErrorCode::not_found,
           "its scenario is not stored (imported records may lack it), so nothing can be run again");
  }
  decode_scenario(night.scenario_text, "scenario of " + excerpt(night.experiment), true);
}

/// Facts of the same thing once: what an edited or given key sets is no suspect of its own.
void add_facts(const std::vector<results::Suspect>& facts, std::vector<Suspected>& suspects) {
  const auto own = suspects.size();
  const auto is_known = [&](const Suspected& fact) {
    return std::any_of(
        suspects.begin(), suspects.begin() + static_cast<std::ptrdiff_t>(own), [&](const Suspected& one) {
          const auto& key = one.name;
          return key.ends_with("." + fact.name) || (fact.setting && fact.setting->key == key) ||
                 (fact.name == "environment" && key.starts_with("workload.env."));
        });
  };
  for (const auto& one : facts) {
    auto fact = suspected_fact(one);
    if (!is_known(fact)) { suspects.push_back(std::move(fact)); }
  }
}

/// Why the decoder refuses a scenario with this setting; empty: it takes it.
std::string refusal_of(const Subject& subject, const Setting& setting) {
  TwoArms wanted{"bisect", "", subject.case_name, subject.arm, {setting}, {0}, 3, subject.case_key};
  const auto text = two_arm_scenario(subject.text, wanted);
  try {
    decode_scenario(text, "scenario", true);
  } catch (const Error& error) {
    const auto& words = error.message();
    return words.substr(0, words.find('\n'));
  }
  return "";
}

/// A key that a scenario of this kind does not take, on bare metal or without devices, cannot be switched.
void check_settings(Subject& subject) {
  for (auto& suspect : subject.suspects) {
    if (!suspect.setting) { continue; }
    const auto words = refusal_of(subject, *suspect.setting);
    if (words.empty()) { continue; }
    suspect.setting.reset();
    suspect.why_not = fmt::format("this scenario does not take it ({})", words);
  }
}

Subject subject_of(const Store& store, const Night& bad, std::string id, std::string case_name,
                   std::string arm) {
  Subject subject;
  subject.id = std::move(id);
  subject.scenario = bad.scenario;
  subject.text = bad.scenario_text;
  subject.case_name = std::move(case_name);
  subject.arm = std::move(arm);
  subject.trial_seconds = trial_seconds(store, bad.experiment);
  const auto trials = store.trials(bad.experiment);
  const auto same = std::ranges::find(trials, subject.case_name, &results::Trial::case_name);
  if (same != trials.end()) { subject.case_key = same->case_key; }
  return subject;
}

void add_known(const std::vector<Setting>& known, Subject& subject) {
  for (const auto& setting : known) {
    if (const auto why = why_arms_cannot_differ(setting.key); !why.empty()) {
      refuse(subject.id, ErrorCode::usage,
             "--switch {}: {} (allowed: keys below guest and devices, workload.env.NAME, workload.threads)",
             excerpt(setting.key), why);
    }
    if (const auto words = refusal_of(subject, setting); !words.empty()) {
      refuse(subject.id, ErrorCode::usage, "--switch {}: {}", excerpt(setting.key), words);
    }
    subject.suspects.push_back(suspected_setting(setting));
  }
}

const results::Change& find_change(const results::ChangeLog& log, const std::string& id) {
  std::vector<std::string> losses;
  for (const auto& change : log.changes) {
    if (change.id == id) { return change; }
    if (change.regression && change.level.confirmed_on) { losses.push_back(change.id); }
  }
  if (losses.empty()) {
    refuse(id, ErrorCode::not_found, "the database has no confirmed loss (virtrain changes lists changes)");
  }
  const auto near = nearest_word(id, losses);
  refuse(id, ErrorCode::not_found,
         "the database has no such change (losses: {}{}; virtrain changes shows them)", join(losses, ", "),
         near ? "; did you mean " + *near + "?" : "");
}

/// Mean throughput of each case and arm, and unit.
using Means = std::map<std::tuple<std::string, std::string, std::string>, double>;
Means means_of(const Store& store, const std::string& experiment) {
  std::map<std::tuple<std::string, std::string, std::string>, std::vector<double>> values;
  for (const auto& trial : store.trials(experiment)) {
    if (!results::is_usable(trial)) { continue; }
    values[{trial.case_name, trial.arm, trial.throughput->unit}].push_back(trial.throughput->value);
  }
  Means means;
  for (const auto& [where, all] : values) { means[where] = results::mean(all); }
  return means;
}

}  // namespace

std::vector<Suspected> Subject::switched() const {
  std::vector<Suspected> some;
  std::copy_if(suspects.begin(), suspects.end(), std::back_inserter(some),
               [](const Suspected& one) { return one.setting.has_value(); });
  return some;
}

std::vector<Suspected> Subject::others() const {
  std::vector<Suspected> some;
  std::copy_if(suspects.begin(), suspects.end(), std::back_inserter(some),
               [](const Suspected& one) { return !one.setting; });
  return some;
}

Subject subject_of_change(const Store& store, const std::string& id, const std::vector<Setting>& known) {
  const auto log = results::read_changes(store);
  const auto& change = find_change(log, id);
  const auto& figure = change.series->figure;
  if (!change.level.confirmed_on) {
    refuse(id, ErrorCode::usage,
           "it is unconfirmed; three runs at the new level confirm a change, more in a noisy series");
  }
  if (!change.regression) { refuse(id, ErrorCode::usage, "it is a gain; bisect looks for causes of losses"); }
  if (std::ranges::find(throughput_kinds, change.series->kind) == throughput_kinds.end()) {
    refuse(id, ErrorCode::usage, "it is a change of {}; bisect compares throughput (allowed: changes of {})",
           excerpt(figure), fmt::join(throughput_kinds, ", "));
  }
  const auto& bad = change.first_night();
  require_sound(bad);
  auto subject = subject_of(store, bad, id, change.series->case_name, change.series->arm);
  subject.ratio = change.level.ratio;
  add_known(known, subject);
  add_facts(change.suspects, subject.suspects);
  check_settings(subject);
  return subject;
}

Subject subject_of_experiments(const Store& store, const std::string& good_begin,
                               const std::string& bad_begin, const std::string& case_name,
                               const std::string& arm, const std::vector<Setting>& known) {
  const auto good_id = store.full_id(good_begin);
  const auto bad_id = store.full_id(bad_begin);
  const auto id = good_id + ".." + bad_id;
  const auto nights = store.nights();
  const auto night_of = [&](const std::string& experiment) -> const Night& {
    const auto found =
        std::ranges::find_if(nights, [&](const Night& one) { return one.experiment == experiment; });
    if (found == nights.end()) {
      refuse(experiment, ErrorCode::usage, "virtrain bisect made it, so it is not a nightly run");
    }
    require_sound(*found);
    return *found;
  };
  const auto& good = night_of(good_id);
  const auto& bad = night_of(bad_id);
  const auto before = means_of(store, good_id);
  const Means::value_type* worst = nullptr;
  double ratio = 1;
  const auto after = means_of(store, bad_id);
  for (const auto& one : after) {
    const auto& [where, mean] = one;
    const auto& [of_case, of_arm, unit] = where;
    if (!before.contains(where) || (!case_name.empty() && of_case != case_name) ||
        (!arm.empty() && of_arm != arm)) {
      continue;
    }
    if (worst == nullptr || mean / before.at(where) < ratio) {
      worst = &one;
      ratio = mean / before.at(where);
    }
  }
  if (worst == nullptr) {
    refuse(id, ErrorCode::not_found, "no case and arm, of those meant, has a finished valid trial in both");
  }
  const auto& [worst_case, worst_arm, unit_of_both] = worst->first;
  if (ratio >= 1) {
    refuse(id, ErrorCode::usage, "{} in {} did not get slower", excerpt(worst_case), excerpt(worst_arm));
  }
  auto subject = subject_of(store, bad, id, worst_case, worst_arm);
  subject.ratio = ratio;
  if (good.scenario != bad.scenario) {
    subject.doubt = fmt::format(
        "{} ran the scenario {}, {} the scenario {}: all that differs between them counts as edited",
        excerpt(good_id), excerpt(good.scenario), excerpt(bad_id), excerpt(bad.scenario));
  }
  add_known(known, subject);
  for (const auto& setting :
       edited_settings(good.scenario_text, bad.scenario_text, subject.case_of_file(), subject.arm)) {
    const bool is_given = std::ranges::any_of(known, [&](const Setting& one) {
      return is_at_or_below(one.key, setting.key) || is_at_or_below(setting.key, one.key);
    });
    if (!is_given) { subject.suspects.push_back(suspected_setting(setting)); }
  }
  const results::NightFacts good_facts[] = {
      results::facts_of(good, store.night_facts(good.number), subject.case_name)};
  const results::NightFacts bad_facts[] = {
      results::facts_of(bad, store.night_facts(bad.number), subject.case_name)};
  add_facts(results::rank_suspects(good_facts, bad_facts), subject.suspects);
  check_settings(subject);
  return subject;
}

namespace {

constexpr std::size_t most_shown_bytes = 60;

/// A fact that a key of the scenario sets. "250 W" of the facts is "250W" of the scenario.
struct FactKey {
  std::string_view fact, key, unit;
};
constexpr FactKey fact_keys[] = {
    {"power_limit", "devices.settings.power_limit", "W"},
    {"clocks", "devices.settings.graphics_clock", "MHz"},
    {"ecc", "devices.settings.ecc", ""},
    {"mig", "devices.settings.mig", ""},
    {"vgpu_scheduler", "devices.vgpu_scheduler", ""},
    {"threads_per_rank", "workload.threads", ""},
};

/// How somebody tries a fact that no key sets.
struct ByHand {
  std::string_view fact, words;
};
constexpr ByHand by_hand[] = {
    {"label", "say which key it stands for: --switch KEY OLD NEW"},
    {"host", "run the scenario on both hosts and compare them: compare --baseline host:…"},
    {"virtrain", "run the scenario with both versions, each with a --label, and compare the labels"},
};
constexpr std::string_view put_it_back =
    "put the old one back, run the scenario with a --label, and compare with that of now";

/// The value as a scenario writes it; nothing for a list of several, or a word where a number must be.
std::optional<std::string> scenario_value(const std::string& value, std::string_view unit) {
  if (value.find(',') != std::string::npos) { return std::nullopt; }
  if (unit.empty()) { return lower(value); }  // drivers write EQUAL_SHARE, and Enabled
  const auto suffix = " " + std::string(unit);
  if (!value.ends_with(suffix)) { return std::nullopt; }
  auto number = value.substr(0, value.size() - suffix.size());
  if (!parse_number(number)) { return std::nullopt; }
  return number.append(unit);
}

std::string value_words(const std::optional<std::string>& value) {
  return value ? excerpt(*value, most_shown_bytes) : not_set;
}

}  // namespace

std::string Suspected::words() const {
  return fmt::format("{}: {} → {}", excerpt(setting ? setting->key : name),
                     setting ? value_words(setting->before) : excerpt(before, most_shown_bytes),
                     setting ? value_words(setting->after) : excerpt(after, most_shown_bytes));
}

Suspected suspected_fact(const results::Suspect& suspect) {
  Suspected result{suspect.fact, suspect.before, suspect.after, {}, {}};
  for (const auto& [fact, key, unit] : fact_keys) {
    if (fact != results::without_host(suspect.fact)) { continue; }
    const auto before = scenario_value(suspect.before, unit);
    const auto after = scenario_value(suspect.after, unit);
    if (before && after) { result.setting = Setting{std::string(key), before, after}; }
  }
  if (result.setting) { return result; }
  const auto* const row = std::ranges::find_if(
      by_hand, [&](const ByHand& one) { return one.fact == results::without_host(suspect.fact); });
  result.why_not = row == std::end(by_hand) ? put_it_back : row->words;
  return result;
}

Suspected suspected_setting(const Setting& setting) {
  Suspected result{setting.key, setting.before.value_or(not_set), setting.after.value_or(not_set), {}, {}};
  const auto why = why_arms_cannot_differ(setting.key);
  if (why.empty()) {
    result.setting = setting;
  } else {
    result.why_not = why;
  }
  return result;
}

}  // namespace virtrain::harness
