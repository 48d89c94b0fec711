#include "harness/bisect/steps.h"

#include <cmath>
#include <random>

#include "common/error.h"
#include "harness/scenario/decode/decode.h"
#include "results/statistics/sequential.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

constexpr const char* two_arms =
    "name: nightly\n"
    "workload: {steps: 2, env: {A: old, KEPT: 'yes'}}\n"
    "guest: {vcpus: 1, memory: 768MiB}\n"
    "cases:\n"
    "  - {name: one, tenants: [{nodes: 1}]}\n"
    "  - {name: weak, scale: {nodes: [1, 2], ranks_per_node: 1}}\n"
    "arms: [bare_metal, vm, {name: vm-free, like: vm, guest: {pinning: none}}]\n"
    "pairs: 2\n";

Subject a_subject() {
  Subject subject;
  subject.id = "1f3a90c2";
  subject.scenario = "nightly";
  subject.text = two_arms;
  subject.case_name = "one";
  subject.arm = "vm-free";
  subject.ratio = 0.9;
  subject.suspects = {suspected_setting({"workload.env.A", "old", "new"}),
                      suspected_setting({"workload.env.B", std::nullopt, "1"}),
                      suspected_fact({"kernel", "6.1.0", "6.1.5", 1, true}),
                      suspected_setting({"guest.hugepages", "true", std::nullopt})};
  return subject;
}

results::RatioTest a_test(results::Verdict verdict, double low, double ratio, double high) {
  results::RatioTest test;
  test.verdict = verdict;
  test.ratio = ratio;
  test.ci_tost = results::Interval{low, high};
  return test;
}

Step a_step(Suspects tried, StepOutcome outcome, double ratio) {
  return {std::move(tried), outcome, ratio, results::Interval{ratio - 0.01, ratio + 0.01}, 4, "e"};
}

}  // namespace

TEST_CASE("a step is a scenario of one case in two arms that differ in what is tried") {
  const auto scenario = decode_scenario(step_scenario(a_subject(), {0, 1}, {8, 7}), "x", true);
  CHECK(scenario.name == "nightly.bisect");
  CHECK_THAT(scenario.description, Contains("bisect 1f3a90c2") && Contains("seed 7"));
  CHECK(scenario.pairs == 8);
  REQUIRE(scenario.until);
  CHECK(scenario.until->verdict);
  REQUIRE(scenario.cases.size() == 1);
  REQUIRE(scenario.arms.size() == 2);
  CHECK(scenario.arms[0].base == "vm");
  using Environment = std::map<std::string, std::string>;
  const auto& good = scenario.arms[0].cases[0];
  const auto& tried = scenario.arms[1].cases[0];
  CHECK(good.tenants[0].workload.environment == Environment{{"A", "old"}, {"KEPT", "yes"}});
  CHECK(tried.tenants[0].workload.environment == Environment{{"A", "new"}, {"B", "1"}, {"KEPT", "yes"}});
  CHECK(good.guest.pinning == Pinning::none);  // of the arm that got slower
  CHECK(good.guest.hugepages);
  CHECK(tried.guest.hugepages);
  const auto all = decode_scenario(step_scenario(a_subject(), {0, 1, 2}, {8, 7}), "x", true);
  CHECK_FALSE(all.arms[1].cases[0].guest.hugepages);
}

TEST_CASE("a text that looks like a list stays a text, and a list a list") {
  auto subject = a_subject();
  subject.suspects = {suspected_setting({"workload.env.A", "[1", "[1,2]"})};
  const auto scenario = decode_scenario(step_scenario(subject, {0}, {8, 7}), "x", true);
  CHECK(scenario.arms[0].cases[0].tenants[0].workload.environment.at("A") == "[1");
  CHECK(scenario.arms[1].cases[0].tenants[0].workload.environment.at("A") == "[1,2]");
  const auto with = [](const char* address) {
    return std::string(two_arms) + "devices: {nics: {select: {address: [" + address + "]}}}\n";
  };
  const auto edited = edited_settings(with("a"), with("b"), "one", "vm");
  CHECK(edited == std::vector<Setting>{{"devices.nics.select.address", "[a]", "[b]", true}});
  subject.suspects = {suspected_setting(edited.at(0))};
  CHECK_THAT(step_scenario(subject, {0}, {8, 7}), Contains("address: [b]"));
}

TEST_CASE("what a case sets itself was not changed by the scenario, unless an arm wins over it") {
  const auto with = [](const char* value, const char* arms) {
    return std::string("name: nightly\nworkload: {env: {A: ") + value +
           "}}\nguest: {vcpus: 1, memory: 768MiB}\ncases:\n"
           "  - {name: own, workload: {env: {A: b}}, tenants: [{nodes: 1}]}\n"
           "  - {name: each, tenants: [{nodes: 1, workload: {env: {A: b}}}, {nodes: 1, workload: {env: {A: "
           "c}}}]}\n"
           "  - {name: some, tenants: [{nodes: 1, workload: {env: {A: b}}}, {nodes: 1}]}\n" +
           arms;
  };
  CHECK(edited_settings(with("a", ""), with("c", ""), "own", "vm").empty());
  CHECK(edited_settings(with("a", ""), with("c", ""), "each", "vm").empty());
  CHECK(edited_settings(with("a", ""), with("c", ""), "some", "vm").size() == 1);
  constexpr const char* old_arm = "arms: [bare_metal, vm, {name: mine, like: vm, workload: {env: {A: x}}}]\n";
  constexpr const char* new_arm = "arms: [bare_metal, vm, {name: mine, like: vm, workload: {env: {A: y}}}]\n";
  CHECK(edited_settings(with("a", old_arm), with("a", new_arm), "own", "mine").size() == 1);
}

TEST_CASE("one size of a weak scaling is run alone") {
  auto subject = a_subject();
  subject.case_name = "weak/2";
  subject.case_key = {"weak", 2, {}};
  subject.arm = "vm";
  const auto scenario = decode_scenario(step_scenario(subject, {0}, {8, 7}), "x", true);
  REQUIRE(scenario.cases.size() == 1);
  CHECK(scenario.cases[0].name == "weak/2");
}

TEST_CASE("what no two arms can be made of is refused in words") {
  const auto words = [](const char* arm, const char* case_name, const CaseKey& key = {}) {
    auto subject = a_subject();
    subject.arm = arm;
    subject.case_name = case_name;
    subject.case_key = key;
    try {
      step_scenario(subject, {0}, {});
    } catch (const Error& error) { return error.message(); }
    return std::string();
  };
  CHECK_THAT(words("tpu", "one"), Contains("no arm tpu"));
  CHECK_THAT(words("vm", "two"), Contains("no case two"));
  CHECK_THAT(words("vm", "one@batch_size=2", {"one", {}, {{{"batch_size", "2"}}}}),
             Contains("point of a sweep"));
}

TEST_CASE("settings that two arms cannot differ in say why") {
  CHECK(why_arms_cannot_differ("workload.env.X").empty());
  CHECK(why_arms_cannot_differ("workload.threads").empty());
  CHECK(why_arms_cannot_differ("guest.network.queues").empty());
  CHECK_THAT(why_arms_cannot_differ("workload.batch_size"), Contains("another workload"));
  CHECK(why_arms_cannot_differ("guest.image").empty());
  CHECK_THAT(why_arms_cannot_differ("devices.select.vendor"), Contains("same devices"));
  for (const char* key : {"cases", "workload", "guest", "workload.env", "pairs"}) {
    CHECK_FALSE(why_arms_cannot_differ(key).empty());
  }
}

TEST_CASE("facts that a key sets are switched, others say what to do") {
  const auto power = suspected_fact({"host.power_limit", "300 W", "250 W", 1, true});
  REQUIRE(power.setting);
  CHECK(power.setting->key == "devices.settings.power_limit");
  CHECK(power.setting->after == "250W");
  const auto scheduler = suspected_fact({"host.vgpu_scheduler", "BEST_EFFORT", "FIXED_SHARE", 1, true});
  CHECK(scheduler.setting == Setting{"devices.vgpu_scheduler", "best_effort", "fixed_share"});
  CHECK_FALSE(suspected_fact({"power_limit", "250 W, 300 W", "250 W", 1, true}).setting);
  CHECK_FALSE(suspected_fact({"power_limit", "? W", "250 W", 1, true}).setting);
  CHECK_THAT(suspected_fact({"label", "a", "b", 1, true}).why_not, Contains("--switch"));
  CHECK_THAT(suspected_fact({"driver", "a", "b", 1, true}).why_not, Contains("put the old one back"));
}

TEST_CASE("an edited scenario gives its edited settings, of the arm and its case") {
  std::string edited = two_arms;
  edited.replace(edited.find("A: old"), 6, "A: new, B: '2'");
  edited.replace(edited.find("pinning: none"), 13, "pinning: numa");
  const auto found = edited_settings(two_arms, edited, "one", "vm-free");
  REQUIRE(found.size() == 3);
  CHECK(found[0].key == "guest.pinning");
  CHECK(found[1].key == "workload.env.A");
  CHECK(found[1].before == "old");
  CHECK(found[2].key == "workload.env.B");
  CHECK_FALSE(found[2].before);
  CHECK(edited_settings(two_arms, edited, "one", "vm").size() == 2);  // the variant is another arm
}

TEST_CASE("half of the loss tells a comparison's outcome") {
  using enum results::Verdict;
  CHECK(step_margin(0.9) == Approx(0.05));
  CHECK(step_margin(1) > 0);
  const auto whole = a_step({0, 1}, StepOutcome::loss, 0.9);
  CHECK(outcome_of(a_test(worse, 0.89, 0.9, 0.91), nullptr) == StepOutcome::loss);
  CHECK(outcome_of(a_test(worse, 0.89, 0.9, 0.91), &whole) == StepOutcome::loss);
  CHECK(outcome_of(a_test(worse, 0.935, 0.94, 0.945), &whole) == StepOutcome::part);
  CHECK(outcome_of(a_test(equivalent, 0.99, 1, 1.01), &whole) == StepOutcome::none);
  CHECK(outcome_of(a_test(better, 1.09, 1.1, 1.11), &whole) == StepOutcome::none);
  CHECK(outcome_of(a_test(inconclusive, 0.9, 0.95, 0.99), &whole) == StepOutcome::part);
  CHECK(outcome_of(a_test(inconclusive, 0.9, 0.97, 1.02), &whole) == StepOutcome::unclear);
  CHECK(outcome_of(std::nullopt, nullptr) == StepOutcome::unclear);
}

TEST_CASE("through noise of half a per cent a loss of 3 % is traced to its setting, or nothing is said") {
  std::mt19937_64 random(11);
  std::normal_distribution<double> noise(0, 0.005);
  const results::Looks looks{12, 1, 3};
  constexpr std::size_t suspects = 5;
  std::size_t right = 0;
  std::size_t wrong = 0;
  std::size_t pairs = 0;
  for (int repetition = 0; repetition < 200; ++repetition) {
    const std::size_t cause = random() % (suspects + 1);  // the last: something else
    std::vector<Step> steps;
    std::vector<Told> told;
    Search now;
    for (now = search(suspects, told); now.end == SearchEnd::goes_on; now = search(suspects, told)) {
      results::Settings settings;
      settings.margin = step_margin(steps.empty() ? 0.97 : steps.front().ratio);
      const results::SequentialTest test(looks, settings);
      std::vector<std::optional<double>> good, tried;
      results::PairedComparison compared;
      do {
        good.emplace_back(std::exp(noise(random)));
        tried.emplace_back(std::exp(noise(random)) * (now.next.contains(cause) ? 0.97 : 1));
        auto at_look = settings;
        at_look.alpha = test.level(std::ssize(good));
        compared = results::compare_paired(good, tried, at_look);
      } while (test.look(compared.test, compared.n) == results::Stop::go_on);
      pairs += good.size();
      steps.push_back({now.next, outcome_of(compared.test, steps.empty() ? nullptr : &steps.front()),
                       compared.test.ratio, compared.test.ci_tost, compared.n, ""});
      told.push_back({now.next, steps.back().outcome});
    }
    const bool blames = now.end == SearchEnd::found;
    const bool is_right = cause == suspects ? now.end == SearchEnd::nothing
                                            : blames && now.causes == std::vector<Suspects>{{cause}};
    right += is_right ? 1 : 0;
    wrong += !is_right && now.end != SearchEnd::unclear ? 1 : 0;
  }
  CAPTURE(right, wrong, pairs);
  CHECK(right >= 180);
  CHECK(wrong <= 10);
  CHECK(pairs < 200 * 5 * 8);
}

TEST_CASE("the answer names the cause with its size, or where else to look") {
  const auto subject = a_subject();
  const std::vector<Step> steps{a_step({0, 1, 2}, StepOutcome::loss, 0.9),
                                a_step({0}, StepOutcome::loss, 0.902)};
  Search search{SearchEnd::found, {}, {{0}}, {}};
  CHECK(answer(subject, search, steps) ==
        "workload.env.A: old → new accounts for the change: 9.8 % (8.8 to 10.8), 16 trials");
  search.causes = {{0, 1}};
  CHECK_THAT(
      answer(subject, search, steps),
      Contains("workload.env.A: old → new and workload.env.B: not set → 1") && Contains("only together"));
  CHECK_THAT(answer(subject, {SearchEnd::nothing, {}, {}, {}}, {a_step({0, 1, 2}, StepOutcome::none, 1)}),
             Contains("no switched suspect brings it back") &&
                 Contains("among what a scenario cannot switch: kernel: 6.1.0 → 6.1.5"));
  CHECK_THAT(answer(subject, {SearchEnd::unclear, {}, {}, {1, 2}}, steps),
             Contains("no verdict after 16 trials") && Contains("guest.hugepages: true → not set"));
  CHECK_THAT(words_of(subject, a_step({1}, StepOutcome::none, 1)), Contains("is not it"));
}
