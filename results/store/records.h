#pragma once

#include <boost/describe/class.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "common/enum_text.h"
#include "common/model/trial_key.h"

namespace virtrain {

/// State of an experiment and of a trial.
VIRTRAIN_ENUM_CLASS(Status, running, finished, failed, interrupted)

}  // namespace virtrain

namespace virtrain::results {

/// The unit of a throughput that says none.
inline constexpr const char* images_unit = "images/s";

/// The figure where it is in images/s, for the contracts that have a field of its own for it; else none.
inline std::optional<double> in_images(const std::optional<double>& throughput, const std::string& unit) {
  return unit == images_unit ? throughput : std::nullopt;
}

/// Work a second, and what is counted.
struct Throughput {
  bool operator==(const Throughput&) const = default;
  double value = 0;
  std::string unit = images_unit;
};
inline std::optional<double> value_of(const std::optional<Throughput>& throughput) {
  return throughput ? std::optional(throughput->value) : std::nullopt;
}
inline std::string unit_of(const std::optional<Throughput>& throughput) {
  return throughput ? throughput->unit : images_unit;
}
inline std::optional<double> in_images(const std::optional<Throughput>& throughput) {
  return in_images(value_of(throughput), unit_of(throughput));
}

/// "tokens" of "tokens/s": what such a throughput counts. Each unit ends so.
inline std::string work_of(const std::string& unit) {
  return unit.substr(0, unit.rfind("/s"));
}

/// Facts of a host or guest by name: "kernel", "cpu_model", "driver", …
using Fingerprint = std::map<std::string, std::string>;

// The columns of each record in the database, in exchange files and in tables are its described members, in
// that order. In all records an empty text and an empty optional mean "not known" and are stored as NULL.

/// One `virtrain run`, or one imported series.
struct Experiment {
  std::string id = {};
  std::string scenario = {};
  std::string scenario_text = {};
  std::string label = {};
  std::string started_at = {};  ///< ISO 8601, wall clock
  std::string ended_at = {};
  Status status = Status::running;
  std::string host_name = {};
  std::string boot_id = {};
  std::string virtrain_version = {};
  std::string command_line = {};
  nlohmann::json plan = nullptr;             ///< what `plan --format json` printed
  nlohmann::json daemon_versions = nullptr;  ///< {"libvirtd": "9.0.0", "qemu": "7.2.0"}
  Fingerprint fingerprint = {};              ///< of the host
};
BOOST_DESCRIBE_STRUCT(Experiment, (),
                      (id, scenario, scenario_text, label, started_at, ended_at, status, host_name, boot_id,
                       virtrain_version, command_line, plan, daemon_versions))

/// One execution of one case in one arm.
struct Trial {
  std::int64_t id = 0;          ///< of the row; the store sets it
  std::string experiment = {};  ///< Experiment::id
  std::optional<std::int64_t> order = {};
  std::string case_name = {};
  std::string arm = {};
  std::optional<std::int64_t> pair = {};
  std::int64_t nodes = 1;
  std::int64_t gpus_per_node = 0;
  std::optional<std::int64_t> ranks_per_node = {};
  std::optional<std::int64_t> batch_size = {};  ///< per rank
  std::string precision = {};
  std::string backend = {};
  std::string virtualization = {};  ///< none, kvm, kvm_nested, kvm_on_emulated, tcg
  bool oversubscribed = false;
  Status status = Status::running;
  std::optional<Throughput> throughput = {};  ///< of the trial: the sum over its ranks
  std::string started_at = {};
  std::string ended_at = {};
  std::optional<std::int64_t> start_spread_ns = {};  ///< last start minus first start over all ranks
  bool valid = true;
  std::string invalid_reason = {};
  std::string failed_stage = {};  ///< image, define, boot, agent, place, barrier, run, collect, tear_down
  std::string failure_reason = {};
  std::string console_tail = {};
  nlohmann::json environment = nullptr;  ///< free facts of imported trials
  CaseKey case_key = {};
  ArmKey arm_key = {};
};
BOOST_DESCRIBE_STRUCT(Trial, (),
                      (order, case_name, arm, pair, nodes, gpus_per_node, ranks_per_node, batch_size,
                       precision, backend, virtualization, oversubscribed, status, throughput, started_at,
                       ended_at, start_spread_ns, valid, invalid_reason, failed_stage, failure_reason,
                       console_tail, environment, case_key, arm_key))

/// Whether its throughput may be compared.
inline bool is_usable(const Trial& trial) {
  return trial.status == Status::finished && trial.valid && trial.throughput.has_value();
}

/// Values that finish_trial() stores.
struct TrialOutcome {
  std::optional<Throughput> throughput = {};  ///< nothing where no figure could be believed
  std::optional<std::int64_t> start_spread_ns = {};
  bool valid = true;
  std::string invalid_reason = {};  ///< why it must not be compared, if it is not valid
};

/// Values that fail_trial() stores.
struct TrialFailure {
  std::string stage = {};
  std::string reason = {};
  std::string console_tail = {};
};

/// An isolated owner of nodes inside a trial.
struct Tenant {
  std::int64_t id = 0;
  std::int64_t tenant_index = 0;  ///< 0, 1, … inside the trial
  std::string name = {};
  nlohmann::json workload = nullptr;
  std::int64_t nodes = 1;
  std::optional<Throughput> throughput = {};  ///< sum over the tenant's ranks
  std::optional<std::int64_t> network_bytes_required = {};
  std::optional<std::int64_t> network_bytes_measured = {};
  std::optional<double> loss_first = {};
  std::optional<double> loss_last = {};
  std::string transport = {};  ///< the one between its ranks, or a list if they differ
};
BOOST_DESCRIBE_STRUCT(Tenant, (),
                      (tenant_index, name, workload, nodes, throughput, network_bytes_required,
                       network_bytes_measured, loss_first, loss_last, transport))

/// One VM or one bare-metal slice.
struct Node {
  std::int64_t id = 0;
  std::string name = {};  ///< unique inside its trial
  std::string kind = {};  ///< vm or slice
  std::string host = {};  ///< whose node it is, where the experiment has several hosts
  std::string domain_name = {};
  std::string domain_uuid = {};
  std::string guest_boot_id = {};
  std::string hostname = {};  ///< as the node itself says
  std::string cores = {};     ///< host cores, "0-3,8"
  std::optional<std::int64_t> memory_bytes = {};
  std::optional<std::int64_t> numa_node = {};
  std::string cpuset_read_back = {};  ///< Cpus_allowed_list of a rank, from /proc
  std::optional<std::int64_t> memory_limit_read_back_bytes = {};
  std::optional<std::int64_t> clock_offset_ns = {};  ///< node clock minus host clock
  std::optional<std::int64_t> clock_uncertainty_ns = {};
  std::string kernel = {};
  std::string console_log = {};  ///< path
  std::optional<double> helper_cpu_seconds = {};
  std::optional<double> agent_ready_seconds = {};  ///< from start to the agent's hello
  std::string domain_xml = {};                     ///< what libvirt was given, VMs only
  Fingerprint fingerprint = {};
};
BOOST_DESCRIBE_STRUCT(Node, (),
                      (name, kind, host, domain_name, domain_uuid, guest_boot_id, hostname, cores,
                       memory_bytes, numa_node, cpuset_read_back, memory_limit_read_back_bytes,
                       clock_offset_ns, clock_uncertainty_ns, kernel, console_log, helper_cpu_seconds,
                       agent_ready_seconds, domain_xml))

/// One trainer process.
struct Rank {
  std::int64_t id = 0;
  std::string node = {};  ///< Node::name
  std::int64_t rank = 0;
  std::int64_t local_rank = 0;
  std::int64_t size = 1;
  std::string hostname = {};
  std::optional<std::int64_t> pid = {};
  std::string isa = {};  ///< instruction set the library chose
  std::optional<std::int64_t> threads = {};
  std::optional<Throughput> throughput = {};
  std::string parameters_hash_before = {};
  std::string parameters_hash_after = {};
  std::optional<double> loss_first = {};
  std::optional<double> loss_last = {};
  std::optional<std::int64_t> peak_rss_bytes = {};
  std::string cpuset_read_back = {};
  std::optional<std::int64_t> memory_limit_read_back_bytes = {};
  std::optional<double> step_p50_seconds = {};
  std::optional<double> step_p95_seconds = {};
  std::optional<double> step_p99_seconds = {};
  std::optional<double> exposed_allreduce_seconds = {};
};
BOOST_DESCRIBE_STRUCT(Rank, (),
                      (node, rank, local_rank, size, hostname, pid, isa, threads, throughput,
                       parameters_hash_before, parameters_hash_after, loss_first, loss_last, peak_rss_bytes,
                       cpuset_read_back, memory_limit_read_back_bytes, step_p50_seconds, step_p95_seconds,
                       step_p99_seconds, exposed_allreduce_seconds))

/// The counted steps of one rank in one trial of an experiment over several hosts.
struct RankWork {
  std::string case_name, arm, host;
  std::int64_t trial = 0;
  std::int64_t images = 0;
  double seconds = 0;
  double waited_seconds = 0;  ///< of them, in all-reduces in which nothing was computed
};
BOOST_DESCRIBE_STRUCT(RankWork, (), (case_name, arm, host, trial, images, seconds, waited_seconds))

/// The transport really used between two nodes of a tenant.
struct Transport {
  std::string from_node = {};
  std::string to_node = {};
  std::string transport = {};  ///< tcp, shm, ib, …
};
BOOST_DESCRIBE_STRUCT(Transport, (), (from_node, to_node, transport))

/// One measured window of steps of one rank.
struct Sample {
  std::int64_t t_ns = 0;  ///< end of the window on the host's clock
  std::int64_t step = 0;
  std::int64_t images = 0;  ///< or what else the trial's throughput counts
  double seconds = 0;
  std::optional<double> loss = {};
};
BOOST_DESCRIBE_STRUCT(Sample, (), (t_ns, step, images, seconds, loss))

/// One reading of one metric of a node.
struct Telemetry {
  std::int64_t t_ns = 0;    ///< on the host's clock
  std::string source = {};  ///< guest or host
  std::string metric = {};
  double value = 0;
};
BOOST_DESCRIBE_STRUCT(Telemetry, (), (t_ns, source, metric, value))

/// A value that a tenant's own command said, of the whole tenant where neither node nor rank is given. Two
/// are the same figure only if name, unit and settings are.
struct Figure {
  std::string node = {};  ///< Node::name of who said it
  std::optional<std::int64_t> rank = {};
  std::string name = {};
  std::string unit = {};
  double value = 0;
  nlohmann::json settings = nullptr;      ///< {"size_bytes": 1024}
  std::optional<std::int64_t> t_ns = {};  ///< of one reading, on the host's clock; absent: over the trial
};
BOOST_DESCRIBE_STRUCT(Figure, (), (node, rank, name, unit, value, settings, t_ns))

/// The value of a figure in one usable trial.
struct TrialFigure {
  std::string case_name, arm;
  std::int64_t trial = 0, tenant_index = 0;
  std::string tenant = {};  ///< its name
  std::string node = {};
  std::optional<std::int64_t> rank = {};
  std::string name = {}, unit = {};
  double value = 0;
  nlohmann::json settings = nullptr;
};
BOOST_DESCRIBE_STRUCT(TrialFigure, (),
                      (case_name, arm, trial, tenant_index, tenant, node, rank, name, unit, value, settings))

/// One figure of a micro-benchmark: one size of an all-reduce sweep, a copy rate, a matrix multiplication
/// rate.
struct Probe {
  std::string name = {};  ///< all_reduce, all_gather, broadcast, gemm, device_copy, host_to_device, triad, …
  std::string arm = {};   ///< where it ran
  std::string node = {};       ///< node or host name, where it concerns one
  std::string transport = {};  ///< tcp, shm, ib, nvlink, pcie, …
  std::string data_type = {};  ///< float, half, bfloat16, …
  std::optional<std::int64_t> nodes = {};
  std::optional<std::int64_t> ranks = {};
  std::optional<std::int64_t> size_bytes = {};
  std::optional<double> seconds = {};  ///< of one operation
  double value = 0;                    ///< the figure itself; of a collective, its algorithm bandwidth
  std::string unit = {};               ///< B/s, FLOP/s, s
  /// Bus bandwidth of a collective as nccl-tests has it, algorithm bandwidth · 2(n−1)/n for an all-reduce.
  std::optional<double> bus_bytes_per_second = {};
  std::optional<std::int64_t> wrong = {};  ///< elements that were not what they should be
  std::string measured_at = {};            ///< ISO 8601, wall clock
  nlohmann::json detail = nullptr;         ///< what else the source says
  /// Which run of its experiment measured it, a tool's run or the trial's order; absent: nobody knows.
  std::optional<std::int64_t> run = {};
};
BOOST_DESCRIBE_STRUCT(Probe, (),
                      (name, arm, node, transport, data_type, nodes, ranks, size_bytes, seconds, value, unit,
                       bus_bytes_per_second, wrong, measured_at, detail, run))

/// Finding of a tenant about another one, or about the host, in one arm.
struct LeakSearch {
  std::string arm = {};
  std::string name = {};             ///< network_tcp, shared_memory, host_files, …
  std::string tenants = {};          ///< who looked at what: "tenant-b at tenant-a"
  std::string result = {};           ///< a LeakResult
  std::optional<bool> control = {};  ///< whether the planted canary was found; nothing: none was planted
  std::optional<double> scanned = {}, total = {};
  std::string unit = {};    ///< of these two: B, targets or files
  std::string found = {};   ///< the leak, for people
  std::string reason = {};  ///< why there is no answer, or what limits it
  std::string virtualization = {};
  std::string measured_at = {};  ///< ISO 8601, wall clock
};
BOOST_DESCRIBE_STRUCT(LeakSearch, (),
                      (arm, name, tenants, result, control, scanned, total, unit, found, reason,
                       virtualization, measured_at))

/// Something that happened: a stage entered, a VM started, a fault.
struct Event {
  std::optional<std::int64_t> trial = {};  ///< Trial::id; none for events of the whole experiment
  std::int64_t t_ns = 0;
  std::string wall_time = {};
  std::string stage = {};
  std::string message = {};
  nlohmann::json detail = nullptr;
};
BOOST_DESCRIBE_STRUCT(Event, (), (t_ns, wall_time, stage, message, detail))

}  // namespace virtrain::results
