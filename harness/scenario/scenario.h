#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/arm.h"
#include "common/model/workload.h"
#include "harness/scenario/isolation/neighbour.h"
#include "results/statistics/sequential.h"
#include "vmctl/api/device_grant.h"
#include "vmctl/api/device_settings.h"
#include "vmctl/api/node.h"
#include "vmctl/api/placed_device.h"

namespace virtrain::harness {

VIRTRAIN_ENUM_CLASS(DeviceKind, none, passthrough, vgpu, vf)
VIRTRAIN_ENUM_CLASS(NicKind, passthrough, vf)
enum class Reuse { trial, experiment_case };

using Guest = vmctl::GuestSpec;
using vmctl::mirror_image;
using vmctl::Pinning;

/// Which devices of the host.
struct DeviceSelection {
  bool operator==(const DeviceSelection&) const = default;
  std::optional<std::string> vendor;   ///< PCI vendor id, "0x10de"
  std::vector<std::string> addresses;  ///< PCI addresses; empty: any
  std::vector<std::string> uuids;      ///< "GPU-…", as the driver says; empty: any
  std::string name;                    ///< part of the device's name, "A100"; empty: any
  std::optional<std::int64_t> count;   ///< at most so many of them
};

/// Adapters that a node gets beside its GPUs.
struct Nics {
  bool operator==(const Nics&) const = default;
  NicKind kind = NicKind::passthrough;
  std::int64_t per_node = 1;
  DeviceSelection select;
};

struct Devices {
  bool operator==(const Devices&) const = default;
  DeviceKind kind = DeviceKind::none;
  DeviceSelection select;
  std::string vgpu_type;  ///< name or id; a tenant's own goes before it
  vmctl::Clique clique = vmctl::Clique::off;
  vmctl::Vfio vfio = vmctl::Vfio::container;
  bool spread = false;  ///< parts of cards (vGPUs, virtual functions) go to as many cards as can be, not few
  vmctl::DeviceSettings settings;  ///< of each GPU, in every arm; what is absent stays as it is found
  std::optional<vmctl::VgpuScheduler> vgpu_scheduler = {};  ///< of each card; absent: as it is found
  std::optional<Nics> nics;
  vmctl::BetweenTenants between_tenants = vmctl::BetweenTenants::none;  ///< of the devices, not of nics
  std::string licence_token = {};  ///< file for the vGPUs' licence client; empty: the guests need none
};

struct Tenant {
  bool operator==(const Tenant&) const = default;
  std::string name;
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;
  std::int64_t ranks_per_node = 1;
  Workload workload;
  std::string vgpu_type = {};               ///< of this tenant's vGPUs; empty with other devices
  std::optional<Neighbour> neighbour = {};  ///< it does not train: it is what a victim is measured beside
  vmctl::NodeLimits limits = {};            ///< of each of its nodes
  bool scratch_disk = false;                ///< its VMs have a disk that the aggressor may overwrite
};

/// One placement of work, with all that a host has to know of it. A weak-scaling case of the file has become
/// one case for each size, and any case one for each point of its sweep: `weak-scaling@batch_size=32/2`.
struct Case {
  bool operator==(const Case&) const = default;

  std::string name;
  CaseKey key;  ///< empty where it is neither a size nor a point
  std::vector<Tenant> tenants;
  Guest guest = {};
  Devices devices = {};
};

/// A key that an arm sets: "guest.pinning" to "none".
struct ArmChange {
  std::string key, value;
};

struct Price {
  double amount = 0;  ///< for an hour of one node
  std::string currency;
};

/// Where cases run: bare_metal, vm or bare_metal_shared, or a variant of one of them.
struct Arm {
  std::string name;
  std::string base;                    ///< bare_metal, vm or bare_metal_shared
  std::string like;                    ///< the arm that it changes; empty: it is no variant
  std::vector<ArmChange> own_changes;  ///< against `like`
  std::vector<ArmChange> changes;      ///< against `base`
  std::optional<Price> price;
  std::vector<Case> cases;                  ///< the scenario's, as they are in this arm
  vmctl::NodeLimits neighbour_limits = {};  ///< where the scenario measures isolation
  std::optional<Neighbour> neighbour = {};  ///< beside which its trials run

  ArmKey key() const {
    auto key = neighbour ? neighbour->key() : ArmKey();
    key.like = like;
    return key;
  }
};

/// When a case has enough pairs.
struct PairsUntil {
  results::Looks looks;                   ///< `at_most` is the scenario's `pairs`
  bool verdict = false;                   ///< ends for a verdict, or where none is in sight
  std::optional<std::int64_t> budget_ns;  ///< of the experiment: no new pair begins after it
};

/// Victims beside neighbours: which, in what order, and what counts as undisturbed.
struct Isolation {
  bool alone = true;  ///< each round has a trial without a neighbour, too
  std::vector<Neighbour> neighbours;
  std::string share_place = {};                      ///< "file:line:column" of what neighbours share
  std::int64_t seed = 1;                             ///< of the order of conditions in each round
  double margin = 0.05;                              ///< the largest slowdown that counts as none
  std::int64_t recovery_steps = 0;                   ///< of the victim after the aggressor has ended
  std::vector<std::string> unknown_aggressors = {};  ///< refused already
};

/// A decoded scenario file: what to measure, where and how often. Valid in itself; whether a host can do it
/// is the planner's question.
struct Scenario {
  std::string name;
  std::string description;
  std::string text;  ///< the file as it was read
  Guest guest;       ///< without what arms and sweeps change; so are devices and cases
  Devices devices;
  std::vector<Case> cases;
  std::vector<Arm> arms;
  /// Those that run only beside neighbours: what some of `arms` are like.
  std::vector<Arm> arms_beside_only;
  std::int64_t pairs = 6;           ///< with `until` at most
  std::optional<PairsUntil> until;  ///< absent: as many as `pairs` says
  std::vector<std::string> probes;  ///< of virtrain-probe, in each node before the first trial of an arm
  Reuse reuse = Reuse::trial;
  bool oversubscribe = false;
  std::int64_t settle_ns = 0;
  std::int64_t boot_timeout_ns = 0;
  std::int64_t trial_timeout_ns = 0;
  std::optional<results::Settings> vm_vs_bare_metal;  ///< what is expected; absent: nothing is
  std::optional<Isolation> isolation;  ///< arms and cases have it already; its cases are the victims
  bool security = false;               ///< security probes of each base of its arms, after the trials
  /// Shuffles the arms of each two neighbouring pairs, the second in the reverse order of the first; absent:
  /// as listed, reversed in every second pair. `virtrain bisect` sets it, no file does.
  std::optional<std::int64_t> order_seed = {};
  bool by_test = false;  ///< looks go by the test alone, whatever was emulated or differs; likewise
  std::vector<std::string> warnings;  ///< for example an odd number of pairs
};

/// Whether an arm of the scenario is this one, or a variant of it.
bool has_arm(const Scenario& scenario, const std::string& base);
/// Whether no arm boots another image than the host's own packages.
bool boots_mirrors_only(const Scenario& scenario);

/// Probes that `probes` may name, of a node's host and of each of its GPUs.
inline const std::vector<std::string> host_probes{"triad", "memory_copy", "gemm"};
inline const std::vector<std::string> gpu_probes{"gpu_gemm", "device_copy", "host_to_device",
                                                 "device_to_host", "peer_copy"};
bool is_gpu_probe(const std::string& probe);

}  // namespace virtrain::harness
