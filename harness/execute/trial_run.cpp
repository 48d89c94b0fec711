#include "harness/execute/trial_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/experimental/awaitable_operators.hpp>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/time.h"
#include "common/units.h"
#include "harness/execute/validity.h"

namespace virtrain::harness {
namespace {

using namespace asio::experimental::awaitable_operators;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kTelemetryPeriod{1'000};
/// mpirun, its daemons and MPI_Init; a guest under TCG that shares its core needs most of it.
constexpr milliseconds kPlaceDeadline{120'000};

template <typename Value>
std::optional<Value> optional_field(const nlohmann::json& fields, const char* name) {
  const auto found = fields.find(name);
  if (found == fields.end() || !found->is_number()) return std::nullopt;
  return found->get<Value>();
}

}  // namespace

void RunContext::event(std::optional<std::int64_t> trial, const std::string& stage,
                       const std::string& message, const nlohmann::json& detail) {
  store.add_event(experiment, {trial, monotonic_ns(), iso8601(wall_ns()), stage, message, detail});
  nlohmann::json fields = detail.is_object() ? detail : nlohmann::json::object();
  fields["stage"] = stage;
  if (trial) fields["trial"] = *trial;
  log::debug(message, fields);
}

TrialRun::TrialRun(RunContext& context, const PlannedTrial& planned, std::int64_t trial_row)
    : context_(context),
      planned_(planned),
      placement_(context.plan.placements[planned.placement]),
      trial_row_(trial_row) {}

TrialRun::~TrialRun() {
  for (auto& agent : watched_) {
    agent->on_lost = nullptr;
    agent->on_telemetry = nullptr;
  }
}

void TrialRun::enter(const std::string& stage) {
  stage_ = stage;
  context_.event(trial_row_, stage, "stage " + stage);
  if (context_.progress) context_.progress(stage);
}

milliseconds TrialRun::time_left() const {
  return milliseconds(std::max<std::int64_t>(1, (deadline_ns_ - monotonic_ns()) / 1'000'000));
}

asio::awaitable<void> TrialRun::run(NodeSet& nodes, bool nodes_are_up) {
  save_tenants();
  if (!nodes_are_up) {
    enter("define");
    co_await nodes.define();
    enter("boot");
    co_await nodes.boot();
    enter("agent");
    co_await nodes.reach_agents();
  }
  deadline_ns_ = monotonic_ns() + context_.scenario.trial_timeout_ns;
  save_nodes(nodes);
  make_jobs(nodes);
  watch_agents(nodes);
  enter("place");
  co_await place(nodes);
  enter("barrier");
  co_await barrier(nodes);
  enter("run");
  co_await measure(nodes);
  enter("collect");
  co_await collect(nodes);
}

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
    if (nodes.is_vm()) record.domain_name = live.name;
    record.domain_uuid = live.uuid;
    record.hostname = live.facts.value("hostname", "");
    if (nodes.is_vm()) record.guest_boot_id = live.facts.value("boot_id", "");
    record.cores = format_cpu_list(live.cores);
    record.memory_bytes = static_cast<std::int64_t>(live.memory_bytes);
    if (live.numa_node) record.numa_node = *live.numa_node;
    record.cpuset_read_back = live.facts.value("cpus", "");
    record.memory_limit_read_back_bytes = optional_field<std::int64_t>(live.facts, "memory_limit_bytes");
    record.kernel = live.facts.value("kernel", "");
    record.console_log = live.console_log;
    record.domain_xml = live.domain_xml;
    record.agent_ready_seconds = live.agent_ready_seconds;
    record.clock_offset_ns = live.agent->clock().offset_ns;
    record.clock_uncertainty_ns = live.agent->clock().uncertainty_ns;
    for (const auto& [name, value] : live.facts.items())
      record.fingerprint[name] = value.is_string() ? value.get<std::string>() : value.dump();
    row.id = context_.store.save_node(tenant_rows_[live.tenant].id, record);
    node_rows_.push_back(std::move(row));
  }
}

void TrialRun::on_record(std::size_t tenant, std::int64_t rank, const RankRecord& record) {
  if (record.kind != RankRecord::Kind::hello) return;
  auto& row = tenant_rows_[tenant].ranks[static_cast<std::size_t>(rank)];
  const auto& placed = placement_.tenants[tenant];
  const auto& hello = record.fields;
  row.record.node = placed.nodes[static_cast<std::size_t>(rank / placed.ranks_per_node)].hostname;
  // In the shared arm one slice, named after the first node, holds all ranks.
  if (planned_.arm == kArmBareMetalShared) row.record.node = placed.nodes[0].hostname;
  row.record.rank = rank;
  row.record.local_rank = hello.value("local_rank", std::int64_t{0});
  row.record.size = hello.value("size", std::int64_t{0});
  row.record.hostname = printable(hello.value("hostname", ""));
  row.record.pid = optional_field<std::int64_t>(hello, "pid");
  row.record.isa = printable(hello.value("isa", ""));
  row.record.threads = optional_field<std::int64_t>(hello, "threads");
  row.record.cpuset_read_back = printable(hello.value("cpuset", ""));
  row.record.memory_limit_read_back_bytes = optional_field<std::int64_t>(hello, "memory_limit_bytes");
  row.id = context_.store.save_rank(tenant_rows_[tenant].id, row.record);
}

void TrialRun::flush() {
  context_.store.transaction("store samples and telemetry", [&] {
    for (std::size_t t = 0; t < jobs_.size(); ++t) {
      for (std::size_t r = 0; r < jobs_[t]->ranks().size(); ++r) {
        const auto& windows = jobs_[t]->ranks()[r].samples;
        auto& row = tenant_rows_[t].ranks[r];
        if (row.id == 0 || row.stored_samples == windows.size()) continue;
        std::vector<results::Sample> fresh;
        for (std::size_t i = row.stored_samples; i < windows.size(); ++i)
          fresh.push_back(
              {windows[i].t_ns, windows[i].step, windows[i].images, windows[i].seconds, windows[i].loss});
        context_.store.add_samples(row.id, fresh);
        row.stored_samples = windows.size();
      }
    }
    for (auto& row : node_rows_) {
      if (!row.telemetry.empty()) context_.store.add_telemetry(row.id, row.telemetry);
      row.telemetry.clear();
    }
  });
}

// --- stages

void TrialRun::make_jobs(NodeSet& nodes) {
  for (std::size_t t = 0; t < placement_.tenants.size(); ++t) {
    const auto& placed = placement_.tenants[t];
    std::vector<JobNode> job_nodes;
    for (const auto& live : nodes.nodes())
      if (live.tenant == t) job_nodes.push_back({live.placement->hostname, live.agent});
    const auto network = placed.ranks() == 1     ? RankNetwork::single_process
                         : job_nodes.size() == 1 ? RankNetwork::shared_memory
                                                 : RankNetwork::tcp;
    auto job = std::make_shared<TenantJob>(context_.io, placed, std::move(job_nodes), network,
                                           placement_.oversubscribed);
    job->on_record = [this, t](std::int64_t rank, const RankRecord& record) { on_record(t, rank, record); };
    jobs_.push_back(std::move(job));
  }
}

void TrialRun::watch_agents(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    auto& live = nodes.nodes()[n];
    watched_.push_back(live.agent);
    live.agent->on_lost = [this, &live](const std::string& reason) {
      if (console_tail_.empty()) console_tail_ = NodeSet::console_tail(live);
      for (auto& job : jobs_)
        job->fail(fmt::format("node {} ({}) is lost: {}", live.placement->hostname, live.name, reason));
    };
    live.agent->on_telemetry = [this, n](const nlohmann::json& values, std::int64_t t_ns) {
      for (const auto& [metric, value] : values.items())
        if (value.is_number())
          node_rows_[n].telemetry.push_back({t_ns, "guest", metric, value.get<double>()});
    };
  }
}

asio::awaitable<void> TrialRun::place(NodeSet& nodes) {
  const auto timeout = std::chrono::duration_cast<seconds>(time_left()) + seconds(1);
  const std::string trainer =
      nodes.is_vm() ? Programs::guest_trainer_cpu : context_.programs.trainer_cpu.string();
  for (auto& job : jobs_) co_await job->launch(trainer, timeout);
  for (auto& job : jobs_) co_await job->wait_for_hello(std::min(kPlaceDeadline, time_left()));
}

asio::awaitable<void> TrialRun::barrier(NodeSet& nodes) {
  for (auto& job : jobs_) co_await job->wait_for_ready(time_left());
  if (context_.scenario.settle_ns > 0) {
    asio::steady_timer settle(context_.io, std::chrono::nanoseconds(context_.scenario.settle_ns));
    co_await settle.async_wait(asio::use_awaitable);
  }
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    auto& agent = *nodes.nodes()[n].agent;
    co_await agent.synchronize_clock(8);
    node_rows_[n].record.clock_offset_ns = agent.clock().offset_ns;
    node_rows_[n].record.clock_uncertainty_ns = agent.clock().uncertainty_ns;
    // A VM's cores are all its own; a slice sees the whole host in /proc/stat.
    const std::string cores = nodes.is_vm() ? "" : format_cpu_list(nodes.nodes()[n].cores);
    co_await agent.start_telemetry(kTelemetryPeriod, cores);
  }
  co_await read_counters(nodes, &NodeRow::before);
}

asio::awaitable<void> TrialRun::measure(NodeSet& nodes) {
  context_.store.set_trial_started(trial_row_, iso8601(wall_ns()));
  std::exception_ptr failure;
  const auto train = [&]() -> asio::awaitable<void> {
    try {
      // One after the other without waiting in between: the spread is measured from the ranks' own first
      // steps.
      for (auto& job : jobs_) co_await job->go();
      for (auto& job : jobs_) co_await job->wait_for_results(time_left());
    } catch (...) {
      failure = std::current_exception();
    }
  };
  co_await (train() || poll(nodes));
  if (failure) std::rethrow_exception(failure);
}

asio::awaitable<void> TrialRun::poll(NodeSet& nodes) {
  asio::steady_timer timer(context_.io);
  while (true) {
    timer.expires_after(kTelemetryPeriod);
    co_await timer.async_wait(asio::use_awaitable);
    if (const auto failure = try_flush()) {
      for (auto& job : jobs_) job->fail(*failure);
      timer.expires_at(
          asio::steady_timer::time_point::max());  // the failed jobs end the trial, this must not
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (nodes.is_vm()) co_await look_at_nodes(nodes);
  }
}

std::optional<std::string> TrialRun::try_flush() {
  try {
    flush();
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

asio::awaitable<void> TrialRun::look_at_nodes(NodeSet& nodes) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (!node_rows_[n].visible_from_host) continue;
    try {
      add_host_telemetry(node_rows_[n], co_await nodes.counters(nodes.nodes()[n]));
    } catch (const Error& error) {
      // Only telemetry is lost; whether the node lives is its agent's to say, and must not wait for libvirt
      // again.
      node_rows_[n].visible_from_host = false;
      context_.event(trial_row_, "run", "the host no longer sees into the node",
                     {{"node", nodes.nodes()[n].name}, {"reason", error.what()}});
    }
  }
}

void TrialRun::add_host_telemetry(NodeRow& row, const NodeCounters& counters) {
  if (!counters.domain) return;
  const auto& stats = *counters.domain;
  const auto add = [&](const char* metric, double value) {
    row.telemetry.push_back({stats.monotonic_ns, "host", metric, value});
  };
  double vcpu_ns = 0, wait_ns = 0;
  for (const auto& vcpu : stats.vcpus) {
    vcpu_ns += static_cast<double>(vcpu.time_ns);
    wait_ns += static_cast<double>(vcpu.wait_ns.value_or(0));
  }
  add("cpu_seconds", static_cast<double>(stats.cpu_time_ns) * 1e-9);
  add("vcpu_seconds", vcpu_ns * 1e-9);
  add("vcpu_wait_seconds", wait_ns * 1e-9);
  add("helper_cpu_seconds", static_cast<double>(stats.helper_cpu_ns) * 1e-9);
  add("rss_bytes", static_cast<double>(stats.rss_bytes));
  add("network_rx_bytes", static_cast<double>(counters.network_rx_bytes));
  add("network_tx_bytes", static_cast<double>(counters.network_tx_bytes));
}

asio::awaitable<void> TrialRun::read_counters(NodeSet& nodes, NodeCounters NodeRow::*into) {
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n)
    node_rows_[n].*into = co_await nodes.counters(nodes.nodes()[n]);
}

asio::awaitable<void> TrialRun::collect(NodeSet& nodes) {
  co_await read_counters(nodes, &NodeRow::after);
  for (auto& job : jobs_) {
    const auto killed = co_await job->sweep();
    if (killed > 0)
      context_.event(trial_row_, "collect", "processes were left after the job and have been killed",
                     {{"count", killed}});
  }
  flush();
  store_results(nodes);
}

// --- results

std::int64_t TrialRun::network_bytes_required(const TenantPlacement& tenant) const {
  if (planned_.arm == kArmBareMetalShared) return 0;
  return all_reduce_bytes_per_node(static_cast<std::int64_t>(tenant.nodes.size()),
                                   tenant.workload.warmup_steps + tenant.workload.steps);
}

std::int64_t TrialRun::network_bytes_measured(NodeSet& nodes, std::size_t tenant) const {
  std::uint64_t sent = 0;
  std::int64_t count = 0;
  for (std::size_t n = 0; n < nodes.nodes().size(); ++n) {
    if (nodes.nodes()[n].tenant != tenant) continue;
    sent += node_rows_[n].after.network_tx_bytes - node_rows_[n].before.network_tx_bytes;
    ++count;
  }
  return count == 0 ? 0 : static_cast<std::int64_t>(sent) / count;
}

std::optional<std::int64_t> TrialRun::start_spread_ns() const {
  std::optional<std::int64_t> first, last;
  for (const auto& job : jobs_) {
    for (const auto& rank : job->ranks()) {
      if (!rank.first_start_ns) continue;
      first = std::min(first.value_or(*rank.first_start_ns), *rank.first_start_ns);
      last = std::max(last.value_or(*rank.first_start_ns), *rank.first_start_ns);
    }
  }
  return first ? std::optional(*last - *first) : std::nullopt;
}

void TrialRun::store_results(NodeSet& nodes) {
  std::vector<TenantEvidence> evidence;
  for (std::size_t t = 0; t < jobs_.size(); ++t) {
    const auto& placed = placement_.tenants[t];
    auto& tenant = tenant_rows_[t];
    double tenant_rate = 0;
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
      tenant_rate += *record.images_per_second;
    }
    images_per_second_ += tenant_rate;
    tenant.record.images_per_second = tenant_rate;
    tenant.record.loss_first = tenant.ranks[0].record.loss_first;
    tenant.record.loss_last = tenant.ranks[0].record.loss_last;
    tenant.record.network_bytes_required = network_bytes_required(placed);
    tenant.record.network_bytes_measured = network_bytes_measured(nodes, t);
    std::vector<std::string> names;
    for (const auto& [pair, transport] : jobs_[t]->transports()) {
      context_.store.save_transport(tenant.id, {pair.first, pair.second, transport});
      if (std::find(names.begin(), names.end(), transport) == names.end()) names.push_back(transport);
    }
    tenant.record.transport = join(names, ", ");
    context_.store.save_tenant(trial_row_, tenant.record);

    TenantEvidence seen{placed.name,
                        {},
                        placed.ranks_per_node,
                        nodes.is_shared(),
                        *tenant.record.network_bytes_required,
                        *tenant.record.network_bytes_measured,
                        jobs_[t]->ranks()};
    for (const auto& live : nodes.nodes())
      if (live.tenant == t)
        seen.nodes.push_back({live.placement->hostname, live.facts.value("boot_id", ""), nodes.is_vm()});
    evidence.push_back(std::move(seen));
  }
  for (std::size_t n = 0; n < node_rows_.size(); ++n) {
    auto& row = node_rows_[n];
    // The process's time and its threads' come from two readings, so a short interval may come out negative.
    if (row.before.domain && row.after.domain)
      row.record.helper_cpu_seconds =
          std::max(0.0, static_cast<double>(row.after.domain->helper_cpu_ns) -
                            static_cast<double>(row.before.domain->helper_cpu_ns)) *
          1e-9;
    context_.store.save_node(tenant_rows_[nodes.nodes()[n].tenant].id, row.record);
  }
  const auto reasons = invalid_reasons(evidence, context_.owner.boot_id);
  context_.store.finish_trial(trial_row_,
                              {images_per_second_, start_spread_ns(), reasons.empty(), join(reasons, "; ")},
                              iso8601(wall_ns()));
}

}  // namespace virtrain::harness
