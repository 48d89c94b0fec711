// What the rule of changes promises, measured on simulated nights with fixed seeds. The table by noise in
// docs/nightly.md is made by scripts/bench changes.
#include <cmath>

#include "results/changes/changes.h"
#include "results/changes/level_changes.h"
#include "tests/results/changes/noise.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

using Nights = std::vector<double>;

Nights known(const std::vector<std::optional<double>>& values) {
  Nights nights;
  for (const auto& value : values) {
    if (value) { nights.push_back(*value); }
  }
  return nights;
}

std::size_t confirmed(const Nights& nights) {
  const auto changes = level_changes(nights);
  return static_cast<std::size_t>(
      std::ranges::count_if(changes, [](const LevelChange& one) { return one.confirmed_on.has_value(); }));
}

/// Alarms of 20 series over a year, where every value is as `bend` makes it.
template <typename Bend>
std::size_t alarms_of_a_year(const NoiseSettings& noise, std::uint64_t seed, Bend&& bend) {
  std::size_t alarms = 0;
  for (std::uint64_t series = 1; series <= 20; ++series) {
    auto nights = known(simulate_nights(seed * 1000 + series, 365, noise));
    for (std::size_t i = 0; i < nights.size(); ++i) { nights[i] = bend(nights[i], i); }
    alarms += confirmed(nights);
  }
  return alarms;
}
std::size_t alarms_of_a_year(const NoiseSettings& noise, std::uint64_t seed) {
  return alarms_of_a_year(noise, seed, [](double value, std::size_t) { return value; });
}

/// Noise of hosts without anything but drift.
NoiseSettings drifting(double sigma) {
  auto noise = plain_noise(sigma);
  noise.drift_per_year = 0.01;
  return noise;
}

constexpr std::size_t night_of_change = 60;

/// A change of a series after 60 nights, as it is known so many nights later.
std::vector<LevelChange> after_loss(std::uint64_t seed, const NoiseSettings& noise, double ratio,
                                    std::size_t nights) {
  auto values = known(simulate_nights(seed, night_of_change + 365, noise, night_of_change, ratio));
  values.resize(night_of_change + nights);
  return level_changes(values);
}

bool is_the_loss(const LevelChange& one) {
  return one.confirmed_on >= night_of_change && one.first + 5 >= night_of_change && one.ratio < 1;
}

}  // namespace

TEST_CASE("a quiet year of 20 series has at most four alarms whatever the noise is") {
  for (const double sigma : {0.002, 0.005, 0.008, 0.01, 0.015, 0.02, 0.03}) {
    INFO(sigma);
    CHECK(alarms_of_a_year(plain_noise(sigma), 1) <= 1);
    CHECK(alarms_of_a_year(rough_noise(sigma), 2) <= 4);
  }
}

TEST_CASE("a loss that lasts is not called mended, with drift or without") {
  std::size_t mended = 0, found = 0, again = 0;
  for (const double sigma : {0.008, 0.012}) {
    for (std::uint64_t seed = 1; seed <= 60; ++seed) {
      const auto noise = seed % 2 == 0 ? drifting(sigma) : plain_noise(sigma);
      const auto changes = after_loss(seed, noise, seed % 3 == 0 ? 0.975 : 0.97, 365);
      const auto loss = std::ranges::find_if(changes, is_the_loss);
      if (loss == changes.end()) { continue; }
      ++found;
      mended += loss->mended_on ? 1 : 0;
      again += loss + 1 != changes.end() && (loss + 1)->confirmed_on ? 1 : 0;
    }
  }
  CHECK(found >= 110);
  CHECK(mended <= 1);
  CHECK(again <= 2);
}

TEST_CASE("a loss that is mended is called so in most series within 15 nights") {
  std::size_t mended = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto nights = known(simulate_nights(seed, 120, plain_noise(0.008), night_of_change, 0.97));
    for (std::size_t i = 100; i < nights.size(); ++i) { nights[i] /= 0.97; }
    nights.resize(115);
    for (const auto& change : level_changes(nights)) {
      mended += is_the_loss(change) && change.mended_on >= 100U && change.back_since >= 98U ? 1 : 0;
    }
  }
  CHECK(mended >= 36);
}

TEST_CASE("the interval of a change holds the truth however many nights follow") {
  const double ratio = 0.95;
  for (const std::size_t nights : {3, 10, 30, 120, 365}) {
    std::size_t shown = 0, holds = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      for (const auto& change : after_loss(seed, drifting(0.005), ratio, nights)) {
        if (!is_the_loss(change) || !change.ci) { continue; }
        ++shown;
        holds += change.ci->low <= ratio && ratio <= change.ci->high ? 1 : 0;
        break;
      }
    }
    INFO(nights);
    CHECK(shown >= 95);
    CHECK(static_cast<double>(holds) >= 0.93 * static_cast<double>(shown));
  }
}

TEST_CASE("an interval of a change that is told where it just looks large enough reaches the truth") {
  std::size_t shown = 0, holds = 0;
  for (std::uint64_t seed = 1; seed <= 400; ++seed) {
    for (const auto& change : after_loss(seed, plain_noise(0.012), 0.975, 5)) {
      if (!is_the_loss(change)) { continue; }
      ++shown;
      holds += change.ci->low <= 0.975 && 0.975 <= change.ci->high ? 1 : 0;
    }
  }
  CHECK(shown >= 30);
  CHECK(static_cast<double>(holds) >= 0.93 * static_cast<double>(shown));
}

TEST_CASE("a ramp over ten nights is one change, and two steps are two") {
  std::size_t once = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    auto nights = known(simulate_nights(seed, 150, plain_noise(0.005)));
    for (std::size_t i = night_of_change; i < nights.size(); ++i) {
      nights[i] *= 1 - 0.10 * std::min(1.0, static_cast<double>(i - night_of_change + 1) / 10);
    }
    const auto changes = level_changes(nights);
    once += changes.size() == 1 ? 1 : 0;
    if (changes.size() == 1) {
      CHECK(changes[0].ratio == Approx(0.90).margin(0.02));
      CHECK(changes[0].settled > changes[0].first);
    }
  }
  CHECK(once >= 47);
  auto nights = known(simulate_nights(1, 150, plain_noise(0.005)));
  for (std::size_t i = night_of_change; i < nights.size(); ++i) {
    nights[i] *= i < night_of_change + 8 ? 0.95 : 0.90;
  }
  CHECK(level_changes(nights).size() == 2);
}

TEST_CASE("a ramp that goes on after it was accepted is told as a change of its own") {
  auto nights = known(simulate_nights(5, 110, plain_noise(0.003)));
  for (std::size_t i = night_of_change; i < nights.size(); ++i) {
    nights[i] *= 1 - 0.10 * std::min(1.0, static_cast<double>(i - night_of_change + 1) / 10);
  }
  const auto accepted = [](std::size_t when) {
    return [when](std::size_t first) { return first < 70 ? std::optional(Accepted{when}) : std::nullopt; };
  };
  CHECK(level_changes(nights, {}, accepted(nights.size())).size() == 1);
  CHECK(level_changes(nights, {}, accepted(night_of_change + 5)).size() >= 2);
}

TEST_CASE("noise that triples is said as noise and seldom told as a change") {
  std::size_t told = 0, said = 0, placed = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    auto nights = known(simulate_nights(seed, 180, plain_noise(0.005)));
    const auto noisier = known(simulate_nights(1000 + seed, 60, plain_noise(0.015)));
    nights.insert(nights.end(), noisier.begin(), noisier.end());
    const auto changes = level_changes(nights);
    told += changes.empty() ? 0 : 1;
    const auto noise = series_noise(nights, changes);
    if (!changes.empty() || !noise.noisier_since) { continue; }
    ++said;
    placed += *noise.noisier_since >= 150 && *noise.noisier_since <= 230 ? 1 : 0;
  }
  CHECK(told <= 4);
  CHECK(said >= 48);
  CHECK(placed >= 45);
}

TEST_CASE("a steady decay is no change, and is said") {
  std::size_t told = 0, said = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    auto nights = known(simulate_nights(seed, 365, plain_noise(0.005)));
    for (std::size_t i = 0; i < nights.size(); ++i) {
      nights[i] *= std::pow(0.9, static_cast<double>(i) / 365);
    }
    const auto changes = level_changes(nights);
    told += changes.empty() ? 0 : 1;
    const auto noise = series_noise(nights, changes);
    said += noise.drift_ratio < 0.94 ? 1 : 0;
    CHECK_FALSE(series_noise(known(simulate_nights(seed, 365, plain_noise(0.005))), {}).drift_ratio);
  }
  CHECK(told <= 2);
  CHECK(said >= 38);
}

TEST_CASE("nights that are slower now and then, and a figure in steps, are what is normal there") {
  std::mt19937_64 random(7);
  const auto one_in_five = [&](double value, std::size_t) {
    return random() % 5 == 0 ? value * 0.97 : value;
  };
  CHECK(alarms_of_a_year(plain_noise(0.003), 3, one_in_five) <= 4);
  const auto in_steps = [](double value, std::size_t) { return 20 * std::round(value / 20 + 0.3); };
  for (const double sigma : {0.003, 0.006, 0.01}) {
    CHECK(alarms_of_a_year(plain_noise(sigma), 4, in_steps) <= 1);
  }
  auto nights = known(simulate_nights(1, 60, plain_noise(0.006)));
  for (auto& night : nights) { night = in_steps(night, 0); }
  REQUIRE(series_noise(nights, {}).step);
  CHECK(*series_noise(nights, {}).step == Approx(0.02).margin(0.001));
}

TEST_CASE("the least loss that a series can tell grows with its noise and is told in four of five times") {
  double last = 0;
  for (const double sigma : {0.003, 0.01, 0.02}) {
    const auto quiet = known(simulate_nights(1, night_of_change, plain_noise(sigma)));
    const auto noise = series_noise(quiet, {});
    REQUIRE(noise.sigma);
    CHECK(*noise.sigma == Approx(sigma).epsilon(0.3));
    CHECK(*noise.least_loss_3_nights > last);
    CHECK(*noise.least_loss_15_nights < *noise.least_loss_3_nights);
    last = *noise.least_loss_3_nights;
  }
  for (const double sigma : {0.01, 0.02}) {
    std::size_t at_once = 0, later = 0;
    for (std::uint64_t seed = 1; seed <= 100; ++seed) {
      const auto before = known(simulate_nights(seed, night_of_change, plain_noise(sigma)));
      const auto noise = series_noise(before, {});
      const auto is_told = [&](double loss, std::size_t nights) {
        const auto changes = after_loss(seed, plain_noise(sigma), 1 - loss, nights);
        return std::ranges::any_of(changes, is_the_loss);
      };
      at_once += is_told(*noise.least_loss_3_nights, 3) ? 1 : 0;
      later += is_told(*noise.least_loss_15_nights, 15) ? 1 : 0;
    }
    CHECK(at_once >= 70);
    CHECK(later >= 70);
  }
}

TEST_CASE("how many nights a series needs is known from its first night on") {
  CHECK(series_noise(Nights{1000}, {}).nights_to_go == 14);
  CHECK_FALSE(series_noise(Nights{1000}, {}).sigma);
  CHECK(series_noise(known(simulate_nights(1, 12, plain_noise(0.005))), {}).nights_to_go == 3);
  CHECK(series_noise(known(simulate_nights(1, 15, plain_noise(0.005))), {}).nights_to_go == 0);
}

TEST_CASE("who accepts a level accepts what led to it, and does not hear of it as a new loss") {
  auto nights = known(simulate_nights(3, 200, plain_noise(0.004)));
  for (std::size_t i = 60; i < nights.size(); ++i) { nights[i] *= i < 100 ? 0.97 : 0.97 * 0.95; }
  const auto second = level_changes(nights).back().first;
  REQUIRE(second >= 99);
  const AcceptedChanges accepted = [&](std::size_t first) {
    return first == second ? std::optional(Accepted{160}) : std::nullopt;
  };
  // Three better nights, which had mended the first loss, and the accepted level again.
  for (std::size_t i = 160; i < 163; ++i) { nights[i] /= 0.95 * 0.97; }
  for (const auto& change : level_changes(nights, {}, accepted)) {
    if (change.first < 160) { CHECK_FALSE(change.mended_on); }
    if (change.confirmed_on && change.first > second) { CHECK(change.ratio > 1); }
  }
}

TEST_CASE("a level of a few nights has the noise of the one before it, without the step between them") {
  auto nights = known(simulate_nights(2, 63, plain_noise(0.004)));
  for (std::size_t i = 60; i < nights.size(); ++i) { nights[i] *= 0.9; }
  const auto changes = level_changes(nights);
  REQUIRE(changes.size() == 1);
  const auto noise = series_noise(nights, changes);
  CHECK(noise.nights == 3);
  CHECK(*noise.sigma == Approx(0.004).epsilon(0.4));
}
