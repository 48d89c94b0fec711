#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/model/trial_key.h"
#include "common/model/workload.h"
#include "harness/scenario/host_list.h"
#include "harness/scenario/scenario.h"
#include "harness/scenario/yaml/yaml_reader.h"

namespace virtrain::harness {

/// An arm and what it lays over the scenario: the changes of the arms that it is like, then its own.
struct Variant {
  Arm arm;  ///< without cases
  Layers layers;
  YAML::Mark attach_mark = {};  ///< of the machines that it attaches
};

/// The scenario's `arms`; bare_metal and vm where there is none.
std::vector<Variant> decode_arms(MapReader& in, Diagnostics& diagnostics);

/// Refuses what a variant says of a neighbour, of which only `isolation` has one.
void refuse_neighbour(const Variant& variant, Diagnostics& diagnostics);

/// The scenario's `price`, into its arms; a variant's own or that of the arm it is like.
void decode_prices(MapReader& in, std::vector<Variant>& variants, Diagnostics& diagnostics);

/// The key `attach` of an arm: machines that exist already, named after the arm and counted.
std::vector<AttachedMachine> decode_attach(const Field& field, const std::string& arm,
                                           Diagnostics& diagnostics);

/// Refuses cases, and parts of the scenario, that an arm with attached machines cannot have. Pure, once the
/// cases are known.
void check_attached(MapReader& in, const Scenario& scenario, const std::vector<Variant>& variants,
                    Diagnostics& diagnostics);

/// The scenario's `devices`.
Devices decode_devices(const Field& field, Diagnostics& diagnostics);

/// The scenario's `guest`.
Guest decode_guest(const Field& field, Diagnostics& diagnostics);

/// `limits` of a guest, a tenant or the neighbour; a key that is absent is as in `base`. A share of the CPU
/// is of so many vCPUs.
vmctl::NodeLimits decode_limits(const Field& field, const vmctl::NodeLimits& base, std::int64_t vcpus,
                                Diagnostics& diagnostics);

/// Decodes `isolation` but for its victims, whose list `in` still has to be asked for.
Isolation decode_isolation(MapReader& in, Diagnostics& diagnostics);

/// `neighbour` of `isolation`: what the neighbour may use in an arm with this guest.
vmctl::NodeLimits decode_neighbour_limits(MapReader& in, const Guest& guest, const Layers& of_both,
                                          Diagnostics& diagnostics);

/// Refuses aggressors that are victims, and those that need GPUs where victims have none or are not in VMs.
void check_aggressors(MapReader& in, const Scenario& scenario, const Isolation& isolation);

/// Each arm becomes one arm for each condition: `vm` (alone), `vm+idle`, `vm+cpu@25%`, …
void expand_conditions(Scenario& scenario, const Isolation& isolation);

/// The keys of a workload that make it a job of the user's own: its command, how it starts, and which of its
/// lines say how fast it is. `workload` has all others of the mapping already.
void decode_job(MapReader& in, Workload& workload);

/// One point of a sweep.
struct SweepPoint {
  SweptPoint point;  ///< empty: there is no sweep
  Layers layers;
};

/// The points of `sweep`, of the scenario or of a case; nothing where there is none, which the schema
/// describes as `absent`.
std::vector<SweepPoint> decode_sweep(MapReader& in, const char* absent, Diagnostics& diagnostics);

/// Cases of a file, counted without decoding them; no further than to too many.
struct CaseCount {
  std::size_t cases = 0;
  bool swept = false;
};
/// `points`: of the scenario's sweep; 0: it has none.
CaseCount count_cases(const std::vector<Field>& items, std::size_t points, Diagnostics& diagnostics);

/// `pairs`: a number, or at most how many and what ends them early.
void decode_pairs(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// Limit of a scenario, in all its arms.
inline constexpr std::size_t most_trials = 50'000;
/// Refuses more trials than that, and fewer of a sweep without `large_sweeps`, before cases are decoded, each
/// of which has a workload of its own. Whether it refused them.
bool refuse_many_cases(MapReader& in, const CaseCount& count, std::size_t arms, std::int64_t pairs,
                       bool large_sweeps);
/// Refuses more trials and nodes than a plan, with an entry for each, and anybody's patience have room for.
void check_extent(MapReader& in, const Scenario& scenario);

/// Refuses nodes with more ranks than vCPUs, in any arm: what one changes may be its vCPUs.
void refuse_crowded_nodes(MapReader& in, const Scenario& scenario);

/// `expect`: what must hold at the end. The scenario has its arms already.
void decode_expect(MapReader& in, Scenario& scenario, Diagnostics& diagnostics);

/// `probes`: those that one process can measure; what concerns GPUs needs ranks that have some.
std::vector<std::string> decode_probes(MapReader& in, const std::vector<Case>& cases,
                                       Diagnostics& diagnostics);

/// How long things may take, and the pause between them.
void decode_times(MapReader& in, Scenario& scenario);

/// Refuses changes of devices, and of how guests see them, in a scenario without devices.
void refuse_changes_of_no_devices(std::vector<Variant>& variants, std::vector<SweepPoint>& points,
                                  Diagnostics& diagnostics);
/// Refuses a sweep over a key that an arm changes, or that changes nothing in any arm.
void refuse_swept_keys(const std::vector<SweepPoint>& points, const std::vector<Variant>& variants,
                       Diagnostics& diagnostics);

/// Keys given here override `base` (the scenario's own workload for a tenant's).
Workload decode_workload(const Field& field, Workload base, Diagnostics& diagnostics);

}  // namespace virtrain::harness
