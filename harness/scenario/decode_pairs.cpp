#include "harness/scenario/decode_pairs.h"

#include <algorithm>

namespace virtrain::harness {
namespace {

constexpr std::int64_t most_pairs = 10'000;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t least_budget_ns = 60L * 1'000'000'000;
constexpr std::int64_t most_budget_ns = 366L * 24 * 3600 * 1'000'000'000;

/// `pairs: {at_most: 30, until: verdict, budget: 2h}`.
void decode_until(const Field& field, Scenario& scenario, Diagnostics& diagnostics) {
  MapReader in(field, "pairs", diagnostics);
  PairsUntil until;
  in.require("at_most");
  in.integer("at_most", {until.looks.first, results::most_looks}, until.looks.at_most,
             "No more pairs than these");
  in.integer("every", {1, results::most_looks}, until.looks.every,
             "Pairs between two looks at the data, from the third pair on");
  until.verdict =
      in.one_of("until", {"verdict"}, {"What ends a case early: a verdict, or that none is in sight"})
          .has_value();
  until.budget_ns =
      in.duration_ns("budget", least_budget_ns, most_budget_ns,
                     {"No new pair begins after it, counted from the start of the run", nullptr, "2h"});
  if (!field.describes() && !in.has("until") && !in.has("budget")) {
    diagnostics.add(in.mark(), "pairs: at_most needs until or budget beside it (or say a number: pairs: 6)");
  }
  in.schema_rules({{"anyOf", {{{"required", {"until"}}}, {{"required", {"budget"}}}}}});
  in.finish();
  scenario.pairs = until.looks.at_most;
  scenario.until = until;
}

}  // namespace

void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  constexpr const char* about = "Trials of each case in each arm; an even number balances their order";
  const std::int64_t usual = scenario.pairs;
  const auto field = in.child("pairs", {about, usual});
  if (!field) { return; }
  if (field->describes()) {
    Schema number = *field->schema;
    Schema map;
    decode_until({{}, &map}, scenario, diagnostics);
    number["anyOf"] = {{{"type", "integer"}, {"minimum", 1}, {"maximum", most_pairs}}, map};
    *field->schema = number;
  } else if (field->node.IsMap()) {
    if (scenario.isolation) { in.refuse("pairs", "isolation needs a fixed number of pairs"); }
    decode_until(*field, scenario, diagnostics);
  } else {
    in.integer("pairs", {1, most_pairs}, scenario.pairs, about);
  }
}

void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics) {
  const auto expect = in.child("expect", {"What must hold, or run and compare exit with 1"});
  if (!expect) { return; }
  MapReader expectations(*expect, "expect", diagnostics);
  if (const auto node = expectations.child("vm_vs_bare_metal", {"The VM must be equivalent to bare metal"})) {
    MapReader limits(*node, "vm_vs_bare_metal", diagnostics);
    limits.require("margin");
    results::Settings wanted;
    if (const auto margin =
            limits.share("margin", 0, 1, {"The largest loss that counts as none", nullptr, "2%"})) {
      wanted.margin = *margin;
    }
    if (const auto alpha = limits.share("alpha", 0, 0.5, {"Probability of a false verdict", wanted.alpha})) {
      wanted.alpha = *alpha;
    }
    limits.finish();
    scenario.vm_vs_bare_metal = wanted;
    const auto is_there = [&](const char* name) {
      return std::any_of(scenario.arms.begin(), scenario.arms.end(),
                         [&](const Arm& arm) { return arm.name == name; });
    };
    if (!is_there(arm_vm) || !is_there(arm_bare_metal)) {
      in.refuse("expect", "vm_vs_bare_metal needs both arms, bare_metal and vm");
    }
  }
  expectations.finish();
}

void decode_times(MapReader& in, Scenario& scenario) {
  scenario.settle_ns =
      in.duration_ns("settle", 0, 3600 * second_ns, {"Pause before each trial", "0s", "30s"}).value_or(0);
  scenario.boot_timeout_ns =
      in.duration_ns(
            "boot_timeout", second_ns, 3600 * second_ns,
            {"A node must be ready within it; 90s for the mirror image, 10m for others", nullptr, "5m"})
          .value_or(boots_mirrors_only(scenario) ? 90 * second_ns : 600 * second_ns);
  scenario.trial_timeout_ns = in.duration_ns("trial_timeout", second_ns, 7L * 24 * 3600 * second_ns,
                                             {"A trial must have ended within it", "1h"})
                                  .value_or(3600 * second_ns);
}

}  // namespace virtrain::harness
