#include "results/changes/change_groups.h"

#include <fmt/format.h>

#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

/// Thirty nights of three series, and changes of them that tests make up.
struct NightsOfThree {
  std::vector<Night> nights;
  std::vector<Series> series;

  NightsOfThree() {
    for (int i = 0; i < 30; ++i) {
      Night night;
      night.number = i;
      night.experiment = fmt::format("n{:02}", i);
      night.started_at = fmt::format("2026-10-{:02}T02:00:00Z", i + 1);
      nights.push_back(night);
    }
    for (const std::string figure : {"a", "b", "c"}) {
      Series one;
      one.scenario = "nightly";
      one.figure = figure;
      for (const auto& night : nights) {
        one.nights.push_back(&night);
        one.values.push_back(100);
      }
      series.push_back(one);
    }
  }
  NightsOfThree(const NightsOfThree&) = delete;
  NightsOfThree& operator=(const NightsOfThree&) = delete;

  Change change(std::size_t of, std::size_t first, double ratio,
                ChangeState state = ChangeState::open) const {
    Change made;
    made.id = fmt::format("{}-{}", of, first);
    made.state = state;
    made.series = &series[of];
    made.level.first = made.level.earliest = made.level.latest = first;
    made.level.ratio = ratio;
    made.level.confirmed_on = first + 2;
    made.regression = ratio < 1;
    return made;
  }
};

Suspect suspect(const std::string& fact, bool fits = true) {
  Suspect one;
  one.fact = fact;
  one.before = "1";
  one.after = "2";
  one.fits = fits;
  return one;
}

}  // namespace

TEST_CASE("changes that began together are one group with the suspects that fit all of them") {
  const NightsOfThree made;
  std::vector<Change> changes{made.change(0, 20, 0.95), made.change(1, 20, 0.9), made.change(2, 21, 0.92)};
  changes[0].suspects = {suspect("label"), suspect("host.kernel")};
  changes[1].suspects = {suspect("host.kernel"), suspect("label"), suspect("driver", false)};
  changes[2].level.earliest = 19;  // the level may have changed a night or two before
  const auto groups = change_groups(changes);
  REQUIRE(groups.size() == 1);
  CHECK(groups[0].largest().id == "1-20");
  CHECK(group_sentence(groups[0]) == "-10.0 to -5.0 % since 2026-10-21 in 3 series");
  CHECK(losses_headline(groups) ==
        "-10.0 to -5.0 % since 2026-10-21 in 3 series; suspects: host.kernel, label");
}

TEST_CASE("another night, another direction and another state are other groups, and open losses lead") {
  const NightsOfThree made;
  const std::vector<Change> changes{
      made.change(0, 15, 0.80, ChangeState::acknowledged), made.change(0, 20, 1.3), made.change(1, 20, 0.95),
      made.change(2, 21, 0.93), made.change(1, 26, 0.5, ChangeState::unconfirmed)};
  const auto groups = change_groups(changes);
  REQUIRE(groups.size() == 5);
  CHECK(groups[0].largest().id == "2-21");
  CHECK(groups[1].largest().id == "1-20");
  CHECK(groups[2].largest().state == ChangeState::unconfirmed);
  CHECK(groups[3].largest().id == "0-20");
  CHECK(groups[4].largest().state == ChangeState::acknowledged);
  CHECK(losses_headline(groups) == "-7.0 % since 2026-10-22 in 1 series. 1 more loss is open");
  CHECK(losses_headline({}).empty());
}
