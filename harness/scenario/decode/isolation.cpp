
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

#include "common/contains.h"
#include "common/text/printable.h"
#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/scenario/decode/sections.h"

namespace virtrain::harness {
namespace {

constexpr std::size_t most_levels = 16;
/// As many as are averaged, results/statistics/isolation.h; the most are kept with each trial.
constexpr std::int64_t least_recovery_steps = 5, most_recovery_steps = 1000;

/// Scalars of a list under this key, each there once and kept by `take`, which says what is wrong with one.
void decode_list(MapReader& in, const char* key, std::size_t least, std::size_t most, const About& about,
                 const Schema& item_schema, Diagnostics& diagnostics,
                 const std::function<std::string(const std::string&)>& take) {
  const auto list = in.child(key, about);
  if (!list) { return; }
  std::set<std::string> seen;
  for (const auto& item : read_set(*list, key, least, most, diagnostics)) {
    if (item.describes()) {
      *item.schema = item_schema;
      return;
    }
    const std::string word = item.node.IsScalar() ? item.node.Scalar() : "";
    const auto wrong =
        seen.insert(word).second ? take(word) : fmt::format("'{}' is there twice", excerpt(word));
    if (!wrong.empty()) { diagnostics.add(item.node.Mark(), "{}: {}", key, wrong); }
  }
}

std::string not_allowed(const std::string& word, const std::vector<std::string>& allowed) {
  const auto near = meant_word(word, allowed);
  return fmt::format("'{}' is not allowed (allowed: {}{})", excerpt(word), join(allowed, ", "),
                     near ? "; did you mean " + *near + "?" : "");
}

/// Refuses a share that victims with other devices cannot have with their neighbours.
void check_share(MapReader& in, const Scenario& scenario, const Isolation& isolation, bool gpus) {
  const auto share = isolation.neighbours.empty() ? Share::host : isolation.neighbours[0].share;
  const bool of_devices = share == Share::card || share == Share::switch_;
  if (of_devices && !gpus) {
    in.refuse("share", "share: {} needs victims with GPUs (gpus_per_node)", to_string(share));
    return;
  }
  const bool whole = std::any_of(scenario.arms.begin(), scenario.arms.end(), [](const Arm& arm) {
    return std::any_of(arm.cases.begin(), arm.cases.end(),
                       [](const Case& victim) { return victim.devices.kind == DeviceKind::passthrough; });
  });
  if (share == Share::card && whole) {
    in.refuse("share",
              "share: card has no meaning with devices of kind passthrough, which go to one VM as a whole "
              "(use kind vgpu or vf, or share: switch or node)");
  }
}

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const auto& kind : aggressor_kinds()) { names.push_back(kind.name); }
  return names;
}

}  // namespace

Isolation decode_isolation(MapReader& in, Diagnostics& diagnostics) {
  Isolation isolation;
  std::vector<std::string> aggressors;
  std::vector<double> levels;
  std::set<std::string> level_names;
  const auto kinds = kind_names();
  in.require("victims");
  in.require("aggressors");
  decode_list(in, "aggressors", 0, kinds.size(),
              {.text = "What the neighbour does, one after the other; gemm and those after it need GPUs; []: "
                       "it only idles",
               .example = {"cpu", "membw"}},
              {{"enum", kinds}}, diagnostics, [&](const std::string& word) -> std::string {
                aggressors.push_back(word);
                if (contains(kinds, word)) { return ""; }
                if (!contains(isolation.unknown_aggressors, word)) {
                  isolation.unknown_aggressors.push_back(word);
                }
                return not_allowed(word, kinds);
              });
  decode_list(in, "levels", 1, most_levels,
              {.text = "Shares of the time in which an aggressor works, at full force",
               .fallback = Schema::array({"100%"}),
               .example = {"25%", "100%"}},
              {{"type", {"string", "number"}}}, diagnostics, [&](const std::string& word) -> std::string {
                const auto level = parse_share(word);
                if (!level || *level <= 0 || *level > 1) {
                  return fmt::format("'{}' is not a valid level (allowed: above 0%, at most 100%)",
                                     excerpt(word));
                }
                if (!level_names.insert(Neighbour{"any", *level}.condition()).second) {
                  return fmt::format("'{}' is there twice (six digits tell levels apart)", excerpt(word));
                }
                levels.push_back(*level);
                return "";
              });
  if (levels.empty()) { levels = {1}; }
  auto baselines =
      read_words(in, "baselines", {"alone", "idle_neighbour"},
                 {.text = "What each aggressor is compared with: no neighbour, and one that does nothing",
                  .fallback = {"alone", "idle_neighbour"}},
                 diagnostics);
  if (baselines.empty()) { baselines = {"alone", "idle_neighbour"}; }
  Share share = Share::host;
  in.one_of("share", share,
            "What the neighbour shares with the victim; except with core it has cores of its own");
  isolation.share_place = diagnostics.place(in.mark("share"));
  isolation.alone = contains<std::string>(baselines, "alone");
  if (contains<std::string>(baselines, "idle_neighbour")) { isolation.neighbours.push_back({"", 1, share}); }
  if (in.has("aggressors") && aggressors.empty() && !(isolation.alone && !isolation.neighbours.empty())) {
    in.refuse("aggressors",
              "without an aggressor and with one baseline nothing is compared (add an aggressor, or have "
              "baselines: [alone, idle_neighbour])");
  }
  for (const auto& aggressor : aggressors) {
    for (const double level : levels) { isolation.neighbours.push_back({aggressor, level, share}); }
  }
  in.integer("seed", {0, 2'147'483'647}, isolation.seed, "Seed of the order of conditions in each round");
  in.integer("recovery_steps", {0, most_recovery_steps}, isolation.recovery_steps,
             "Steps that the victim takes after the aggressor has ended, which show when it is as fast as "
             "alone again: 0 (not measured), or 5 or more");
  if (isolation.recovery_steps > 0 && isolation.recovery_steps < least_recovery_steps) {
    in.refuse("recovery_steps", "{} recovery_steps show no recovery (allowed: 0, or {} to {})",
              isolation.recovery_steps, least_recovery_steps, most_recovery_steps);
  }
  if (isolation.recovery_steps > 0 && !isolation.alone) {
    in.refuse("recovery_steps", "a victim recovers to what it does alone (add alone to baselines)");
  }
  for (const char* key : {"levels", "recovery_steps"}) {
    if (in.has(key) && in.has("aggressors") && aggressors.empty()) {
      in.refuse(key, "{} are of aggressors, and there is none (remove {}, or add one)", key, key);
    }
  }
  const About of_margin{.text = "Largest slowdown that counts as none", .fallback = isolation.margin};
  if (const auto margin = in.share("margin", 0, 1, of_margin)) { isolation.margin = *margin; }
  return isolation;
}

vmctl::NodeLimits decode_neighbour_limits(MapReader& in, const Guest& guest, const Layers& of_both,
                                          Diagnostics& diagnostics) {
  auto limits = guest.limits;
  const auto neighbour =
      in.child("neighbour", {.text = "How the neighbour differs from the victim, in every arm",
                             .absent = "its nodes have guest.limits"});
  if (!neighbour) { return limits; }
  MapReader keys(*neighbour, "neighbour", diagnostics);
  if (const auto field = keys.child(
          "limits", {.text = "What each node of the neighbour may use at most", .absent = "guest.limits"})) {
    auto own = field->inheriting("as in guest.limits");
    own.over.insert(own.over.begin(), of_both.begin(), of_both.end());
    limits = decode_limits(own, limits, guest.vcpus, diagnostics);
  }
  keys.finish();
  return limits;
}

void check_aggressors(MapReader& in, const Scenario& scenario, const Isolation& isolation) {
  const auto has_gpus = [](const Case& victim) { return victim.tenants[0].gpus_per_node > 0; };
  const bool gpus = std::all_of(scenario.cases.begin(), scenario.cases.end(), has_gpus);
  const bool in_vms = std::all_of(scenario.arms.begin(), scenario.arms.end(),
                                  [](const Arm& arm) { return arm.base == arm_vm; });
  for (const auto& victim : scenario.cases) {
    const auto is_it = [&](const Neighbour& one) { return one.aggressor == victim.name; };
    if (std::any_of(isolation.neighbours.begin(), isolation.neighbours.end(), is_it)) {
      in.refuse("aggressors", "'{}' is a victim and an aggressor (aggressors are kinds of load)",
                excerpt(victim.name));
    }
  }
  for (const auto& one : isolation.neighbours) {
    if (one.is_idle() || contains(isolation.unknown_aggressors, one.aggressor) ||
        !aggressor_kind(one.aggressor).needs_gpu || (gpus && in_vms)) {
      continue;
    }
    in.refuse("aggressors", "aggressor {} needs victims with GPUs, in VMs (gpus_per_node, arm vm)",
              one.aggressor);
    return;
  }
  const bool has_jobs = std::ranges::any_of(
      scenario.cases, [](const Case& one) { return one.tenants[0].workload.job.has_value(); });
  if (has_jobs && isolation.recovery_steps > 0) {
    in.refuse("recovery_steps",
              "the steps of a command are not told apart (remove recovery_steps, or command)");
  }
  const bool shares_network = std::any_of(scenario.arms.begin(), scenario.arms.end(),
                                          [](const Arm& arm) { return arm.base == arm_bare_metal_shared; });
  const bool loads_network = std::any_of(isolation.neighbours.begin(), isolation.neighbours.end(),
                                         [](const Neighbour& one) { return one.aggressor == "net"; });
  if (shares_network && loads_network) {
    in.refuse("aggressors",
              "aggressor net sends over its tenant's network, and slices of arm bare_metal_shared have none "
              "(allowed with an arm vm or bare_metal)");
  }
  check_share(in, scenario, isolation, gpus);
}

void expand_conditions(Scenario& scenario, const Isolation& isolation) {
  const bool with_gpus = need_gpus(isolation.neighbours);
  // The same VM in each condition, so that conditions differ in what it does and in nothing else.
  const bool with_disk = std::any_of(isolation.neighbours.begin(), isolation.neighbours.end(),
                                     [](const Neighbour& one) { return one.aggressor == "disk"; });
  std::vector<Arm> expanded;
  for (const auto& arm : scenario.arms) {
    (isolation.alone ? expanded : scenario.arms_beside_only).push_back(arm);
    for (const auto& neighbour : isolation.neighbours) {
      Arm beside = arm;
      beside.like = arm.name;
      beside.neighbour = neighbour;
      beside.name = printed(beside.key());
      beside.own_changes = {{"neighbour", neighbour.condition()}};
      beside.changes.push_back(beside.own_changes[0]);
      for (auto& one : beside.cases) {
        Tenant tenant = one.tenants[0];
        tenant.name = "neighbour";
        tenant.nodes = neighbour.nodes();
        tenant.ranks_per_node = 0;
        if (!with_gpus) { tenant.gpus_per_node = 0; }
        tenant.neighbour = neighbour;
        tenant.limits = arm.neighbour_limits;
        tenant.scratch_disk = with_disk;
        if (!neighbour.is_idle() && isolation.recovery_steps > 0) {
          one.tenants[0].workload.later_steps = isolation.recovery_steps;
        }
        one.tenants.push_back(std::move(tenant));
      }
      expanded.push_back(std::move(beside));
    }
  }
  scenario.arms = std::move(expanded);
}

}  // namespace virtrain::harness
