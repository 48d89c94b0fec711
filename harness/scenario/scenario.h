#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/model/trial_key.h"
#include "common/model/workload.h"
#include "harness/scenario/host_list.h"
#include "results/statistics/sequential.h"
#include "vmctl/api/device.h"
#include "vmctl/api/device_settings.h"
#include "vmctl/api/node.h"

namespace virtrain::harness {

/// Hardware that a neighbour and the victim both use.
VIRTRAIN_ENUM_CLASS(Share, core, llc, node, card, switch_, host)

/// Whether it is a place among the host's cores, which are on the victim's NUMA node.
constexpr bool is_of_numa_node(Share share) {
  return share == Share::core || share == Share::llc || share == Share::node;
}

/// A tenant that does not train: it idles, or a stressor of virtrain-stress works in it.
struct Neighbour {
  bool operator==(const Neighbour&) const = default;
  std::string aggressor;  ///< "cpu", "h2d+d2h"; empty: idle
  double level = 1;       ///< share of the time in which it is at work
  Share share = Share::host;

  bool is_idle() const { return aggressor.empty(); }
  /// Two of "net": one sends to the other.
  std::int64_t nodes() const { return aggressor == "net" ? 2 : 1; }
  /// Without the arm that it is beside.
  ArmKey key() const;
  /// "idle", "cpu@25%"
  std::string condition() const;
};

/// An aggressor: its name in scenarios, and the kinds of virtrain-stress that it runs side by side.
struct AggressorKind {
  std::string name;
  std::vector<std::string> stressors;
  bool needs_gpu = false;
};
const std::vector<AggressorKind>& aggressor_kinds();
/// The kind of this name; there is one.
const AggressorKind& aggressor_kind(const std::string& name);

/// Whether all of a scenario's neighbours get GPUs like their victim's: for the work of one of them, or for
/// what they share.
bool need_gpus(const std::vector<Neighbour>& neighbours);

VIRTRAIN_ENUM_CLASS(DeviceKind, none, passthrough, vgpu, vf)
VIRTRAIN_ENUM_CLASS(NicKind, passthrough, vf)
enum class Reuse { trial, experiment_case };

using Guest = vmctl::GuestSpec;
using vmctl::mirror_image;
using vmctl::Pinning;

/// Whether it is "0000:17:00.0".
bool is_pci_address(const std::string& text);
/// Whether it is a PCI address, or the name of a parent of mediated devices, which need not be a PCI
/// function.
bool is_vgpu_parent(const std::string& text);
/// Whether it is "0x10de", in either case.
bool is_pci_vendor(const std::string& text);
/// Whether it is "GPU-…".
bool is_gpu_uuid(const std::string& text);

inline constexpr std::int64_t most_nodes = 4096;
inline constexpr std::int64_t most_per_node = 64;
inline constexpr std::size_t most_type_bytes = 64;  ///< of a vGPU type's name or id

/// Which devices of the host.
struct DeviceSelection {
  bool operator==(const DeviceSelection&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, vendor, {}, .text = "PCI vendor id", .key = "vendor", .most = 32,
                 .fits = is_pci_vendor, .refusal = "is not a PCI vendor id such as 0x10de",
                 .absent = "any vendor", .example = "0x10de");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, count, {},
                 .text = "Largest number of devices; the first ones by address are taken", .key = "count",
                 .least = 1, .most = most_per_node * most_nodes, .absent = "all of them", .example = "4");
  VIRTRAIN_FIELD(
      std::vector<std::string>, addresses, {},
      .text =
          "PCI addresses of devices of any class; with kind vgpu also names of parents of mediated "
          "devices",
      .key = "address", .pattern = "^[0-9a-f]{4}:[0-9a-f]{2}:[01][0-9a-f]\\.[0-7]$", .fits = is_pci_address,
      .refusal = "a PCI address such as 0000:17:00.0", .absent = "any address",
      .example = R"(["0000:17:00.0"])");
  VIRTRAIN_FIELD(std::vector<std::string>, uuids, {}, .text = "UUIDs of GPUs, as nvidia-smi -L shows them",
                 .key = "uuid", .pattern = "^GPU-", .fits = is_gpu_uuid,
                 .refusal = "a GPU's UUID such as GPU-8f1c… (nvidia-smi -L shows them)", .absent = "any GPU",
                 .example = R"(["GPU-8f1c2a4e-6b3d-4c5f-9a07-1d2e3f405162"])");
  VIRTRAIN_FIELD(std::string, name, {}, .text = "Part of the device's name", .key = "name", .most = 128,
                 .absent = "any name", .example = "A100");
};

/// Adapters that a node gets beside its GPUs.
struct Nics {
  bool operator==(const Nics&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(NicKind, kind, NicKind::passthrough,
                 .text = "Whole adapters (passthrough), or virtual functions (vf)", .key = "kind",
                 .required = true);
  VIRTRAIN_FIELD(std::int64_t, per_node, 1, .text = "Adapters of each node", .key = "per_node", .least = 1,
                 .most = 16);
  VIRTRAIN_FIELD(DeviceSelection, select, {}, .text = "Which adapters of the host", .key = "select",
                 .absent = "all RDMA adapters");
};

inline constexpr MeantWord meant_device_kinds[] = {
    {"mig",
     "a MIG-backed vGPU is kind vgpu with a type such as A100-2-10C, which virtrain doctor --devices lists; "
     "MIG inside one VM is kind passthrough with settings.mig"},
    {"mdev", "a mediated device is kind vgpu"},
    {"sriov", "virtual functions are kind vf"}};

/// Devices of a case's nodes.
struct Devices {
  bool operator==(const Devices&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(
      DeviceKind, kind, DeviceKind::none,
      .text = "Whole devices (passthrough), vGPUs (those backed by MIG too), virtual functions (vf), or none",
      .key = "kind", .required = true, .meant = meant_device_kinds, .example = "passthrough");
  VIRTRAIN_FIELD(DeviceSelection, select, {}, .text = "Which devices of the host", .key = "select",
                 .with_kind = {"passthrough", "vgpu", "vf"}, .absent = "all GPUs");
  VIRTRAIN_FIELD(std::string, vgpu_type, {},
                 .text = "vGPU type by name or id; virtrain doctor --devices lists them", .key = "type",
                 .most = most_type_bytes, .with_kind = {"vgpu"},
                 .absent = "each tenant with vGPUs needs a vgpu_type", .example = "A100-20C");
  VIRTRAIN_FIELD(vmctl::Clique, clique, vmctl::Clique::off,
                 .text =
                     "Which GPUs of a VM are told that they reach each other over PCIe: none (off), those "
                     "below one switch (auto), or all",
                 .key = "clique", .with_kind = {"passthrough"});
  VIRTRAIN_FIELD(vmctl::Vfio, vfio, vmctl::Vfio::container,
                 .text = "Interface of the kernel through which QEMU maps a guest's memory for its devices",
                 .key = "vfio", .with_kind = {"passthrough"});
  VIRTRAIN_FIELD(bool, spread, false,
                 .text =
                     "Whether a case's parts of cards (vGPUs, virtual functions) are on as many cards as "
                     "possible (true), or on as few (false)",
                 .key = "spread", .with_kind = {"vgpu", "vf"});
  VIRTRAIN_FIELD(vmctl::DeviceSettings, settings, {}, .text = "Settings of each GPU, put back after the run",
                 .key = "settings", .with_kind = {"passthrough", "vgpu"}, .absent = "as virtrain finds them");
  VIRTRAIN_FIELD(std::optional<vmctl::VgpuScheduler>, vgpu_scheduler, {},
                 .text = "How a card shares its time among vGPUs, put back after the run",
                 .key = "vgpu_scheduler", .with_kind = {"vgpu"}, .absent = vmctl::as_found);
  VIRTRAIN_FIELD(vmctl::BetweenTenants, between_tenants, vmctl::BetweenTenants::none,
                 .text =
                     "What happens to a device before each VM that gets it: none, reset, or erase (an NVMe "
                     "disk is overwritten with zeros)",
                 .key = "between_tenants", .with_kind = {"passthrough", "vf"});
  VIRTRAIN_FIELD(std::string, licence_token, {},
                 .text = "Absolute path of the vGPUs' client configuration token; it is never logged",
                 .key = "licence_token", .most = 4096, .pattern = "^/.+$", .with_kind = {"vgpu"},
                 .absent = "guests get no token", .example = "/etc/virtrain/client_configuration_token.tok");
  VIRTRAIN_FIELD(std::optional<Nics>, nics, {}, .text = "RDMA adapters of each node, near its GPUs",
                 .key = "nics", .with_kind = {"passthrough", "vgpu", "vf"}, .absent = "no adapters");
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
  /// Its nodes on each of the scenario's hosts, which are filled in their order; absent: as evenly as it
  /// goes.
  std::optional<std::int64_t> per_host = {};
  std::string on = {};  ///< the host of all of its nodes; empty: any
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

/// Where cases run: bare_metal, vm or bare_metal_shared, machines that exist already, or a variant of one of
/// them.
struct Arm {
  std::string name;
  std::string base;                    ///< bare_metal, vm, bare_metal_shared or attach
  std::string like;                    ///< the arm that it changes; empty: it is no variant
  std::vector<ArmChange> own_changes;  ///< against `like`
  std::vector<ArmChange> changes;      ///< against `base`
  std::optional<Price> price;
  std::vector<Case> cases;                     ///< the scenario's, as they are in this arm
  vmctl::NodeLimits neighbour_limits = {};     ///< where the scenario measures isolation
  std::optional<Neighbour> neighbour = {};     ///< beside which its trials run
  std::vector<AttachedMachine> attached = {};  ///< its nodes, in the order in which they are used

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
  HostList hosts = {};
  Guest guest;  ///< without what arms and sweeps change; so are devices and cases
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
  bool security = false;               ///< leak searches of each base of its arms, after the trials
  /// Shuffles the arms of each two neighbouring pairs, the second in the reverse order of the first; absent:
  /// as listed, reversed in every second pair. `virtrain bisect` sets it, no file does.
  std::optional<std::int64_t> order_seed = {};
  bool by_test = false;  ///< looks go by the test alone, whatever was emulated or differs; likewise
  std::vector<std::string> warnings;  ///< for example an odd number of pairs
};

/// Whether an arm of the scenario is this one, or a variant of it.
bool has_arm(const Scenario& scenario, const std::string& base);
/// The machines of all arms, each once.
std::vector<AttachedMachine> attached_machines(const Scenario& scenario);
/// Whether all of its arms are of machines that exist already.
bool is_all_attached(const Scenario& scenario);
/// Whether no arm boots another image than the host's own packages.
bool boots_mirrors_only(const Scenario& scenario);

/// Probes that `probes` may name, of a node's host and of each of its GPUs.
inline const std::vector<std::string> host_probes{"triad", "memory_copy", "gemm"};
inline const std::vector<std::string> gpu_probes{"gpu_gemm", "device_copy", "host_to_device",
                                                 "device_to_host", "peer_copy"};
/// Probes of all ranks of a tenant, before each trial: over MPI, and over NCCL where each has a GPU.
inline const std::vector<std::string> mpi_probes{"all_reduce", "all_gather", "broadcast"};
inline const std::vector<std::string> nccl_probes{"nccl_all_reduce", "nccl_all_gather", "nccl_broadcast"};
bool is_gpu_probe(const std::string& probe);
bool is_rank_probe(const std::string& probe);

}  // namespace virtrain::harness
