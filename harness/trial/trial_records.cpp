#include "harness/trial/trial_records.h"

#include <algorithm>
#include <limits>

#include "common/contains.h"
#include "common/error.h"
#include "common/system/time.h"
#include "common/text/cpu_list.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/evidence/gpu_facts.h"
#include "harness/evidence/trial_evidence.h"
#include "harness/rules/validity.h"
#include "harness/trial/gather_evidence.h"

namespace virtrain::harness {
namespace {

/// The fact that a machine's virtualization is what it says of itself.
constexpr const char* told_from_inside = "told_from_inside";
constexpr double most_throughput = std::numeric_limits<double>::max();

results::Node record_of(const LiveNode& live) {
  const auto& made = live.made;
  results::Node record;
  record.name = live.placement->hostname;
  record.kind = made.kind;
  if (made.has_own_kernel) {
    record.domain_name = made.name;
    record.guest_boot_id = live.report.boot_id.value_or("");
  }
  record.domain_uuid = made.uuid;
  record.hostname = live.report.hostname.value_or("");
  record.cores = format_cpu_list(made.cores);
  record.memory_bytes = static_cast<std::int64_t>(made.memory_bytes);
  if (made.numa_node) { record.numa_node = *made.numa_node; }
  record.cpuset_read_back = live.report.cpus.value_or("");
  record.memory_limit_read_back_bytes = live.report.memory_limit_bytes;
  record.kernel = live.report.kernel.value_or("");
  record.console_log = made.log;
  record.domain_xml = live.domain_xml;
  record.agent_ready_seconds = live.agent_ready_seconds;
  record.clock_offset_ns = live.agent->clock().offset_ns;
  record.clock_uncertainty_ns = live.agent->clock().uncertainty_ns;
  for (const auto& [name, value] : live.report.facts) { record.fingerprint[name] = value; }
  if (live.machine) {
    record.fingerprint[told_from_inside] = "yes";
    const auto add = [&](const char* name, const std::string& value) {
      if (!value.empty()) { record.fingerprint[name] = value; }
    };
    add("hypervisor", live.machine->hypervisor);
    add("product", std::string(trim(live.machine->vendor + " " + live.machine->product)));
  }
  if (!made.network_medium.empty()) { record.fingerprint["network_medium"] = made.network_medium; }
  return record;
}

/// They are stored, or cannot be.
void forget_new_rows(LiveTrial& trial) {
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) { node.telemetry.clear(); }
    tenant.figures.clear();
    for (std::size_t r = 0; tenant.job && r < tenant.ranks.size(); ++r) {
      tenant.ranks[r].is_new = false;
      tenant.ranks[r].stored_samples = tenant.job->ranks()[r].samples.size();
    }
  }
}

void store_new_samples(results::Store& store, LiveTenant& tenant) {
  for (std::size_t r = 0; tenant.job && r < tenant.ranks.size(); ++r) {
    const auto& windows = tenant.job->ranks()[r].samples;
    auto& rank = tenant.ranks[r];
    // Not as it comes: a commit is synced, and ranks may say what they like as often as they like.
    if (rank.is_new) { rank.record.id = store.save_rank(tenant.record.id, rank.record); }
    if (rank.record.id == 0 || rank.stored_samples == windows.size()) { continue; }
    std::vector<results::Sample> fresh;
    for (std::size_t i = rank.stored_samples; i < windows.size(); ++i) {
      fresh.push_back(
          {windows[i].t_ns, windows[i].step, windows[i].images, windows[i].seconds, windows[i].loss});
    }
    store.add_samples(rank.record.id, fresh);
  }
}

/// Turns the reports of a tenant's ranks on their GPUs into facts and readings of their nodes.
void take_gpu_evidence(LiveTenant& tenant) {
  if (!tenant.trains_with_cuda()) { return; }
  std::int64_t next_rank = 0;  // jobs have their ranks in the order of the nodes
  for (std::size_t n = 0; n < tenant.nodes.size(); ++n) {
    auto& node = tenant.nodes[n];
    std::vector<const RankState*> ranks;
    for (const auto& rank : tenant.job->ranks()) {
      if (rank.node == n) { ranks.push_back(&rank); }
    }
    const auto first_rank = next_rank;
    next_rank += static_cast<std::int64_t>(ranks.size());
    if (const auto ways = tenant.job->nccl_transports().of_ranks(first_rank, next_rank); !ways.empty()) {
      node.record.fingerprint["peer_to_peer"] = ways;
    }
    for (const auto& [name, value] : gpu_facts(ranks)) { node.record.fingerprint[name] = value; }
    const auto readings = gpu_telemetry(ranks);
    node.telemetry.insert(node.telemetry.end(), readings.begin(), readings.end());
  }
}

/// Energy that the hosts' processors used while ranks on them took their counted steps: all of it, whoever
/// ran there.
void take_host_energy(LiveTrial& trial) {
  double images = 0;
  for (const auto& tenant : trial.trainers()) {
    if (tenant.trains_with_cuda() || tenant.runs_job()) { return; }
    images += static_cast<double>(tenant.plan.workload.images_per_rank() * std::ssize(tenant.ranks));
  }
  const auto [begin_ns, end_ns] = counted_interval(trial);
  double sum = 0;
  for (const auto& [host, seen] : trial.watched) {
    const auto joules = joules_between(seen.package_energy, begin_ns, end_ns);
    if (!joules) { return; }
    sum += *joules;
  }
  if (sum == 0) { return; }
  auto& readings = (*trial.trainers().begin()).nodes[0].telemetry;
  readings.push_back({end_ns, "host", "cpu_package_joules", sum});
  readings.push_back({end_ns, "host", "cpu_images_per_joule", images / sum});
}

void add_result(results::Rank& record, const RankState& state) {
  const auto& result = *state.result;
  record.throughput = {result.images_per_second};
  record.parameters_hash_before = printable(state.ready->parameters_hash);
  record.parameters_hash_after = printable(result.parameters_hash.value_or(""));
  record.loss_first = result.loss_first;
  record.loss_last = result.loss_last;
  record.peak_rss_bytes = result.peak_rss_bytes;
  record.step_p50_seconds = result.step_seconds_p50;
  record.step_p95_seconds = result.step_seconds_p95;
  record.step_p99_seconds = result.step_seconds_p99;
  record.exposed_allreduce_seconds = result.allreduce_seconds_exposed;
}

/// A sum of lies may be beyond all numbers; it is invalid, and stored all the same.
double sum_of(double a, double b) {
  return std::min(a + b, most_throughput);
}

void store_tenant(LiveTrial& trial, LiveTenant& tenant) {
  auto& store = trial.context.store;
  auto& record = tenant.record;
  double sum = 0;
  for (std::size_t r = 0; r < tenant.ranks.size(); ++r) {
    auto& rank = tenant.ranks[r].record;
    add_result(rank, tenant.job->ranks()[r]);
    store.save_rank(record.id, rank);
    sum = sum_of(sum, rank.throughput->value);
  }
  if (tenant.command) {
    sum = tenant.command->result().throughput;
    store.add_figures(record.id, tenant.command->figures());
  }
  if (sum > 0) { record.throughput = {sum, tenant.plan.unit()}; }
  if (!tenant.ranks.empty()) {
    record.loss_first = tenant.ranks[0].record.loss_first;
    record.loss_last = tenant.ranks[0].record.loss_last;
  }
  record.network_bytes_required = network_bytes_required(tenant);
  record.network_bytes_measured = network_bytes_measured(tenant);
  std::vector<std::string> names;
  for (const auto& [pair, transport] : tenant.job->transports()) {
    store.save_transport(record.id, {pair.first, pair.second, transport});
    add_once(names, transport);
  }
  record.transport = join(names, ", ");
  store.save_tenant(trial.row, record);
  trial.throughput = sum_of(trial.throughput, sum);
}

/// How the victim went on once the aggressor had ended. Its first rank speaks for all, for they step
/// together.
std::vector<RecoveryStep> steps_after_aggressor(LiveTrial& trial) {
  std::vector<RecoveryStep> steps;
  auto& victim = *trial.trainers().begin();
  if (victim.runs_job()) { return steps; }
  const auto ranks = static_cast<double>(victim.ranks.size());
  for (const auto& step : victim.job->ranks()[0].later) {
    steps.push_back({static_cast<double>(step.t_ns - trial.stressors_ended_ns) * 1e-9, step.seconds,
                     static_cast<double>(step.images) * ranks});
  }
  return steps;
}

void store_node(LiveTrial& trial, const LiveTenant& tenant, TrialNode& node) {
  // The process's time and its threads' come from two readings, so a short interval may come out negative.
  if (node.before.domain && node.after && node.after->domain) {
    node.record.helper_cpu_seconds =
        std::max(0.0, static_cast<double>(node.after->domain->helper_cpu_ns) -
                          static_cast<double>(node.before.domain->helper_cpu_ns)) *
        1e-9;
  }
  trial.context.store.save_node(tenant.record.id, node.record);
}

std::optional<std::int64_t> start_spread_ns(const LiveTrial& trial) {
  std::optional<std::int64_t> first, last;
  for (const auto& tenant : trial.tenants) {
    if (!tenant.job) { continue; }
    for (const auto& rank : tenant.job->ranks()) {
      if (!rank.first_start_ns) { continue; }
      first = std::min(first.value_or(*rank.first_start_ns), *rank.first_start_ns);
      last = std::max(last.value_or(*rank.first_start_ns), *rank.first_start_ns);
    }
  }
  return first ? std::optional(*last - *first) : std::nullopt;
}

}  // namespace

void save_tenants(LiveTrial& trial) {
  for (const auto& placed : trial.placement.tenants) {
    LiveTenant tenant{placed};
    tenant.record.tenant_index = std::ssize(trial.tenants);
    tenant.record.name = placed.name;
    tenant.record.nodes = std::ssize(placed.nodes);
    tenant.record.workload = placed.neighbour ? to_json(*placed.neighbour) : to_json(placed.workload);
    tenant.record.id = trial.context.store.save_tenant(trial.row, tenant.record);
    if (!placed.runs_job()) { tenant.ranks.resize(static_cast<std::size_t>(placed.ranks())); }
    trial.tenants.push_back(std::move(tenant));
  }
}

void save_nodes(LiveTrial& trial) {
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) {
      node.record = record_of(node.live);
      const auto payload = trial.context.payloads.find(payload_of(tenant.plan));
      if (payload != trial.context.payloads.end()) {
        node.record.fingerprint["payload_sha256"] = payload->second;
      }
      node.record.host = node.live.placement->host;
      const auto& scheduler = trial.placement.devices.vgpu_scheduler;
      if (scheduler && node.live.made.has_own_kernel) {
        node.record.fingerprint["vgpu_scheduler"] = to_string(*scheduler);
      }
      node.record.id = trial.context.store.save_node(tenant.record.id, node.record);
    }
  }
}

void take_record(LiveTenant& tenant, std::int64_t rank, const RankRecord& said) {
  const auto* const hello = std::get_if<protocol::Hello>(&said.said);
  if (hello == nullptr) { return; }
  auto& row = tenant.ranks[static_cast<std::size_t>(rank)];
  auto& record = row.record;
  // In the shared arm a slice, named after the first of its nodes, holds the ranks of all of them.
  const auto node = tenant.job->ranks()[static_cast<std::size_t>(rank)].node;
  record.node = tenant.nodes[node].live.placement->hostname;
  record.rank = rank;
  record.local_rank = hello->local_rank;
  record.size = hello->size;
  record.hostname = printable(hello->hostname);
  record.pid = hello->pid;
  record.isa = printable(hello->isa.value_or(""));
  record.threads = hello->threads;
  record.cpuset_read_back = printable(hello->cpuset.value_or(""));
  record.memory_limit_read_back_bytes = hello->memory_limit_bytes;
  row.is_new = true;
}

void store_new_rows(LiveTrial& trial) {
  constexpr const char* operation = "store samples and telemetry";
  auto& store = trial.context.store;
  try {
    store.transaction(operation, [&] {
      for (auto& tenant : trial.tenants) {
        store_new_samples(store, tenant);
        if (!tenant.figures.empty()) { store.add_figures(tenant.record.id, tenant.figures); }
        for (const auto& node : tenant.nodes) {
          if (!node.telemetry.empty()) { store.add_telemetry(node.record.id, node.telemetry); }
        }
      }
    });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    // A row that the schema refuses, it will refuse again. It is the trial's fault and not the database's.
    forget_new_rows(trial);
    throw Error(operation, ErrorCode::trial_failed, error.what());
  }
  forget_new_rows(trial);
}

void store_results(LiveTrial& trial) {
  for (auto& tenant : trial.trainers()) {
    store_tenant(trial, tenant);
    take_gpu_evidence(tenant);
  }
  take_host_energy(trial);
  for (auto& tenant : trial.tenants) {
    for (auto& node : tenant.nodes) { store_node(trial, tenant, node); }
  }
  store_new_rows(trial);  // the GPUs' readings, which came with the results
  const auto evidence = gather_evidence(trial);
  for (auto& tenant : trial.tenants) {
    if (!tenant.stress) { continue; }
    add_work(evidence.aggressors, steps_after_aggressor(trial), tenant.record);
    trial.context.store.save_tenant(trial.row, tenant.record);
  }
  for (const auto& remark : remarks(evidence)) { trial.context.event(trial.row, "collect", remark); }
  trial.invalid = join(invalid_reasons(evidence), "; ");
  std::optional<results::Throughput> throughput;
  if (trial.throughput > 0) { throughput = {trial.throughput, trial.placement.tenants[0].unit()}; }
  trial.context.store.finish_trial(trial.row,
                                   {throughput, start_spread_ns(trial), trial.invalid.empty(), trial.invalid},
                                   iso8601(wall_ns()));
}

}  // namespace virtrain::harness
