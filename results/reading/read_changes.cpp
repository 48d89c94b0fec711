#include "results/reading/read_changes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

constexpr std::size_t most_nights_of_facts = 20;

/// Facts of nights, each read once however many series ask.
class FactsOfNights {
 public:
  explicit FactsOfNights(const Store& store) : store_(store) {}

  /// Those of the nights [begin, end) of a series.
  std::vector<NightFacts> between(const Series& series, std::size_t begin, std::size_t end) {
    std::vector<NightFacts> facts;
    for (std::size_t i = begin; i < end; ++i) {
      const Night& night = *series.nights[i];
      const auto [known, is_new] = nights_.try_emplace(night.number);
      if (is_new) { known->second = store_.night_facts(night.number); }
      facts.push_back(facts_of(night, known->second, series.case_name));
    }
    return facts;
  }

 private:
  const Store& store_;
  std::map<std::int64_t, std::vector<ArmFact>> nights_;
};

std::vector<Suspect> suspects_of(FactsOfNights& facts, const Change& change) {
  const auto& level = change.level;
  const std::size_t first = level.first;
  const std::size_t begin = first - std::min(first, most_nights_of_facts);
  const std::size_t last = level.back_since.value_or(change.series->nights.size());
  const std::size_t end = std::min(last, first + most_nights_of_facts);
  const auto good = facts.between(*change.series, begin, first);
  const auto bad = facts.between(*change.series, first, end);
  return rank_suspects(good, bad, {first - level.earliest, level.latest - first});
}

SeriesNoise noise_of(const Series& series, std::span<const Change> changes, const ChangeRule& rule) {
  std::vector<LevelChange> levels;
  for (const auto& change : changes) {
    if (change.series == &series) { levels.push_back(change.level); }
  }
  return series_noise(series.values, levels, rule);
}

ChangeLog read_where(const Store& store, const std::function<bool(const Series&)>& counts,
                     const ChangeRule& rule) {
  ChangeLog log;
  log.nights = store.nights();
  log.series = series_of(log.nights, store.night_figures());
  std::erase_if(log.series, [&](const Series& one) { return !counts(one); });
  const auto acknowledgements = store.acknowledgements();
  log.changes = find_changes(log.series, acknowledgements, rule);
  for (const auto& one : log.series) { log.noise.push_back(noise_of(one, log.changes, rule)); }
  FactsOfNights facts(store);
  for (auto& change : log.changes) {
    if (change.level.confirmed_on) { change.suspects = suspects_of(facts, change); }
  }
  return log;
}

}  // namespace

ChangeLog read_changes(const Store& store, const std::string& series_text, const ChangeRule& rule) {
  const auto has_text = [&](const Series& one) { return one.name().find(series_text) != std::string::npos; };
  return read_where(store, has_text, rule);
}

ChangeLog read_changes_of(const Store& store, const std::string& scenario) {
  return read_where(store, [&](const Series& one) { return one.scenario == scenario; }, {});
}

void acknowledge(Store& store, const std::string& change, const std::string& why, const std::string& now) {
  const std::string operation = "acknowledge change " + change;
  constexpr std::size_t most_bytes = 1000;
  if (trim(why).empty() || why.size() > most_bytes || find_invalid_utf8(why) != std::string::npos) {
    throw Error(operation, ErrorCode::usage, "say why, in at most 1000 bytes of UTF-8");
  }
  const auto log = read_changes(store);
  const auto found = std::ranges::find_if(log.changes, [&](const Change& one) { return one.id == change; });
  if (found == log.changes.end()) {
    throw Error(operation, ErrorCode::not_found,
                "the database has no such change; virtrain changes lists them");
  }
  if (!found->level.confirmed_on || found->level.mended_on) {
    throw Error(operation, ErrorCode::usage,
                fmt::format("it is {}, there is nothing to acknowledge", to_string(found->state)));
  }
  store.acknowledge({change, why, now});
}

}  // namespace virtrain::results
