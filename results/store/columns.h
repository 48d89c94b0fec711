#pragma once

#include <concepts>
#include <type_traits>

#include "results/store/records.h"

namespace virtrain::results {

// The columns of each record, named once: the store binds and reads them, the exchange format writes and
// reads them under the same names. visit(name, member) is called in column order.

template <typename T, typename Record>
concept RecordOf = std::same_as<std::remove_const_t<T>, Record>;

void visit_columns(RecordOf<Experiment> auto& record, auto&& visit) {
  visit("id", record.id);
  visit("scenario", record.scenario);
  visit("scenario_text", record.scenario_text);
  visit("label", record.label);
  visit("started_at", record.started_at);
  visit("ended_at", record.ended_at);
  visit("status", record.status);
  visit("host_name", record.host_name);
  visit("boot_id", record.boot_id);
  visit("virtrain_version", record.virtrain_version);
  visit("command_line", record.command_line);
  visit("plan", record.plan);
  visit("daemon_versions", record.daemon_versions);
}

void visit_columns(RecordOf<Trial> auto& record, auto&& visit) {
  visit("trial_order", record.order);
  visit("case", record.case_name);
  visit("arm", record.arm);
  visit("pair", record.pair);
  visit("nodes", record.nodes);
  visit("gpus_per_node", record.gpus_per_node);
  visit("ranks_per_node", record.ranks_per_node);
  visit("batch_size", record.batch_size);
  visit("precision", record.precision);
  visit("backend", record.backend);
  visit("virtualization", record.virtualization);
  visit("oversubscribed", record.oversubscribed);
  visit("status", record.status);
  visit("images_per_second", record.images_per_second);
  visit("started_at", record.started_at);
  visit("ended_at", record.ended_at);
  visit("start_spread_ns", record.start_spread_ns);
  visit("valid", record.valid);
  visit("invalid_reason", record.invalid_reason);
  visit("failed_stage", record.failed_stage);
  visit("failure_reason", record.failure_reason);
  visit("console_tail", record.console_tail);
  visit("environment", record.environment);
}

void visit_columns(RecordOf<Tenant> auto& record, auto&& visit) {
  visit("tenant_index", record.tenant_index);
  visit("name", record.name);
  visit("workload", record.workload);
  visit("nodes", record.nodes);
  visit("images_per_second", record.images_per_second);
  visit("network_bytes_required", record.network_bytes_required);
  visit("network_bytes_measured", record.network_bytes_measured);
  visit("loss_first", record.loss_first);
  visit("loss_last", record.loss_last);
  visit("transport", record.transport);
}

void visit_columns(RecordOf<Node> auto& record, auto&& visit) {
  visit("name", record.name);
  visit("kind", record.kind);
  visit("domain_name", record.domain_name);
  visit("domain_uuid", record.domain_uuid);
  visit("guest_boot_id", record.guest_boot_id);
  visit("hostname", record.hostname);
  visit("cores", record.cores);
  visit("memory_bytes", record.memory_bytes);
  visit("numa_node", record.numa_node);
  visit("cpuset_read_back", record.cpuset_read_back);
  visit("memory_limit_read_back_bytes", record.memory_limit_read_back_bytes);
  visit("clock_offset_ns", record.clock_offset_ns);
  visit("clock_uncertainty_ns", record.clock_uncertainty_ns);
  visit("kernel", record.kernel);
  visit("console_log", record.console_log);
  visit("helper_cpu_seconds", record.helper_cpu_seconds);
  visit("agent_ready_seconds", record.agent_ready_seconds);
  visit("domain_xml", record.domain_xml);
}

void visit_columns(RecordOf<Rank> auto& record, auto&& visit) {
  visit("node", record.node);
  visit("rank", record.rank);
  visit("local_rank", record.local_rank);
  visit("size", record.size);
  visit("hostname", record.hostname);
  visit("pid", record.pid);
  visit("isa", record.isa);
  visit("threads", record.threads);
  visit("images_per_second", record.images_per_second);
  visit("parameters_hash_before", record.parameters_hash_before);
  visit("parameters_hash_after", record.parameters_hash_after);
  visit("loss_first", record.loss_first);
  visit("loss_last", record.loss_last);
  visit("peak_rss_bytes", record.peak_rss_bytes);
  visit("cpuset_read_back", record.cpuset_read_back);
  visit("memory_limit_read_back_bytes", record.memory_limit_read_back_bytes);
  visit("step_p50_seconds", record.step_p50_seconds);
  visit("step_p95_seconds", record.step_p95_seconds);
  visit("step_p99_seconds", record.step_p99_seconds);
  visit("exposed_allreduce_seconds", record.exposed_allreduce_seconds);
}

void visit_columns(RecordOf<Transport> auto& record, auto&& visit) {
  visit("from_node", record.from_node);
  visit("to_node", record.to_node);
  visit("transport", record.transport);
}

void visit_columns(RecordOf<Sample> auto& record, auto&& visit) {
  visit("t_ns", record.t_ns);
  visit("step", record.step);
  visit("images", record.images);
  visit("seconds", record.seconds);
  visit("loss", record.loss);
}

void visit_columns(RecordOf<Telemetry> auto& record, auto&& visit) {
  visit("t_ns", record.t_ns);
  visit("source", record.source);
  visit("metric", record.metric);
  visit("value", record.value);
}

void visit_columns(RecordOf<Probe> auto& record, auto&& visit) {
  visit("name", record.name);
  visit("arm", record.arm);
  visit("node", record.node);
  visit("transport", record.transport);
  visit("data_type", record.data_type);
  visit("nodes", record.nodes);
  visit("ranks", record.ranks);
  visit("size_bytes", record.size_bytes);
  visit("seconds", record.seconds);
  visit("value", record.value);
  visit("unit", record.unit);
  visit("bus_bytes_per_second", record.bus_bytes_per_second);
  visit("wrong", record.wrong);
  visit("measured_at", record.measured_at);
  visit("detail", record.detail);
}

void visit_columns(RecordOf<Event> auto& record, auto&& visit) {
  visit("t_ns", record.t_ns);
  visit("wall_time", record.wall_time);
  visit("stage", record.stage);
  visit("message", record.message);
  visit("detail", record.detail);
}

}  // namespace virtrain::results
