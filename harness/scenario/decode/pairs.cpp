#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/sections.h"

namespace virtrain::harness {
namespace {

constexpr std::int64_t most_pairs = 10'000;
constexpr std::size_t most_node_starts = 250'000;
constexpr std::size_t most_swept_trials = 10'000;  ///< unless somebody says that he wants more
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t least_budget_ns = 60L * 1'000'000'000;
constexpr std::int64_t most_budget_ns = 366L * 24 * 3600 * 1'000'000'000;

/// `pairs: {at_most: 30, until: verdict, budget: 2h}`.
void decode_until(const Field& field, Scenario& scenario, Diagnostics& diagnostics) {
  MapReader in(field, "pairs", diagnostics);
  PairsUntil until;
  in.require("at_most");
  in.integer("at_most", {until.looks.first, results::most_looks}, until.looks.at_most,
             "Largest number of pairs");
  in.integer("every", {1, results::most_looks}, until.looks.every,
             "Pairs between two looks at the data, from the third pair on");
  const About of_until{.text = "What ends a case early: a verdict, or that no verdict is in sight",
                       .absent = "only the budget ends the pairs early"};
  until.verdict = in.one_of("until", {"verdict"}, of_until).has_value();
  until.budget_ns = in.duration_ns(
      "budget", least_budget_ns, most_budget_ns,
      {.text = "Time after which no new pair begins but the first of each case, counted from the "
               "start of the run",
       .absent = "no budget",
       .example = "2h"});
  if (!field.describes() && in.has("every") && !until.verdict) {
    in.refuse("every", "every: has no effect without until: verdict");
  }
  const auto most_between = std::max<std::int64_t>(until.looks.at_most - until.looks.first, 1);
  if (!field.describes() && in.has("every") && until.verdict && until.looks.every > most_between) {
    in.refuse("every", "every: {} leaves no look between the third pair and the last, {} (allowed: 1 to {})",
              until.looks.every, until.looks.at_most, most_between);
  }
  if (!field.describes() && !in.has("until") && !in.has("budget")) {
    diagnostics.add(in.mark(), "pairs: at_most needs until or budget as well (or give a number: pairs: 6)");
  }
  in.schema_rules({{"anyOf", {{{"required", {"until"}}}, {{"required", {"budget"}}}}}});
  in.finish();
  scenario.pairs = until.looks.at_most;
  scenario.until = until;
}

}  // namespace

void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  const About about{.text =
                        "Trials of each case in each arm: a number (an even one balances their order), or "
                        "when a case has enough of them",
                    .fallback = scenario.pairs,
                    .example = {{"at_most", 30}, {"until", "verdict"}, {"budget", "2h"}}};
  const auto field = in.child("pairs", about);
  if (!field) { return; }
  if (field->describes()) {
    Schema number = *field->schema;
    Schema map;
    decode_until({{}, &map}, scenario, diagnostics);
    number["anyOf"] = {{{"type", "integer"}, {"minimum", 1}, {"maximum", most_pairs}}, map};
    *field->schema = number;
  } else if (field->node.IsMap()) {
    if (in.has("isolation")) { in.refuse("pairs", "isolation needs a fixed number of pairs"); }
    decode_until(*field, scenario, diagnostics);
  } else {
    in.integer("pairs", {1, most_pairs}, scenario.pairs, about.text);
  }
}

bool refuse_many_cases(MapReader& in, const CaseCount& count, std::size_t arms, std::int64_t pairs,
                       bool large_sweeps) {
  const auto trials = count.cases * arms * static_cast<std::size_t>(pairs);
  if (trials > most_trials) {
    in.refuse("pairs", "{} in {}, {}, are {} trials (allowed: at most {}; fewer pairs, cases or arms)",
              counted(count.cases, "case"), counted(arms, "arm"), counted(pairs, "time"), trials,
              most_trials);
    return true;
  }
  if (!count.swept || trials <= most_swept_trials || large_sweeps) { return false; }
  in.refuse(in.has("sweep") ? "sweep" : "cases",
            "the sweep makes {} trials (allowed without --yes: at most {}; virtrain plan --yes shows their "
            "hours)",
            trials, most_swept_trials);
  return true;
}

void check_extent(MapReader& in, const Scenario& scenario) {
  const auto times = static_cast<std::size_t>(scenario.pairs) * scenario.arms.size();
  const std::size_t trials = times * scenario.cases.size();
  std::size_t node_starts = 0;
  for (const auto& one : scenario.cases) {
    for (const auto& tenant : one.tenants) { node_starts += times * static_cast<std::size_t>(tenant.nodes); }
  }
  if (trials > most_trials || node_starts > most_node_starts) {
    in.refuse("pairs",
              "{} in {}, {}, are {} trials of {} nodes in all (allowed: at most "
              "{} and {}; fewer pairs, cases or arms)",
              counted(scenario.cases.size(), "case"), counted(scenario.arms.size(), "arm"),
              counted(scenario.pairs, "time"), trials, node_starts, most_trials, most_node_starts);
  }
}

void refuse_crowded_nodes(MapReader& in, const Scenario& scenario) {
  if (scenario.oversubscribe) { return; }
  std::set<std::string> told;
  for (const auto& arm : scenario.arms) {
    const bool by_arm = std::any_of(arm.changes.begin(), arm.changes.end(),
                                    [](const ArmChange& change) { return change.key == "guest.vcpus"; });
    for (const auto& one : arm.cases) {
      const auto crowd = std::find_if(one.tenants.begin(), one.tenants.end(), [&](const Tenant& tenant) {
        return tenant.ranks_per_node > one.guest.vcpus;
      });
      if (crowd == one.tenants.end() || !told.insert(one.name).second) { continue; }
      in.refuse(by_arm ? "arms" : "guest",
                "case {}{}: nodes with {} have {} (use more vcpus, or oversubscribe: true)", one.name,
                by_arm ? " in arm " + arm.name : "", counted(one.guest.vcpus, "vCPU"),
                counted(crowd->ranks_per_node, "rank"));
    }
  }
}

void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  const auto expect = in.child("expect", {.text = "What must hold; else run and compare --expect exit with 1",
                                          .absent = "nothing is expected"});
  if (!expect) { return; }
  MapReader expectations(*expect, "expect", diagnostics);
  if (const auto node = expectations.child(
          "vm_vs_bare_metal",
          {.text = "The VM must be equivalent to bare metal", .absent = "equivalence is not expected"})) {
    MapReader limits(*node, "vm_vs_bare_metal", diagnostics);
    limits.require("margin");
    results::Settings wanted;
    const About of_margin{.text = "Largest loss of throughput that counts as none", .example = "2%"};
    if (const auto margin = limits.share("margin", 0, 1, of_margin)) { wanted.margin = *margin; }
    const About of_alpha{.text = "Probability of a false verdict", .fallback = wanted.alpha};
    if (const auto alpha = limits.share("alpha", 0, 0.5, of_alpha)) { wanted.alpha = *alpha; }
    limits.finish();
    scenario.vm_vs_bare_metal = wanted;
    const auto is_there = [&](const char* name) {
      return std::any_of(scenario.arms.begin(), scenario.arms.end(),
                         [&](const Arm& arm) { return arm.name == name; });
    };
    if (!is_there(arm_vm) || !is_there(arm_bare_metal)) {
      in.refuse("expect", "vm_vs_bare_metal needs both arms, bare_metal and vm");
    }
    constexpr std::int64_t least_for_a_verdict = 3;
    if (scenario.pairs < least_for_a_verdict) {
      scenario.warnings.push_back(fmt::format(
          "expect: {} of one run give no verdict (pairs: {} do; compare --expect may have several runs)",
          counted(scenario.pairs, "pair"), least_for_a_verdict));
    }
  }
  expectations.finish();
}

std::vector<std::string> decode_probes(MapReader& in, const std::vector<Case>& cases,
                                       Diagnostics& diagnostics) {
  auto allowed = host_probes;
  for (const auto* more : {&gpu_probes, &mpi_probes, &nccl_probes}) {
    allowed.insert(allowed.end(), more->begin(), more->end());
  }
  auto probes = read_words(
      in, "probes", allowed,
      {.text = "What virtrain-probe measures in each node before the first trial of an arm; gpu_gemm "
               "and those after it measure each GPU of a tenant with backend cuda. Collectives are measured "
               "over all ranks of a tenant before each trial, nccl_… where they have GPUs",
       .absent = "nothing is measured"},
      diagnostics);
  const auto trains_on_gpus = [](const Case& one) {
    return std::any_of(one.tenants.begin(), one.tenants.end(),
                       [](const Tenant& tenant) { return tenant.workload.backend == Backend::cuda; });
  };
  const auto needs_gpus = [](const std::string& probe) {
    return is_gpu_probe(probe) || contains(nccl_probes, probe);
  };
  const auto of_gpus = std::find_if(probes.begin(), probes.end(), needs_gpus);
  if (of_gpus != probes.end() && std::none_of(cases.begin(), cases.end(), trains_on_gpus)) {
    in.refuse("probes", "probes: {} needs a tenant with backend cuda (allowed here: {})", *of_gpus,
              join(host_probes, ", "));
  }
  const auto of_ranks = std::find_if(probes.begin(), probes.end(), is_rank_probe);
  const auto has_ranks = [](const Case& one) {
    return std::ranges::any_of(one.tenants,
                               [](const Tenant& tenant) { return tenant.nodes * tenant.ranks_per_node > 1; });
  };
  if (of_ranks != probes.end() && std::none_of(cases.begin(), cases.end(), has_ranks)) {
    in.refuse("probes", "probes: {} needs a tenant with several ranks (use more nodes, or ranks_per_node)",
              *of_ranks);
  }
  return probes;
}

void decode_times(MapReader& in, Scenario& scenario) {
  const About settle{.text = "Pause before each trial", .fallback = "0s", .example = "30s"};
  scenario.settle_ns = in.duration_ns("settle", 0, 3600 * second_ns, settle).value_or(0);
  const About boot{.text = "Time in which each node must be ready",
                   .absent = "90s where all images are mirror, else 10m",
                   .example = "5m"};
  scenario.boot_timeout_ns = in.duration_ns("boot_timeout", second_ns, 3600 * second_ns, boot)
                                 .value_or(boots_mirrors_only(scenario) ? 90 * second_ns : 600 * second_ns);
  const About trial{.text = "Time in which each trial must end", .fallback = "1h"};
  scenario.trial_timeout_ns = in.duration_ns("trial_timeout", second_ns, 7L * 24 * 3600 * second_ns, trial)
                                  .value_or(3600 * second_ns);
}

}  // namespace virtrain::harness
