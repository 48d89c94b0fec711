#include "results/changes/suspects.h"

#include <fmt/format.h>

#include <random>

#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

std::size_t below(std::mt19937_64& random, std::size_t limit) {
  return static_cast<std::size_t>(random() % limit);
}

/// Fifty nights of a host that is looked after: facts change now and then without consequences, some in every
/// night, some flip to and fro. From night 30 on `culprit` has a value of its own.
std::vector<NightFacts> nights_of_a_host(std::uint64_t seed, const std::string& culprit,
                                         std::size_t change_at, std::size_t nights) {
  std::mt19937_64 random(seed);
  const std::vector<std::string> facts{
      "kernel",        "driver", "microcode", "bios",  "host.governor", "mitigations", "host.qemu", "libvirt",
      "trainer_build", "nccl",   "virtrain",  "cudnn", "package.mpi",   "open_mpi",    "host.smt",  "host"};
  std::map<std::string, int> versions;
  std::vector<NightFacts> all;
  for (std::size_t night = 0; night < nights; ++night) {
    // Updates come at weekends, two of them at a time, and sometimes in the same night as the culprit.
    if (night % 7 == 5) {
      for (int updates = 0; updates < 2; ++updates) {
        const auto& fact = facts[below(random, facts.size())];
        if (fact != culprit) { ++versions[fact]; }
      }
    }
    if (night == change_at) { versions[culprit] += 1; }
    NightFacts here;
    for (const auto& fact : facts) { here[fact] = {fmt::format("{}-{}", fact, versions[fact])}; }
    here["session"] = {fmt::format("{}", random())};
    here["command_line"] = {random() % 3 == 0 ? "quiet" : "verbose"};
    all.push_back(std::move(here));
  }
  return all;
}

}  // namespace

TEST_CASE("the culprit is named first in at least 45 of 50 planted changes") {
  const std::vector<std::string> culprits{"kernel",      "driver",       "microcode", "host.governor",
                                          "mitigations", "host.qemu",    "nccl",      "package.mpi",
                                          "virtrain",    "trainer_build"};
  std::size_t first = 0;
  std::size_t named = 0;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::mt19937_64 random(seed * 7919);
    const auto& culprit = culprits[below(random, culprits.size())];
    const std::size_t change_at = 20 + below(random, 15);
    const auto nights = nights_of_a_host(seed, culprit, change_at, change_at + 3 + below(random, 5));
    const auto suspects =
        rank_suspects(std::span(nights).first(change_at), std::span(nights).subspan(change_at));
    first += !suspects.empty() && suspects.front().fact == culprit ? 1 : 0;
    for (const auto& one : suspects) { named += one.fact == culprit ? 1 : 0; }
  }
  CHECK(first >= 45);
  CHECK(named == 50);
}

TEST_CASE("what changes every night or did not change is no suspect") {
  const std::vector<NightFacts> good{{{"kernel", {"1"}}, {"pid", {"1"}}},
                                     {{"kernel", {"1"}}, {"pid", {"2"}}}};
  const std::vector<NightFacts> bad{{{"kernel", {"1"}}, {"pid", {"3"}}},
                                    {{"kernel", {"1"}}, {"pid", {"4"}}},
                                    {{"kernel", {"1"}}, {"pid", {"5"}}}};
  CHECK(rank_suspects(good, bad).empty());
  CHECK(rank_suspects({}, bad).empty());
  CHECK(rank_suspects(good, {}).empty());
}

TEST_CASE("a suspect says what was before and after, and host and guests name one fact once") {
  const std::vector<NightFacts> good(5, {{"driver", {"470"}}, {"host.driver", {"470"}}});
  const std::vector<NightFacts> bad(3, {{"driver", {"580"}}, {"host.driver", {"580"}}});
  const auto suspects = rank_suspects(good, bad);
  REQUIRE(suspects.size() == 1);
  CHECK(suspects[0].before == "470");
  CHECK(suspects[0].after == "580");
  CHECK(suspects[0].fit == 1);
  CHECK(suspects[0].at_the_change);
}

TEST_CASE("a fact that changed some nights before the loss says from what, and that it was earlier") {
  std::vector<NightFacts> good(9, {{"label", {"libs-5"}}});
  good.insert(good.end(), 3, {{"label", {"libs-6"}}});
  const std::vector<NightFacts> bad(5, {{"label", {"libs-6"}}});
  const auto suspects = rank_suspects(good, bad);
  REQUIRE(suspects.size() == 1);
  CHECK(suspects[0].before == "libs-5");
  CHECK(suspects[0].after == "libs-6");
  CHECK(suspects[0].earlier);
  CHECK_FALSE(suspects[0].at_the_change);
}

TEST_CASE("what changed on other nights than the level does not fit, and all that changed with it do") {
  std::vector<NightFacts> good(
      12, {{"label", {"libs-5"}}, {"kernel", {"1"}}, {"driver", {"470"}}, {"qemu", {"7"}}});
  for (std::size_t i = 9; i < good.size(); ++i) { good[i]["label"] = {"libs-6"}; }
  std::vector<NightFacts> bad(
      4, {{"label", {"libs-6"}}, {"kernel", {"1"}}, {"driver", {"470"}}, {"qemu", {"7"}}});
  auto suspects = rank_suspects(good, bad);
  REQUIRE(suspects.size() == 1);
  CHECK_FALSE(suspects[0].fits);
  // Where the level may have changed three nights earlier it fits.
  CHECK(rank_suspects(good, bad, {3, 0})[0].fits);
  for (auto& night : bad) { night["driver"] = night["qemu"] = {"580"}; }
  suspects = rank_suspects(good, bad);
  REQUIRE(suspects.size() == 3);
  CHECK(suspects[0].fits);
  CHECK(suspects[1].fits);
  CHECK_FALSE(suspects[2].fits);
  CHECK(suspects[2].fact == "label");
}

TEST_CASE("where the culprit is not stored, a suspect is named only if it changed in the same night") {
  std::size_t named = 0, with_it = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed * 104729);
    const std::size_t change_at = 20 + below(random, 15);
    auto nights = nights_of_a_host(seed, "not stored", change_at, change_at + 5);
    for (auto& night : nights) { night.erase("not stored"); }
    with_it += change_at % 7 == 5 ? 1 : 0;  // when updates come
    const auto suspects =
        rank_suspects(std::span(nights).first(change_at), std::span(nights).subspan(change_at));
    named += std::ranges::any_of(suspects, &Suspect::fits) ? 1 : 0;
  }
  CHECK(named <= with_it);
  CHECK(with_it < 20);
}
