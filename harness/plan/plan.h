#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/placement.h"
#include "harness/plan/trial_seconds.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

/// One execution to come. `placement` is an index into Plan::placements: the arms of a case share one where
/// they change nothing of it.
struct PlannedTrial {
  std::int64_t order = 0;  ///< 1, 2, …
  std::size_t placement = 0;
  std::string arm;
  std::string base;  ///< of the arm: bare_metal, vm or bare_metal_shared
  std::int64_t pair = 1;
  double estimate_seconds = 0;
  SecondsRange likely = {};  ///< of the same
};

/// Leak searches of one base of the scenario's arms, on nodes of their own after the trials.
struct SecurityArm {
  std::string arm, base;
  std::size_t placement = 0;
  double estimate_seconds = 0;
  /// Placement of the VM that gets a device, three times, each time as another tenant; nothing: the arm lends
  /// none.
  std::optional<std::size_t> device_placement = {};
  /// Placement of the tenants that have devices at once, of which one can be told to read; nothing: none can.
  std::optional<std::size_t> peer_placement = {};
  std::string lacks = {};  ///< what this host has not, so that its probes are not possible
};

struct Plan {
  std::string scenario;
  std::optional<PairsUntil> until;  ///< where not all of the trials may be run
  std::vector<Arm> arms;  ///< without their cases, which are in `placements`; last those that do not run
  std::vector<Placement> placements;
  std::vector<PlannedTrial> trials;
  std::vector<SecurityArm> security = {};
  std::int64_t vm_boots = 0;
  std::int64_t device_bindings = 0;  ///< devices lent and given back over the whole run, each time one
  double estimate_seconds = 0;
  SecondsRange likely = {};  ///< of the same, and of `image`
  SecondsRange image = {};   ///< for the guest image, once; not in `estimate_seconds`
  bool emulated = false;     ///< VMs are expected to run under TCG
  std::vector<std::string> warnings;
  std::optional<Isolation> isolation = {};      ///< of the scenario; the order of its arms is by its seed
  std::optional<std::int64_t> order_seed = {};  ///< of the scenario
};

/// Whether VMs on this host will most likely run under TCG: no /dev/kvm, or a CPU without vmx and svm. A
/// guess for the plan; `run` decides by a probe boot.
bool expects_emulation(const vmctl::Inventory& inventory);

/// A host as plans see it.
struct PlanHost {
  std::string name;  ///< NodeSpec::host of its nodes
  vmctl::Inventory inventory;
  bool emulated = false;            ///< VMs there will run under TCG: expects_emulation()
  vmctl::HostNetwork network = {};  ///< by which its nodes reach those of the others
};

/// Pairs of a case, by its name, that need no trial any more.
using PairsDone = std::set<std::pair<std::string, std::int64_t>>;

/// Pure: the same scenario and inventory give the same plan. `emulated` says that VMs will run under TCG,
/// which only changes the estimate and the memory each VM costs the host. Throws Error(host_unable) with one
/// reason a line where this host cannot do it, Error(busy) where it could once devices or cores are free.
Plan make_plan(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated,
               const PairsDone& done = {});
/// The same over several hosts, in the order of their names, none of which is this machine alone.
Plan make_plan(const Scenario& scenario, const std::vector<PlanHost>& hosts, const PairsDone& done = {});

/// How long a node may take until its agent answers: the scenario's boot_timeout, and where it has devices
/// what pinning its memory and mapping big memory regions takes (before Linux 6.12 and QEMU 9.2, minutes).
std::int64_t boot_deadline_ns(const Scenario& scenario, const Guest& guest, const NodePlacement& node);

/// A workload as plans show it and the database keeps it.
nlohmann::json to_json(const Workload& workload);
nlohmann::json to_json(const Neighbour& neighbour);

/// `plan --format json`.
nlohmann::json to_json(const Plan& plan);
/// `plan` for people: a line a case, or where wanted a line a trial; placements, boots, bindings and hours.
std::string to_table(const Plan& plan, bool every_trial);

/// Seconds that a trial of this case and arm took here before.
using PastTrials = std::map<std::pair<std::string, std::string>, double>;
/// Corrects the estimates of trials like those that ran here before.
void learn(Plan& plan, const PastTrials& past);

/// The guest image is in the cache: no time for it.
void leave_out_image(Plan& plan);

}  // namespace virtrain::harness
