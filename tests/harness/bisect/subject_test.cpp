#include "harness/bisect/subject.h"

#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

std::string scenario_text(const std::string& environment) {
  return "name: nightly\n"
         "workload: {steps: 2, env: {" +
         environment +
         "}}\n"
         "guest: {vcpus: 1, memory: 768MiB}\n"
         "cases: [{name: one, tenants: [{nodes: 1}]}]\n"
         "arms: [bare_metal, vm]\n";
}

/// Nights in one database: those from `bad` on are slower and have another label.
struct Nights {
  explicit Nights(int count, int bad, const std::string& text = scenario_text("A: x")) {
    for (int i = 0; i < count; ++i) { add("n" + std::to_string(10 + i), i >= bad ? 90 : 100, text); }
  }
  void add(const std::string& id, double rate, const std::string& text,
           const std::string& scenario = "nightly") {
    auto experiment = results::an_experiment(id);
    experiment.scenario = scenario;
    experiment.scenario_text = text;
    experiment.label = rate < 100 ? "mpi-5" : "mpi-4";
    experiment.ended_at = "2026-11-20T08:01:00.000Z";
    experiment.status = Status::finished;
    store.add_experiment(experiment);
    const double jitter = 1 + 0.001 * (++added % 4);
    results::add_finished(store, id, "one", "bare_metal", 1, 200 * jitter);
    results::add_finished(store, id, "one", "vm", 1, rate * jitter);
  }
  std::string change() const { return results::read_changes(store, "/vm/images").changes.at(0).id; }

  TemporaryFolder folder;
  results::Store store{folder.path / "r.db"};
  int added = 0;
};

std::string refusal(const Nights& nights, const std::string& id, const std::vector<Setting>& known = {}) {
  return results::error_of([&] { subject_of_change(nights.store, id, known); }).message();
}

}  // namespace

TEST_CASE("a change gives its case, arm, loss and suspects, and what it takes comes from stored trials") {
  const Nights nights(18, 15);
  const auto subject = subject_of_change(nights.store, nights.change(), {{"workload.env.LIB", "4", "5"}});
  CHECK(subject.case_name == "one");
  CHECK(subject.arm == "vm");
  CHECK(subject.ratio == Approx(0.9).margin(0.01));
  CHECK(subject.trial_seconds == 30);
  REQUIRE(subject.switched().size() == 1);
  REQUIRE(subject.others().size() == 1);
  CHECK(subject.others()[0].name == "label");
}

TEST_CASE("what is no loss to bisect is refused, with what is allowed") {
  const Nights nights(18, 15);
  auto near = nights.change();
  near.back() = near.back() == 'a' ? 'b' : 'a';
  CHECK_THAT(refusal(nights, near), Contains("losses: ") && Contains("did you mean " + nights.change()));
  CHECK_THAT(refusal(Nights(15, 15), "1f3a90c2"), Contains("no confirmed loss"));
  const Nights odd(16, 15);
  CHECK_THAT(refusal(odd, odd.change()), Contains("unconfirmed"));
  const Nights unreadable(18, 15, "name: nightly\n");
  CHECK_THAT(refusal(unreadable, unreadable.change()), Contains("guest"));
  CHECK_THAT(refusal(nights, nights.change(), {{"workload.batch_size", "1", "2"}}), Contains("--switch"));
  CHECK_THAT(refusal(nights, nights.change(), {{"guest.pinning", "none", "sideways"}}), Contains("sideways"));
  CHECK_THAT(refusal(nights, nights.change(), {{"devices.settings.ecc", "on", "off"}}), Contains("devices"));
}

TEST_CASE("two experiments give what was edited between them, where the loss is largest") {
  Nights nights(1, 9);
  nights.add("edited", 80, scenario_text("A: y, B: '1'"));
  const auto subject = subject_of_experiments(nights.store, "n10", "edit", "", "", {});
  CHECK(subject.arm == "vm");
  CHECK(subject.ratio == Approx(0.8).margin(0.01));
  REQUIRE(subject.switched().size() == 2);
  CHECK(subject.switched()[0].words() == "workload.env.A: x → y");
  CHECK(subject.others().size() == 1);
  CHECK(results::error_of([&] {
          subject_of_experiments(nights.store, "n10", "nothing", "", "", {});
        }).code() == ErrorCode::not_found);
  CHECK_THAT(results::error_of([&] {
               subject_of_experiments(nights.store, "edited", "n10", "", "vm", {});
             }).message(),
             Contains("did not get slower"));
}

TEST_CASE("a setting that is given stands for the edit of its key, and two scenarios are doubted") {
  Nights nights(1, 9);
  nights.add("edited", 80, scenario_text("A: y, B: '1'"), "weekly");
  const auto subject =
      subject_of_experiments(nights.store, "n10", "edited", "", "", {{"workload.env.A", "x", "z"}});
  REQUIRE(subject.switched().size() == 2);
  CHECK(subject.switched()[0].words() == "workload.env.A: x → z");
  CHECK(subject.switched()[1].words() == "workload.env.B: not set → 1");
  CHECK_THAT(subject.doubt, Contains("weekly"));
  nights.add("again", 80, scenario_text("A: y"));
  CHECK(subject_of_experiments(nights.store, "n10", "again", "", "", {}).doubt.empty());
}

TEST_CASE("what bisect ran is no night") {
  Nights nights(18, 15);
  const auto before = results::read_changes(nights.store);
  nights.add("b1", 50, scenario_text("A: x"), "nightly.bisect");
  const auto after = results::read_changes(nights.store);
  CHECK(after.nights.size() == before.nights.size());
  CHECK(after.series.size() == before.series.size());
  CHECK(nights.store.list_experiments().size() == 19);
}
