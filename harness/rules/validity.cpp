#include "harness/rules/validity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "common/contains.h"
#include "common/model/workload.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/rules/throughput_check.h"
#include "vmctl/api/device.h"

namespace virtrain::harness {
namespace {

/// Bytes of all gradients in fp32, and in the two bytes of fp16 or bf16.
constexpr std::int64_t whole_gradient_bytes = resnet50_parameters * 4,
                       half_gradient_bytes = resnet50_parameters * 2;

/// The CUDA trainer reduces weights' gradients in the activations' type, the CPU's reduces fp32.
bool may_reduce_in_two_bytes(const Workload& workload) {
  return workload.backend == Backend::cuda &&
         (workload.precision == Precision::fp16 || workload.precision == Precision::bf16);
}

/// Bytes that a rank claims to have given to the others in each step, where that is believable. The claim
/// comes from a guest: it may not lower the demand below half, nor raise it so far that the sums overflow.
std::int64_t claimed_gradient_bytes(const RankState& rank) {
  if (!rank.result) { return whole_gradient_bytes; }
  const auto claim = rank.result->bytes_allreduced_per_step.value_or(whole_gradient_bytes);
  return std::clamp(claim, half_gradient_bytes, whole_gradient_bytes);
}

/// Adds the findings of the rules whose severity makes a trial invalid, or of the others.
void add_findings(const TrialEvidence& trial, bool invalidating, std::vector<std::string>& into) {
  for (const auto& rule : validity_rules()) {
    const bool invalidates = rule.severity == Severity::blocks || rule.severity == Severity::invalidates;
    if (invalidates != invalidating) { continue; }
    for (const auto& words : rule.look(trial)) { into.push_back(fmt::format("{}: {}", rule.id, words)); }
  }
}

}  // namespace

std::int64_t gradient_bytes_per_step(const Workload& workload, const std::vector<RankState>& ranks) {
  if (!may_reduce_in_two_bytes(workload) || ranks.empty()) { return whole_gradient_bytes; }
  std::int64_t most = 0;
  for (const auto& rank : ranks) { most = std::max(most, claimed_gradient_bytes(rank)); }
  return most;
}

std::int64_t all_reduce_bytes_per_node(std::int64_t nodes, std::int64_t steps, std::int64_t gradient_bytes) {
  return nodes < 2 ? 0 : steps * (2 * (nodes - 1) * gradient_bytes / nodes);
}

std::vector<std::string> invalid_reasons(const TrialEvidence& trial) {
  std::vector<std::string> reasons;
  add_findings(trial, true, reasons);
  return reasons;
}

std::vector<std::string> remarks(const TrialEvidence& trial) {
  std::vector<std::string> found;
  add_findings(trial, false, found);
  return found;
}

namespace {

using protocol::GpuRecord;
using Words = std::vector<std::string>;

constexpr std::int64_t most_clock_offset_ns = 50'000'000;
/// So many corrected link errors in one trial are a bad cable or slot, though every bit arrived in the end.
constexpr std::uint64_t most_correctable_errors = 100;
/// Share of all steps. A loss scale that starts too high skips a few; more is arithmetic that overflows, and
/// a skipped step does less than a whole one.
constexpr double most_skipped_share = 0.05;

/// Calls `judge` with each tenant and the number of each of its ranks; what it says goes on after the rank's
/// name and `mark`.
template <typename Judge>
Words each_place(const TrialEvidence& trial, Judge&& judge, const char* mark = "") {
  Words found;
  for (const auto& tenant : trial.tenants) {
    for (std::size_t r = 0; r < tenant.ranks.size(); ++r) {
      for (const auto& words : judge(tenant, r)) {
        found.push_back(fmt::format("{} rank {}{} {}", tenant.name, r, mark, words));
      }
    }
  }
  return found;
}

/// The same of judgements that look at nothing but the rank and say one thing, or nothing.
template <typename Judge>
Words each_rank(const TrialEvidence& trial, Judge&& judge) {
  const auto said = [&judge](const TenantEvidence& tenant, std::size_t r) {
    std::string words = judge(tenant.ranks[r]);
    return words.empty() ? Words{} : Words{std::move(words)};
  };
  return each_place(trial, said, ":");
}

/// Calls `judge` for every rank that reports its GPU, with its first and its last report.
template <typename Judge>
Words each_gpu(const TrialEvidence& trial, Judge&& judge) {
  return each_rank(trial, [&](const RankState& rank) -> std::string {
    auto first = rank.hello ? rank.hello->gpu : std::nullopt;
    if (!first && rank.ready) { first = rank.ready->gpu; }
    const auto last = rank.result ? rank.result->gpu : std::nullopt;
    return first || last ? judge(first.value_or(GpuRecord{}), last.value_or(GpuRecord{})) : "";
  });
}

template <typename Judge>
Words each_node(const TrialEvidence& trial, Judge&& judge) {
  Words found;
  for (const auto& tenant : trial.tenants) {
    for (const auto& node : tenant.nodes) {
      if (const std::string words = judge(node); !words.empty()) {
        found.push_back(fmt::format("{} {}: {}", tenant.name, node.hostname, words));
      }
    }
  }
  return found;
}

/// The node of a rank, and that node's first one.
std::pair<const NodeEvidence*, std::int64_t> place_of_rank(const TenantEvidence& tenant, std::int64_t rank) {
  std::int64_t first = 0;
  for (const auto& node : tenant.nodes) {
    if (rank < first + node.ranks) { return {&node, first}; }
    first += node.ranks;
  }
  return {nullptr, first};
}

bool has_reported(const RankState& rank) {
  return rank.hello && rank.ready && rank.result;
}

Words differences_from_plan(const TenantEvidence& tenant, std::size_t index) {
  const auto& rank = tenant.ranks[index];
  if (!has_reported(rank)) { return {"did not report"}; }
  Words wrong;
  const auto number = static_cast<std::int64_t>(index);
  const auto [node, first] = place_of_rank(tenant, number);
  const auto expect = [&wrong](const char* field, std::int64_t seen, std::int64_t wanted) {
    if (seen != wanted) {
      wrong.push_back(fmt::format("says {} {} where {} was planned", field, seen, wanted));
    }
  };
  expect("rank", rank.hello->rank, number);
  expect("size", rank.hello->size, static_cast<std::int64_t>(tenant.ranks.size()));
  expect("local_rank", rank.hello->local_rank, number - first);
  const auto planned = node == nullptr           ? "no node"
                       : node->host_name.empty() ? node->hostname
                                                 : node->host_name;
  if (rank.hello->hostname != planned) {
    wrong.push_back(
        fmt::format("ran on {} where {} was planned", printable(rank.hello->hostname), printable(planned)));
  }
  return wrong;
}

Words ranks_were_as_planned(const TrialEvidence& trial) {
  return each_place(trial, differences_from_plan);
}

Words losses_were_finite(const TrialEvidence& trial) {
  return each_place(trial, [](const TenantEvidence& tenant, std::size_t r) -> Words {
    const auto& rank = tenant.ranks[r];
    const bool is_finite = std::ranges::all_of(rank.samples, [](const RankState::Window& window) {
      return window.loss && std::isfinite(*window.loss);
    });
    return !has_reported(rank) || is_finite ? Words{} : Words{"has no finite loss"};
  });
}

Words rates_fit_samples(const TrialEvidence& trial) {
  return each_place(trial, [&trial](const TenantEvidence& tenant, std::size_t r) -> Words {
    const auto& rank = tenant.ranks[r];
    if (!has_reported(rank)) { return {}; }
    return throughput_doubts(rank, tenant.images_per_rank, tenant.released_ns, trial.standstill_seconds);
  });
}

Words parameters_were_trained(const TrialEvidence& trial) {
  auto found = each_place(trial, [](const TenantEvidence& tenant, std::size_t r) -> Words {
    const auto& rank = tenant.ranks[r];
    const bool is_same = has_reported(rank) && rank.result->parameters_hash == rank.ready->parameters_hash;
    return is_same ? Words{"did not change its parameters"} : Words{};
  });
  for (const auto& tenant : trial.tenants) {
    std::set<std::string> before, after;
    for (const auto& rank : tenant.ranks) {
      if (rank.ready) { before.insert(rank.ready->parameters_hash); }
      if (rank.result) { after.insert(rank.result->parameters_hash.value_or("")); }
    }
    if (before.size() > 1 || after.size() > 1) {
      found.push_back(tenant.name + ": its ranks hold different parameters");
    }
  }
  return found;
}

Words jobs_are_believed(const TrialEvidence& trial) {
  Words found;
  for (const auto& tenant : trial.tenants) {
    for (const auto& doubt : tenant.job_doubts) {
      found.push_back(fmt::format("{}: {}", tenant.name, doubt));
    }
  }
  return found;
}

Words networks_carried_gradients(const TrialEvidence& trial) {
  Words found;
  for (const auto& tenant : trial.tenants) {
    const auto& measured = tenant.network_bytes_measured;
    if (measured.value_or(0) >= tenant.network_bytes_required) { continue; }
    found.push_back(measured ? fmt::format("{}: its network carried {} bytes a node, the all-reduces need {}",
                                           tenant.name, *measured, tenant.network_bytes_required)
                             : tenant.name + ": what its network carried could not be read");
  }
  return found;
}

Words nodes_had_their_functions(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) -> std::string {
    if (node.planned_mac.empty()) { return ""; }
    if (node.nic_driver.empty()) {
      return fmt::format("its eth0 is not the virtual function with {}: it reports no NIC", node.planned_mac);
    }
    return node.nic_mac == node.planned_mac
               ? ""
               : fmt::format("its eth0 has {} by driver {} where {} was planned", printable(node.nic_mac),
                             printable(node.nic_driver), node.planned_mac);
  });
}

Words guests_had_own_kernels(const TrialEvidence& trial) {
  Words found;
  std::set<std::string> boots;
  for (const auto& tenant : trial.tenants) {
    for (const auto& node : tenant.nodes) {
      if (!node.has_own_kernel) { continue; }
      const auto label = tenant.name + " " + node.hostname;
      if (node.boot_id.empty() || trial.host_boot_ids.contains(node.boot_id)) {
        found.push_back(label + " has no boot id of its own");
      } else if (!boots.insert(node.boot_id).second) {
        found.push_back(label + " shares its boot id with another VM");
      }
    }
  }
  return found;
}

std::string unlicensed_words(bool at_start, bool at_end) {
  if (at_start && at_end) { return ""; }
  return fmt::format("its vGPU was not licensed at the {}, and slows down with time", at_start ? "end"
                                                                                      : at_end
                                                                                          ? "start"
                                                                                          : "start and end");
}

Words is_licensed(const TrialEvidence& trial) {
  auto found = each_gpu(trial, [](const GpuRecord& first, const GpuRecord& last) -> std::string {
    if (first.virtualization != "vgpu" && last.virtualization != "vgpu") { return ""; }
    return unlicensed_words(first.licensed.value_or(false), last.licensed.value_or(false));
  });
  const auto by_node = each_node(trial, [](const NodeEvidence& node) -> std::string {
    if (!node.licensed_at_start && !node.licensed_at_end) { return ""; }
    return unlicensed_words(node.licensed_at_start.value_or(false), node.licensed_at_end.value_or(false));
  });
  found.insert(found.end(), by_node.begin(), by_node.end());
  return found;
}

Words memory_was_sound(const TrialEvidence& trial) {
  return each_gpu(trial, [](const GpuRecord& first, const GpuRecord& last) -> std::string {
    Words wrong;
    if (const auto more = last.uncorrected_ecc_errors.value_or(0) - first.uncorrected_ecc_errors.value_or(0);
        last.uncorrected_ecc_errors && first.uncorrected_ecc_errors && more > 0) {
      wrong.push_back(fmt::format("{} uncorrected ECC errors", more));
    }
    if (first.ecc_enabled && last.ecc_enabled && first.ecc_enabled != last.ecc_enabled) {
      wrong.emplace_back("ECC was switched");
    }
    if (first.row_remap_pending.value_or(false) || last.row_remap_pending.value_or(false)) {
      wrong.emplace_back("rows of its memory wait to be remapped");
    }
    return join(wrong, ", ");
  });
}

bool is_harmful(const std::string& slowdown) {
  const auto& harmful = vmctl::harmful_slowdowns;
  return std::ranges::find(harmful, slowdown) != harmful.end();
}

Words clocks_were_free(const TrialEvidence& trial) {
  return each_gpu(trial, [](const GpuRecord& first, const GpuRecord& last) -> std::string {
    std::set<std::string> slowed;
    for (const auto* record : {&first, &last}) {
      for (const auto& reason : record->throttle_reasons.value_or(Words{})) {
        if (is_harmful(reason)) { slowed.insert(reason); }
      }
    }
    Words wrong(slowed.begin(), slowed.end());
    const auto compare = [&wrong](const char* name, const auto& before, const auto& after, const char* unit) {
      if (before && after && *before != *after) {
        wrong.push_back(
            fmt::format("its {} went from {:g} {} to {:g} {}", name, *before, unit, *after, unit));
      }
    };
    compare("power limit", first.power_limit_w, last.power_limit_w, "W");
    compare("application clock", first.application_clock_mhz, last.application_clock_mhz, "MHz");
    return join(wrong, ", ");
  });
}

Words fabric_was_up(const TrialEvidence& trial) {
  return each_gpu(trial, [](const GpuRecord& first, const GpuRecord& last) -> std::string {
    for (const auto* record : {&first, &last}) {
      if (record->fabric_state && *record->fabric_state != "completed" &&
          *record->fabric_state != "not_supported") {
        return "its NVLink fabric was " + printable(*record->fabric_state);
      }
    }
    return "";
  });
}

/// A device that was removed and found again counts from zero: all that it shows came after that.
std::uint64_t rise(std::uint64_t before, std::uint64_t after) {
  return after >= before ? after - before : after;
}

/// "0000:65:00.0", "0000:65:00.0 of gpu-b": this machine, alone, has no name.
std::string device_of(const std::string& host, const std::string& address) {
  return host.empty() ? address : address + " of " + host;
}

void check_links(const std::string& host, const vmctl::DeviceEvidence& seen, Words& wrong) {
  for (const auto& [at, after] : seen.link_errors_after) {
    const auto before = seen.link_errors_before.find(at);
    if (before == seen.link_errors_before.end()) { continue; }
    const auto address = device_of(host, at);
    const auto& was = before->second;
    const auto uncorrected = rise(was.nonfatal, after.nonfatal) + rise(was.fatal, after.fatal);
    const auto corrected = rise(was.correctable, after.correctable);
    if (uncorrected > 0) {
      wrong.push_back(fmt::format("{} had {} uncorrected PCIe errors", address, uncorrected));
    }
    if (corrected > most_correctable_errors) {
      wrong.push_back(fmt::format("{} had {} corrected PCIe errors", address, corrected));
    }
  }
}

Words host_links_were_sound(const TrialEvidence& trial) {
  Words wrong;
  for (const auto& [host, seen] : trial.hosts) { check_links(host, seen, wrong); }
  return wrong;
}

Words links_were_at_their_best(const TrialEvidence& trial) {
  Words wrong;
  for (const auto& [host, seen] : trial.hosts) {
    for (const auto& [address, link] : seen.links) {
      if (link.gigatransfers > 0 &&
          (link.gigatransfers < link.possible_gigatransfers || link.lanes < link.possible_lanes)) {
        wrong.push_back(fmt::format("{} ran at {:g} GT/s x{} at best, of {:g} GT/s x{}",
                                    device_of(host, address), link.gigatransfers, link.lanes,
                                    link.possible_gigatransfers, link.possible_lanes));
      }
    }
  }
  return wrong;
}

bool has_several_tenants_with_devices(const TrialEvidence& trial) {
  const auto with_devices = std::ranges::count_if(trial.tenants, [](const TenantEvidence& tenant) {
    return std::ranges::any_of(
        tenant.nodes, [](const NodeEvidence& node) { return node.has_own_kernel && node.devices > 0; });
  });
  return with_devices > 1;
}

Words acs_was_on(const TrialEvidence& trial) {
  std::vector<std::string> gaps;
  for (const auto& [host, seen] : trial.hosts) {
    for (const auto& bridge : seen.acs_gaps) { gaps.push_back(device_of(host, bridge)); }
  }
  if (!has_several_tenants_with_devices(trial) || gaps.empty()) { return {}; }
  return {"tenants' devices reach each other past the IOMMU: bridge " + join(gaps, ", ")};
}

Words interrupts_were_remapped(const TrialEvidence& trial) {
  const bool is_unsafe =
      std::ranges::any_of(trial.hosts, [](const auto& one) { return one.second.unsafe_interrupts; });
  if (!has_several_tenants_with_devices(trial) || !is_unsafe) { return {}; }
  return {"a tenant could raise any interrupt of the host (allow_unsafe_interrupts)"};
}

Words nodes_were_near(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) -> std::string {
    std::set<int> gpus(node.gpu_numa_nodes.begin(), node.gpu_numa_nodes.end());
    gpus.erase(-1);  // the firmware does not say
    if (gpus.empty()) { return ""; }
    const std::set<int> cores(node.core_numa_nodes.begin(), node.core_numa_nodes.end());
    for (const int core : cores) {
      if (!gpus.contains(core)) {
        return fmt::format("cores of NUMA node {} with GPUs of node {}", core, fmt::join(gpus, ", "));
      }
    }
    if (node.memory_numa_node && !gpus.contains(*node.memory_numa_node)) {
      return fmt::format("memory of NUMA node {} with GPUs of node {}", *node.memory_numa_node,
                         fmt::join(gpus, ", "));
    }
    return "";
  });
}

Words guest_has_its_devices(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) -> std::string {
    return node.missing_devices.empty() ? "" : "its guest does not show " + join(node.missing_devices, " ");
  });
}

Words guest_sees_nodes(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) -> std::string {
    const std::set<int> host(node.gpu_numa_nodes.begin(), node.gpu_numa_nodes.end());
    const bool blind = contains(node.guest_gpu_numa_nodes, -1);
    return node.has_own_kernel && host.size() > 1 && blind ? "a GPU is on no NUMA node of the guest's" : "";
  });
}

Words peers_were_as_planned(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) { return join(node.peer_differences, ", "); });
}

/// Whether each of these ways ("P2P/CUMEM, SHM/direct/direct") is of the planned kind ("P2P").
bool went_as_planned(const std::string& seen, const std::string& planned) {
  const auto ways = split(seen, ',');
  return std::ranges::all_of(
      ways, [&](const std::string& way) { return split(trim(way), '/').front() == planned; });
}

Words transports_were_as_planned(const TrialEvidence& trial) {
  Words wrong;
  for (const auto& tenant : trial.tenants) {
    for (const auto& [pair, planned] : tenant.transports_planned) {
      if (const auto seen = tenant.transports_seen.find(pair);
          seen != tenant.transports_seen.end() && !went_as_planned(seen->second, planned)) {
        wrong.push_back(
            fmt::format("{} ranks {}: {} where {} was planned", tenant.name, pair, seen->second, planned));
      }
    }
  }
  return wrong;
}

Words clock_was_right(const TrialEvidence& trial) {
  return each_node(trial, [](const NodeEvidence& node) -> std::string {
    const auto offset = node.wall_clock_offset_ns.value_or(0);
    if (offset >= -most_clock_offset_ns && offset <= most_clock_offset_ns) { return ""; }
    return fmt::format("its clock is {} ms off the host's", offset / 1'000'000);
  });
}

/// Warnings of a trainer whose warm-up reached the end of its time (--steady_seconds) without a steady state.
Words warm_ups_got_level(const TrialEvidence& trial) {
  return each_rank(trial, [](const RankState& rank) -> std::string {
    const auto state = rank.result ? rank.result->steady_state : std::nullopt;
    if (!state || state->level.value_or(true)) { return ""; }
    const auto why = state->not_level.value_or(Words{});
    return fmt::format("warm-up did not reach a steady state{}{}", why.empty() ? "" : ": ",
                       printable(join(why, ", ")));
  });
}

/// Values that NVML did not give were not judged above, and silence must not pass for a good answer.
Words nvml_answered(const TrialEvidence& trial) {
  return each_gpu(trial, [](const GpuRecord& first, const GpuRecord& last) -> std::string {
    if (first.error) {
      return "its GPU's ECC, clocks and licence were not judged, for NVML did not answer: " +
             printable(*first.error);
    }
    if (last.error) {
      return "its GPU's ECC, clocks and licence at the end were not judged, for NVML did not answer: " +
             printable(*last.error);
    }
    return "";
  });
}

Words steps_were_taken(const TrialEvidence& trial) {
  return each_rank(trial, [](const RankState& rank) -> std::string {
    if (!rank.result || !rank.result->skipped_steps || !rank.result->steps) { return ""; }
    const auto skipped = static_cast<double>(*rank.result->skipped_steps);
    const auto steps =
        static_cast<double>(*rank.result->steps) + static_cast<double>(rank.result->warmup_steps.value_or(0));
    if (skipped <= most_skipped_share * steps) { return ""; }
    return fmt::format("{:.0f} of {:.0f} steps were skipped: gradients overflowed", skipped, steps);
  });
}

/// It never works more than its level, but for a second's catching up: where its mean is right, it kept it.
Words aggressors_kept_their_level(const TrialEvidence& trial) {
  constexpr double least_covered = 0.9;
  Words wrong;
  for (const auto& one : trial.aggressors) {
    if (one.covered < least_covered) {
      wrong.push_back(
          fmt::format("{} reported its work in {:.0f} % of the counted time", one.kind, one.covered * 100));
    } else if (!is_at_level(one.busy, one.level)) {
      wrong.push_back(fmt::format("{} worked at {:.3g} % where {:g} % was asked for", one.kind,
                                  one.busy * 100, one.level * 100));
    }
  }
  return wrong;
}

constexpr const char* when_gpus = "a rank reports its GPU";
constexpr const char* when_tenants_have_devices = "several tenants have devices";

constexpr const char* when_it_trains = "a tenant runs our trainer";

constexpr std::array rules = {
    ValidityRule{"RNK-1", Severity::invalidates, "each rank reported, from the place that was planned for it",
                 when_it_trains, ranks_were_as_planned},
    ValidityRule{"RNK-2", Severity::invalidates, "each rank's loss was finite", when_it_trains,
                 losses_were_finite},
    ValidityRule{"RNK-3", Severity::invalidates,
                 "training changed the parameters, and a tenant's ranks held equal ones", when_it_trains,
                 parameters_were_trained},
    ValidityRule{"RNK-4", Severity::invalidates,
                 "each rank's speed fits its samples, the images that were planned and the host's clock",
                 when_it_trains, rates_fit_samples},
    ValidityRule{"JOB-1", Severity::invalidates, "the figures of a tenant's own command are believable",
                 "a tenant runs a command (workload.command)", jobs_are_believed},
    ValidityRule{"NET-4", Severity::invalidates,
                 "a tenant's network carried the bytes that its all-reduces need",
                 "a tenant trains on several nodes without an RDMA adapter", networks_carried_gradients},
    ValidityRule{"NET-5", Severity::invalidates,
                 "each node's interface was the virtual function that was planned for it",
                 "hosts have a network of kind vf", nodes_had_their_functions},
    ValidityRule{"VM-1", Severity::invalidates,
                 "each VM ran a kernel of its own, neither the host's nor another VM's", "a trial has VMs",
                 guests_had_own_kernels},
    ValidityRule{"ACS-1", Severity::invalidates, "ACS was on above the tenants' devices from start to end",
                 when_tenants_have_devices, acs_was_on},
    ValidityRule{"IOM-3", Severity::invalidates, "interrupts were remapped from start to end",
                 when_tenants_have_devices, interrupts_were_remapped},
    ValidityRule{"AGG-1", Severity::invalidates, "the neighbour kept its level",
                 "a neighbour's aggressor worked next to the tenants", aggressors_kept_their_level},
    ValidityRule{"LNK-1", Severity::invalidates, "GPU links reached their full speed and width under load",
                 "the host saw the links of the trial's GPUs under load", links_were_at_their_best},
    ValidityRule{"AER-1", Severity::invalidates,
                 "the trial's devices had no uncorrected PCIe error and few corrected ones",
                 "the kernel counts PCIe errors of the trial's devices", host_links_were_sound},
    ValidityRule{"DEV-1", Severity::invalidates, "the guest showed all devices of its VM", "a VM has devices",
                 guest_has_its_devices},
    ValidityRule{"NUM-1", Severity::invalidates, "cores and memory were on the NUMA nodes of the GPUs",
                 "a node has GPUs whose NUMA node is known", nodes_were_near},
    ValidityRule{"NUM-2", Severity::warns, "the guest saw the NUMA node of each GPU",
                 "a VM has GPUs of several NUMA nodes", guest_sees_nodes},
    ValidityRule{"LIC-1", Severity::invalidates, "the vGPU was licensed from start to end",
                 "a rank's GPU is a vGPU, or a guest with vGPUs reported its licence", is_licensed},
    ValidityRule{"FAB-1", Severity::blocks, "the NVLink fabric was up", when_gpus, fabric_was_up},
    ValidityRule{"P2P-1", Severity::invalidates, "GPUs reached each other as planned",
                 "a node reported which of its GPUs reach each other", peers_were_as_planned},
    ValidityRule{"P2P-2", Severity::invalidates, "NCCL used the planned transports",
                 "NCCL reported its transports, and they were planned", transports_were_as_planned},
    ValidityRule{"ECC-1", Severity::invalidates,
                 "GPU memory had no uncorrected error, and ECC was not switched", when_gpus,
                 memory_was_sound},
    ValidityRule{"CLK-1", Severity::invalidates,
                 "no GPU was slowed down, and power limits and application clocks stayed", when_gpus,
                 clocks_were_free},
    ValidityRule{"TIME-1", Severity::warns, "the node's wall clock agreed with the host's",
                 "a node's wall clock was compared with the host's", clock_was_right},
    ValidityRule{"WARM-1", Severity::warns, "the warm-up reached a steady state",
                 "a rank warmed up to a steady state (--steady_seconds)", warm_ups_got_level},
    ValidityRule{"NVML-1", Severity::warns, "NVML told ECC, clocks and licence of each GPU", when_gpus,
                 nvml_answered},
    ValidityRule{"STEP-1", Severity::warns,
                 "at most a small share of the steps was skipped for overflowing gradients",
                 "a rank scales its loss and counts the steps that it skips", steps_were_taken},
};

}  // namespace

std::span<const ValidityRule> validity_rules() {
  return rules;
}

}  // namespace virtrain::harness
