// What a trial leaves in the database: its rows as they come, its results at the end.

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/text.h"
#include "common/time.h"
#include "harness/evidence/device_evidence.h"
#include "harness/evidence/gpu_facts.h"
#include "harness/rules/validity.h"
#include "harness/trial/trial_run.h"

namespace virtrain::harness {
namespace {

constexpr double most_images_per_second = std::numeric_limits<double>::max();

template <typename Value>
std::optional<Value> optional_field(const nlohmann::json& fields, const char* name) {
  const auto found = fields.find(name);
  if (found == fields.end() || !found->is_number()) { return std::nullopt; }
  return found->get<Value>();
}

/// A fact of a node's; nothing where it is no whole number that fits.
std::optional<std::int64_t> optional_count(const nlohmann::json& facts, const char* name) {
  const auto found = facts.find(name);
  if (found == facts.end() || !found->is_number_integer()) { return std::nullopt; }
  const auto count = found->get<std::int64_t>();
  return count > 0 ? std::optional(count) : std::nullopt;
}

}  // namespace

// --- rows

void TrialRun::save_tenants() {
  for (std::size_t t = 0; t < placement_.tenants.size(); ++t) {
    const auto& placed = placement_.tenants[t];
    TenantRow row;
    row.record.tenant_index = static_cast<std::int64_t>(t);
    row.record.name = placed.name;
    row.record.nodes = static_cast<std::int64_t>(placed.nodes.size());
    row.record.workload = to_json(placed.workload);
    row.id = context_.store.save_tenant(trial_row_, row.record);
    row.ranks.resize(static_cast<std::size_t>(placed.ranks()));
    tenant_rows_.push_back(std::move(row));
  }
}

void TrialRun::save_nodes(NodeSet& nodes) {
  for (const auto& live : nodes.nodes()) {
    NodeRow row;
    auto& record = row.record;
    record.name = live.placement->hostname;
    record.kind = nodes.is_vm() ? "vm" : "slice";
    if (nodes.is_vm()) { record.domain_name = live.name; }
    record.domain_uuid = live.uuid;
    record.hostname = live.facts.value("hostname", "");
    if (nodes.is_vm()) { record.guest_boot_id = live.facts.value("boot_id", ""); }
    record.cores = format_cpu_list(live.cores);
    record.memory_bytes = static_cast<std::int64_t>(live.memory_bytes);
    if (live.numa_node) { record.numa_node = *live.numa_node; }
    record.cpuset_read_back = live.facts.value("cpus", "");
    record.memory_limit_read_back_bytes = optional_count(live.facts, "memory_limit_bytes");
    record.kernel = live.facts.value("kernel", "");
    record.console_log = live.console_log;
    record.domain_xml = live.domain_xml;
    record.agent_ready_seconds = live.agent_ready_seconds;
    record.clock_offset_ns = live.agent->clock().offset_ns;
    record.clock_uncertainty_ns = live.agent->clock().uncertainty_ns;
    for (const auto& [name, value] : live.facts.items()) {
      record.fingerprint[name] = value.is_string() ? value.get<std::string>() : value.dump();
    }
    if (const auto medium = nodes.network_medium(live); !medium.empty()) {
      record.fingerprint["network_medium"] = medium;
    }
    row.id = context_.store.save_node(tenant_rows_[live.tenant].id, record);
    node_rows_.push_back(std::move(row));
  }
}

void TrialRun::on_record(std::size_t tenant, std::int64_t rank, const RankRecord& record) {
  if (record.kind != RankRecord::Kind::hello) { return; }
  auto& row = tenant_rows_[tenant].ranks[static_cast<std::size_t>(rank)];
  const auto& placed = placement_.tenants[tenant];
  const auto& hello = record.fields;
  row.record.node = placed.nodes[static_cast<std::size_t>(rank / placed.ranks_per_node)].hostname;
  // In the shared arm one slice, named after the first node, holds all ranks.
  if (planned_.arm == arm_bare_metal_shared) { row.record.node = placed.nodes[0].hostname; }
  row.record.rank = rank;
  row.record.local_rank = hello.value("local_rank", std::int64_t{0});
  row.record.size = hello.value("size", std::int64_t{0});
  row.record.hostname = printable(hello.value("hostname", ""));
  row.record.pid = optional_field<std::int64_t>(hello, "pid");
  row.record.isa = printable(hello.value("isa", ""));
  row.record.threads = optional_field<std::int64_t>(hello, "threads");
  row.record.cpuset_read_back = printable(hello.value("cpuset", ""));
  row.record.memory_limit_read_back_bytes = optional_field<std::int64_t>(hello, "memory_limit_bytes");
  row.is_new = true;
}

void TrialRun::flush() {
  constexpr const char* operation = "store samples and telemetry";
  try {
    context_.store.transaction(operation, [&] { store_new_rows(); });
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) { throw; }
    // A row that the schema refuses, it will refuse again. It is the trial's fault and not the database's.
    forget_new_rows();
    throw Error(operation, ErrorCode::trial_failed, error.what());
  }
  forget_new_rows();
}

void TrialRun::forget_new_rows() {
  for (std::size_t t = 0; t < jobs_.size(); ++t) {
    for (std::size_t r = 0; r < jobs_[t]->ranks().size(); ++r) {
      tenant_rows_[t].ranks[r].is_new = false;
      tenant_rows_[t].ranks[r].stored_samples = jobs_[t]->ranks()[r].samples.size();
    }
  }
  for (auto& row : node_rows_) { row.telemetry.clear(); }
}

void TrialRun::store_new_rows() {
  for (std::size_t t = 0; t < jobs_.size(); ++t) {
    for (std::size_t r = 0; r < jobs_[t]->ranks().size(); ++r) {
      const auto& windows = jobs_[t]->ranks()[r].samples;
      auto& row = tenant_rows_[t].ranks[r];
      // Not as it comes: a commit is synced, and ranks may say what they like as often as they like.
      if (row.is_new) { row.id = context_.store.save_rank(tenant_rows_[t].id, row.record); }
      if (row.id == 0 || row.stored_samples == windows.size()) { continue; }
      std::vector<results::Sample> fresh;
      for (std::size_t i = row.stored_samples; i < windows.size(); ++i) {
        fresh.push_back(
            {windows[i].t_ns, windows[i].step, windows[i].images, windows[i].seconds, windows[i].loss});
      }
      context_.store.add_samples(row.id, fresh);
    }
  }
  for (const auto& row : node_rows_) {
    if (!row.telemetry.empty()) { context_.store.add_telemetry(row.id, row.telemetry); }
  }
}

// --- results

std::int64_t TrialRun::network_bytes_required(const TenantPlacement& tenant) const {
  // Gradients that go through shared memory or an adapter of the tenant's own pass by its veths and taps.
  if (planned_.arm == arm_bare_metal_shared || tenant.has_rdma_adapter()) { return 0; }
  // Jobs are in the order of the tenants.
  const auto& job = *jobs_[static_cast<std::size_t>(&tenant - placement_.tenants.data())];
  return all_reduce_bytes_per_node(static_cast<std::int64_t>(tenant.nodes.size()),
                                   tenant.workload.warmup_steps + tenant.workload.steps,
                                   gradient_bytes_per_step(tenant.workload, job.ranks()));
}

std::int64_t TrialRun::network_bytes_measured(NodeSet& nodes, std::size_t tenant) const {
  std::uint64_t sent = 0;
  std::int64_t count = 0;
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (nodes.nodes()[n].tenant != tenant) { continue; }
    sent += node_rows_[n].after.network_tx_bytes - node_rows_[n].before.network_tx_bytes;
    ++count;
  }
  return count == 0 ? 0 : static_cast<std::int64_t>(sent) / count;
}

std::optional<std::int64_t> TrialRun::start_spread_ns() const {
  std::optional<std::int64_t> first, last;
  for (const auto& job : jobs_) {
    for (const auto& rank : job->ranks()) {
      if (!rank.first_start_ns) { continue; }
      first = std::min(first.value_or(*rank.first_start_ns), *rank.first_start_ns);
      last = std::max(last.value_or(*rank.first_start_ns), *rank.first_start_ns);
    }
  }
  return first ? std::optional(*last - *first) : std::nullopt;
}

/// What a tenant's ranks say of their GPUs becomes facts and readings of their nodes.
void TrialRun::take_gpu_evidence(NodeSet& nodes, std::size_t tenant) {
  if (placement_.tenants[tenant].workload.backend != Backend::cuda) { return; }
  const auto& job = *jobs_[tenant];
  std::size_t job_node = 0;    // jobs have their nodes in the order of the trial's
  std::int64_t next_rank = 0;  // and their ranks in the order of the nodes
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (nodes.nodes()[n].tenant != tenant) { continue; }
    std::vector<const RankState*> ranks;
    for (const auto& rank : job.ranks()) {
      if (rank.node == job_node) { ranks.push_back(&rank); }
    }
    ++job_node;
    const auto first_rank = next_rank;
    next_rank += static_cast<std::int64_t>(ranks.size());
    auto& row = node_rows_[n];
    if (const auto ways = job.nccl_transports().of_ranks(first_rank, next_rank); !ways.empty()) {
      row.record.fingerprint["peer_to_peer"] = ways;
    }
    for (const auto& [name, value] : gpu_facts(ranks)) { row.record.fingerprint[name] = value; }
    const auto readings = gpu_telemetry(ranks);
    row.telemetry.insert(row.telemetry.end(), readings.begin(), readings.end());
  }
}

double TrialRun::store_ranks(std::size_t t) {
  auto& tenant = tenant_rows_[t];
  double images_per_second = 0;
  for (std::size_t r = 0; r < jobs_[t]->ranks().size(); ++r) {
    const auto& state = jobs_[t]->ranks()[r];
    auto& record = tenant.ranks[r].record;
    const auto& result = *state.result;
    record.images_per_second = result.value("images_per_second", 0.0);
    record.parameters_hash_before = printable(state.ready->value("parameters_hash", ""));
    record.parameters_hash_after = printable(result.value("parameters_hash", ""));
    record.loss_first = optional_field<double>(result, "loss_first");
    record.loss_last = optional_field<double>(result, "loss_last");
    record.peak_rss_bytes = optional_field<std::int64_t>(result, "peak_rss_bytes");
    record.step_p50_seconds = optional_field<double>(result, "step_seconds_p50");
    record.step_p95_seconds = optional_field<double>(result, "step_seconds_p95");
    record.step_p99_seconds = optional_field<double>(result, "step_seconds_p99");
    record.exposed_allreduce_seconds = optional_field<double>(result, "allreduce_seconds_exposed");
    context_.store.save_rank(tenant.id, record);
    // A sum of lies may be beyond all numbers; it is invalid, and stored all the same.
    images_per_second = std::min(images_per_second + *record.images_per_second, most_images_per_second);
  }
  return images_per_second;
}

void TrialRun::store_tenant(NodeSet& nodes, std::size_t t) {
  auto& tenant = tenant_rows_[t];
  tenant.record.images_per_second = store_ranks(t);
  tenant.record.loss_first = tenant.ranks[0].record.loss_first;
  tenant.record.loss_last = tenant.ranks[0].record.loss_last;
  tenant.record.network_bytes_required = network_bytes_required(placement_.tenants[t]);
  tenant.record.network_bytes_measured = network_bytes_measured(nodes, t);
  std::vector<std::string> names;
  for (const auto& [pair, transport] : jobs_[t]->transports()) {
    context_.store.save_transport(tenant.id, {pair.first, pair.second, transport});
    if (std::find(names.begin(), names.end(), transport) == names.end()) { names.push_back(transport); }
  }
  tenant.record.transport = join(names, ", ");
  context_.store.save_tenant(trial_row_, tenant.record);
  images_per_second_ =
      std::min(images_per_second_ + *tenant.record.images_per_second, most_images_per_second);
}

NodeEvidence TrialRun::node_evidence(NodeSet& nodes, std::size_t n) const {
  const auto& live = nodes.nodes()[n];
  const auto& row = node_rows_[n];
  auto node = placement_evidence(*live.placement);
  node.missing_devices = row.topology.missing;
  node.licensed_at_start = row.licensed_at_start;
  node.licensed_at_end = row.licensed_at_end;
  node.peer_differences = row.topology.peer_differences;
  node.guest_gpu_numa_nodes = row.topology.gpu_numa_nodes;
  node.boot_id = live.facts.value("boot_id", "");
  node.is_vm = nodes.is_vm();
  if (node.devices > 0) { node.wall_clock_offset_ns = live.agent->clock().wall_offset_ns; }
  return node;
}

TenantEvidence TrialRun::tenant_evidence(NodeSet& nodes, std::size_t t) const {
  const auto& placed = placement_.tenants[t];
  const auto& record = tenant_rows_[t].record;
  TenantEvidence seen{placed.name,
                      {},
                      placed.ranks_per_node,
                      nodes.is_shared(),
                      *record.network_bytes_required,
                      *record.network_bytes_measured,
                      jobs_[t]->ranks(),
                      placed.workload.images_per_rank(),
                      jobs_[t]->released_ns()};
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (nodes.nodes()[n].tenant == t) { seen.nodes.push_back(node_evidence(nodes, n)); }
  }
  // One slice of all has the tenant's GPUs in an order of its own.
  if (!nodes.is_shared()) { seen.transports_planned = planned_transports(placed); }
  seen.transports_seen = jobs_[t]->nccl_transports().by_pair();
  return seen;
}

void TrialRun::store_nodes(NodeSet& nodes) {
  for (std::size_t n = 0; n < node_rows_.size(); ++n) {
    auto& row = node_rows_[n];
    // The process's time and its threads' come from two readings, so a short interval may come out negative.
    if (row.before.domain && row.after.domain) {
      row.record.helper_cpu_seconds =
          std::max(0.0, static_cast<double>(row.after.domain->helper_cpu_ns) -
                            static_cast<double>(row.before.domain->helper_cpu_ns)) *
          1e-9;
    }
    context_.store.save_node(tenant_rows_[nodes.nodes()[n].tenant].id, row.record);
  }
}

void TrialRun::store_results(NodeSet& nodes) {
  TrialEvidence evidence;
  for (std::size_t t = 0; t < jobs_.size(); ++t) {
    store_tenant(nodes, t);
    take_gpu_evidence(nodes, t);
    evidence.tenants.push_back(tenant_evidence(nodes, t));
  }
  store_nodes(nodes);
  flush();  // the GPUs' readings, which came with the results
  if (device_watch_) { evidence.host = device_watch_->finish(); }
  for (const auto& remark : remarks(evidence)) { context_.event(trial_row_, "collect", remark); }
  const auto reasons = invalid_reasons(evidence, context_.owner.boot_id);
  context_.store.finish_trial(trial_row_,
                              {images_per_second_, start_spread_ns(), reasons.empty(), join(reasons, "; ")},
                              iso8601(wall_ns()));
}

}  // namespace virtrain::harness
