#include "harness/experiment/judge.h"

#include <signal.h>

#include "common/error.h"
#include "harness/scenario/decode/decode.h"
#include "results/comparison/verdict.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::harness;
using results::CaseComparison;
using results::Verdict;

namespace {

std::vector<CaseComparison> verdicts(const std::vector<Verdict>& list) {
  std::vector<CaseComparison> comparisons(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) { comparisons[i].verdict = list[i]; }
  return comparisons;
}

}  // namespace

TEST_CASE("expectations: worse is 1, no verdict is 5, anything else 0") {
  CHECK(judge_verdicts(verdicts({Verdict::equivalent, Verdict::better, Verdict::non_inferior})) == 0);
  CHECK(judge_verdicts(verdicts({Verdict::equivalent, Verdict::worse})) == 1);
  CHECK(judge_verdicts(verdicts({Verdict::inconclusive, Verdict::worse})) == 1);
  CHECK(judge_verdicts(verdicts({Verdict::equivalent, Verdict::inconclusive})) == 5);
  CHECK(judge_verdicts(verdicts({Verdict::not_comparable})) == 5);
  CHECK(judge_verdicts({}) == 5);
}

TEST_CASE("of many cases one is worse only after Holm's correction, and before it there is no verdict yet") {
  auto list = verdicts({Verdict::worse, Verdict::equivalent});
  list[0].p_worse_holm = 0.06;
  list[1].p_worse_holm = 1;
  CHECK(judge_verdicts(list) == 5);
  list[0].p_worse_holm = 0.04;
  CHECK(judge_verdicts(list) == 1);
  list[0].settings.alpha = 0.01;
  CHECK(judge_verdicts(list) == 5);
}

TEST_CASE("what variants do to each other is no part of what is judged of VMs") {
  auto list = verdicts({Verdict::equivalent, Verdict::worse, Verdict::worse});
  for (auto& one : list) { one.case_name = "one"; }
  list[0].baseline = "bare_metal";
  list[0].candidate = "vm";
  list[1].candidate = "vm-huge";
  list[2].candidate = "vm-flat";
  for (std::size_t i = 0; i < 3; ++i) { list[i].p_worse_holm = 0.01; }
  CHECK(judge_verdicts(list) == 0);
  CHECK(results::family_sentence(list).empty());
  list.erase(list.begin());
  CHECK(judge_verdicts(list) == 1);
  CHECK(results::family_sentence(list).starts_with(
      "one in vm-huge, one in vm-flat are worse after Holm's correction for 2 comparisons"));
}

TEST_CASE("the highest precedence decides") {
  const auto worse = verdicts({Verdict::worse});
  ExperimentOutcome outcome;
  CHECK(judge(outcome, worse, false) == 0);
  CHECK(judge(outcome, worse, true) == 1);
  CHECK(judge(outcome, verdicts({Verdict::inconclusive}), true) == 5);
  CHECK(judge(outcome, verdicts({Verdict::equivalent}), true) == 0);
  outcome.failed = 1;
  CHECK(judge(outcome, worse, true) == 6);
  outcome.aborted_by = ErrorCode::busy;
  CHECK(judge(outcome, worse, true) == 75);
  outcome.aborted_by = ErrorCode::host_unable;
  CHECK(judge(outcome, worse, true) == 4);
  outcome.stop_signal = SIGINT;
  CHECK(judge(outcome, worse, true) == 130);
  outcome.stop_signal = SIGTERM;
  CHECK(judge(outcome, worse, true) == 143);
}

TEST_CASE("what fails once an experiment has begun never asks for another run") {
  const auto busy = after_begin(Error("open the results database", ErrorCode::busy, "r.db is locked"));
  CHECK(busy.code() == ErrorCode::io);
  CHECK(std::string(busy.what()) == "open the results database: r.db is locked");
  CHECK(after_begin(Error("x", ErrorCode::not_found, "y")).code() == ErrorCode::not_found);
}

TEST_CASE("isolation is judged by what the scenario expects, else by isolation's own margin") {
  const std::string text =
      "name: iso\n"
      "workload: {model: resnet50}\n"
      "guest: {vcpus: 1, memory: 768MiB}\n"
      "isolation: {victims: [{name: trainer, nodes: 1}], aggressors: [cpu], margin: 20%}\n"
      "arms: [bare_metal, vm]\n";
  const auto expecting = text + "expect: {vm_vs_bare_metal: {margin: 3%, alpha: 0.01}}\n";
  const TemporaryFolder folder;
  results::Store store(folder.path / "r.db");
  const auto margin_of = [&](const std::string& id, const std::string& scenario) {
    auto experiment = results::an_experiment(id);
    experiment.scenario_text = scenario;
    store.add_experiment(experiment);
    results::add_finished(store, id, "trainer", "vm", 1, 100);
    results::CompareRequest request;
    request.selection.experiments = {id};
    const auto stored = expected_settings(store, request);
    const auto read = expected_settings(decode_scenario(scenario, "iso.yaml"));
    REQUIRE((stored && read));
    CHECK(stored->margin == read->margin);
    CHECK(stored->alpha == read->alpha);
    return read->margin;
  };
  CHECK(margin_of("e1", text) == 0.2);
  CHECK(margin_of("e2", expecting) == 0.03);
}

TEST_CASE("exit codes of errors are those of the manual") {
  CHECK(exit_status(ErrorCode::usage) == 2);
  CHECK(exit_status(ErrorCode::bad_input) == 3);
  CHECK(exit_status(ErrorCode::host_unable) == 4);
  CHECK(exit_status(ErrorCode::trial_failed) == 6);
  CHECK(exit_status(ErrorCode::busy) == 75);
  CHECK(exit_status(ErrorCode::interrupted) == 130);
}
