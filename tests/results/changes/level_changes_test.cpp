#include "results/changes/level_changes.h"

#include <limits>

#include "tests/results/changes/noise.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

using Nights = std::vector<double>;

const Nights shape{3, -5, 8, -2, 0, 6, -7, 4, -1, 2};

/// So many nights around a level.
Nights& add(Nights& nights, std::size_t count, double level) {
  for (std::size_t i = 0; i < count; ++i) {
    nights.push_back(level * (1 + shape[nights.size() % shape.size()] / 1000));
  }
  return nights;
}

Nights usual() {
  Nights nights;
  return add(nights, 30, 1000);
}

/// Somebody took the change that began on that night for the new normal when so many nights were known.
AcceptedChanges accepting(std::size_t change, std::size_t nights) {
  return [=](std::size_t first) { return first == change ? std::optional(Accepted{nights}) : std::nullopt; };
}

/// Nights that were measured; where the change lies among them.
struct Measured {
  Nights nights;
  std::size_t first_changed = 0;
};
Measured measured(const std::vector<std::optional<double>>& values, std::size_t change_at = SIZE_MAX) {
  Measured result;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) { continue; }
    result.first_changed += i < change_at ? 1 : 0;
    result.nights.push_back(*values[i]);
  }
  return result;
}

}  // namespace

TEST_CASE("no change: no history, one value over and over, and a level that stays") {
  CHECK(level_changes({}).empty());
  CHECK(level_changes(Nights{1000}).empty());
  CHECK(level_changes(Nights(100, 42)).empty());
  CHECK(level_changes(usual()).empty());
}

TEST_CASE("three nights confirm a loss, two do not") {
  auto nights = usual();
  add(nights, 2, 970);
  auto changes = level_changes(nights);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].first == 30);
  CHECK_FALSE(changes[0].confirmed_on);
  add(nights, 1, 970);
  changes = level_changes(nights);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].first == 30);
  CHECK(changes[0].confirmed_on == 32U);
  CHECK_FALSE(changes[0].large);
  add(nights, 12, 970);
  changes = level_changes(nights);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].first == 30);
  CHECK(changes[0].confirmed_on == 32U);
  CHECK(changes[0].ratio == Approx(0.97).margin(0.003));
  REQUIRE(changes[0].ci);
  CHECK(changes[0].ci->low < 0.97);
  CHECK(changes[0].ci->high > 0.97);
  CHECK(changes[0].before == Approx(1000).epsilon(0.003));
}

TEST_CASE("a large loss is marked, and a gain is a change too") {
  auto nights = usual();
  add(nights, 3, 880);
  REQUIRE(level_changes(nights).size() == 1);
  CHECK(level_changes(nights)[0].large);
  nights = usual();
  add(nights, 3, 1040);
  REQUIRE(level_changes(nights).size() == 1);
  CHECK(level_changes(nights)[0].ratio > 1);
  CHECK(level_changes(nights)[0].confirmed_on);
}

TEST_CASE("one odd night and a pair of them stay silent once the level is back") {
  auto nights = usual();
  add(nights, 1, 850);
  REQUIRE(level_changes(nights).size() == 1);
  CHECK_FALSE(level_changes(nights)[0].confirmed_on);
  add(nights, 10, 1000);
  CHECK(level_changes(nights).empty());
  add(nights, 2, 900);
  add(nights, 10, 1000);
  CHECK(level_changes(nights).empty());
}

TEST_CASE("a loss of less than two per cent is not worth a message") {
  auto nights = usual();
  add(nights, 20, 985);
  CHECK(level_changes(nights).empty());
}

TEST_CASE("a level that comes back mends the change, and the history goes on with it") {
  auto nights = usual();
  add(nights, 6, 950);
  add(nights, 2, 1000);
  CHECK_FALSE(level_changes(nights)[0].mended_on);
  add(nights, 1, 1000);
  auto changes = level_changes(nights);
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].mended_on == 38U);
  CHECK(changes[0].ratio == Approx(0.95).margin(0.005));
  // At once, without a new history of twelve nights.
  add(nights, 3, 950);
  changes = level_changes(nights);
  REQUIRE(changes.size() == 2);
  CHECK(changes[1].first == 39);
  CHECK(changes[1].confirmed_on == 41U);
}

TEST_CASE("an accepted change is the new normal: going back is a change of its own") {
  auto nights = usual();
  add(nights, 20, 950);
  add(nights, 3, 1000);
  const auto changes = level_changes(nights, {}, accepting(30, nights.size()));
  REQUIRE(changes.size() == 2);
  CHECK_FALSE(changes[0].mended_on);
  CHECK(changes[1].first == 50);
  CHECK(changes[1].ratio > 1);
}

TEST_CASE("a second loss soon after the first is a change of its own, also where the first was accepted") {
  auto nights = usual();
  add(nights, 4, 970);
  add(nights, 3, 650);
  for (const bool accepted : {false, true}) {
    const auto changes = level_changes(nights, {}, accepted ? accepting(30, 37) : AcceptedChanges{});
    REQUIRE(changes.size() == 2);
    CHECK(changes[0].first == 30);
    CHECK(changes[0].ratio == Approx(0.97).margin(0.005));
    CHECK(changes[1].first == 34);
    CHECK(changes[1].confirmed_on == 36U);
    CHECK(changes[1].ratio == Approx(650.0 / 970).margin(0.01));
    CHECK(changes[1].large);
  }
}

TEST_CASE("losses on top of each other are mended one by one or all at once") {
  auto nights = usual();
  add(nights, 6, 970);
  add(nights, 6, 880);
  auto at_once = nights;
  add(at_once, 3, 1000);
  const auto both = level_changes(at_once);
  REQUIRE(both.size() == 2);
  CHECK(both[0].mended_on == 44U);
  CHECK(both[1].mended_on == 44U);
  CHECK(both[0].ratio == Approx(0.97).margin(0.005));

  add(nights, 3, 970);
  const auto one = level_changes(nights);
  REQUIRE(one.size() == 2);
  CHECK_FALSE(one[0].mended_on);
  CHECK(one[1].mended_on == 44U);
  add(nights, 3, 1000);
  const auto rest = level_changes(nights);
  REQUIRE(rest.size() == 2);
  CHECK(rest[0].mended_on == 47U);
}

TEST_CASE("what a night made certain stays as it is, however many nights follow") {
  NoiseSettings noise;
  const auto all = measured(simulate_nights(17, 200, noise, 120, 0.95)).nights;
  std::vector<LevelChange> confirmed;
  for (std::size_t nights = 1; nights <= all.size(); ++nights) {
    std::vector<LevelChange> now = level_changes(std::span(all).first(nights));
    std::erase_if(now, [](const LevelChange& one) { return !one.confirmed_on; });
    REQUIRE(now.size() >= confirmed.size());
    for (std::size_t i = 0; i < confirmed.size(); ++i) {
      CHECK(now[i].first == confirmed[i].first);
      CHECK(now[i].confirmed_on == confirmed[i].confirmed_on);
    }
    confirmed = now;
  }
  CHECK(confirmed.size() == 1);
}

TEST_CASE("values that no figure can have are refused") {
  CHECK_THROWS_WITH(level_changes(Nights{1, 2, 0}), Contains("nights, value 3"));
  CHECK_THROWS_WITH(level_changes(Nights{1, std::numeric_limits<double>::quiet_NaN()}),
                    Contains("nights, value 2"));
}

TEST_CASE("a part of the simulation: few false alarms, and losses of 3 % found in three nights") {
  std::size_t false_alarms = 0;
  for (std::uint64_t series = 1; series <= 20; ++series) {
    NoiseSettings noise;
    noise.sigma = 0.002 + 0.0003 * static_cast<double>(series);
    noise.autocorrelation = 0.025 * static_cast<double>(series);
    for (const auto& change : level_changes(measured(simulate_nights(series, 365, noise)).nights)) {
      false_alarms += change.confirmed_on ? 1 : 0;
    }
  }
  CHECK(false_alarms <= 4);
  std::size_t found = 0, found_later = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    constexpr std::size_t change_at = 60;
    const auto [nights, first] =
        measured(simulate_nights(1000 + seed, change_at + 60, {}, change_at, 0.97), change_at);
    const auto changes = level_changes(std::span(nights).first(first + 3));
    found += !changes.empty() && changes.back().confirmed_on && changes.back().ratio < 1 ? 1 : 0;
    for (const auto& change : level_changes(nights)) {
      found_later += change.confirmed_on > first + 12 ? 1 : 0;
    }
  }
  CHECK(found >= 90);
  CHECK(found_later <= 4);  // two months after the loss, of which nobody should hear again
}
