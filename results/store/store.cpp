#include "results/store/store.h"

#include <fmt/format.h>

#include "common/system/time.h"
#include "common/text/printable.h"
#include "results/store/connection.h"
#include "results/store/probe_settings.h"
#include "sql_embedded.h"

namespace virtrain::results {
namespace {

/// A trial leaves `running` once; anything else is a mistake of the caller and must not be lost silently.
void require_one_row(Query& update, std::int64_t trial, const char* operation) {
  if (update.next()) { return; }
  throw Error(operation, ErrorCode::not_found,
              fmt::format("trial {} is not running or does not exist", trial));
}

}  // namespace

Store::Store(std::filesystem::path file, Mode mode, std::chrono::milliseconds busy_timeout,
             std::chrono::milliseconds longest_step)
    : connection_(std::make_unique<Connection>(std::move(file), mode, busy_timeout, longest_step)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const std::filesystem::path& Store::file() const {
  return connection_->file;
}

void Store::transaction(const std::string& operation, const std::function<void()>& work) {
  connection_->in_transaction(operation, work);
}

void Store::add_experiment(const Experiment& experiment) {
  connection_->in_transaction("store experiment " + experiment.id, [&] {
    connection_->query(insert_sql<Experiment>("experiment", "number"))
        .bind(std::optional<std::int64_t>())
        .bind_columns(experiment)
        .run();
    const std::int64_t number = connection_->last_insert_id();
    connection_->save_fingerprint(number, std::nullopt, experiment.fingerprint);
  });
}

void Store::add_imported_experiment(const Experiment& experiment) {
  connection_->in_transaction("store experiment " + experiment.id, [&] {
    add_experiment(experiment);
    connection_->query("UPDATE experiment SET imported = 1 WHERE number = ?")
        .bind(connection_->experiment_number(experiment.id))
        .run();
  });
}

void Store::add_host_facts(const std::string& experiment, const Fingerprint& facts) {
  connection_->in_transaction("store properties of experiment " + experiment, [&] {
    connection_->save_fingerprint(connection_->experiment_number(experiment), std::nullopt, facts);
  });
}

void Store::end_experiment(const std::string& experiment, Status status, const std::string& ended_at) {
  connection_->in_transaction("end experiment " + experiment, [&] {
    const std::int64_t number = connection_->experiment_number(experiment);
    connection_->query("UPDATE experiment SET status = ?, ended_at = ? WHERE number = ?")
        .bind(status)
        .bind(ended_at)
        .bind(number)
        .run();
  });
}

std::int64_t Store::begin_trial(const Trial& trial) {
  Trial running = trial;
  running.status = Status::running;
  if (running.started_at.empty()) { running.started_at = iso8601(wall_ns()); }
  return import_trial(running);
}

std::int64_t Store::import_trial(const Trial& trial) {
  return connection_->in_transaction("store a trial of " + trial.experiment, [&] {
    static const std::string sql = insert_sql<Trial>("trial", "experiment_number");
    connection_->query(sql).bind(connection_->experiment_number(trial.experiment)).bind_columns(trial).run();
    return connection_->last_insert_id();
  });
}

void Store::read_old_names(std::int64_t trial) {
  connection_->in_transaction("read the names of a trial", [&] {
    connection_->query(std::string(sql::names_of_version_9_sql)).bind(trial).run();
  });
}

void Store::set_trial_started(std::int64_t trial, const std::string& started_at) {
  connection_->in_transaction("start trial", [&] {
    auto update = connection_->query(
        "UPDATE trial SET started_at = ? WHERE id = ? AND status = 'running' RETURNING id");
    require_one_row(update.bind(started_at).bind(trial), trial, "start trial");
  });
}

void Store::set_trial_virtualization(std::int64_t trial, const std::string& virtualization) {
  connection_->in_transaction("describe trial", [&] {
    auto update = connection_->query(
        "UPDATE trial SET virtualization = ? WHERE id = ? AND status = 'running' RETURNING id");
    require_one_row(update.bind(virtualization).bind(trial), trial, "describe trial");
  });
}

void Store::finish_trial(std::int64_t trial, const TrialOutcome& outcome, const std::string& ended_at) {
  connection_->in_transaction("finish trial", [&] {
    auto update = connection_->query(
        "UPDATE trial SET status = 'finished', throughput = ?, unit = ?, start_spread_ns = ?, valid = ?, "
        "invalid_reason = ?, ended_at = ? WHERE id = ? AND status = 'running' RETURNING id");
    update.bind(outcome.throughput ? std::optional(outcome.throughput->value) : std::nullopt)
        .bind(outcome.throughput ? std::optional(outcome.throughput->unit) : std::nullopt)
        .bind(outcome.start_spread_ns)
        .bind(outcome.valid);
    update.bind(printable(outcome.invalid_reason)).bind(ended_at).bind(trial);
    require_one_row(update, trial, "finish trial");
  });
}

void Store::fail_trial(std::int64_t trial, const TrialFailure& failure, const std::string& ended_at) {
  connection_->in_transaction("fail trial", [&] {
    auto update = connection_->query(
        "UPDATE trial SET status = 'failed', failed_stage = ?, failure_reason = ?, console_tail = ?, "
        "ended_at = ? WHERE id = ? AND status = 'running' RETURNING id");
    // A guest may print any bytes on its console, and a trainer into its error.
    update.bind(failure.stage).bind(printable(failure.reason)).bind(printable(failure.console_tail));
    update.bind(ended_at).bind(trial);
    require_one_row(update, trial, "fail trial");
  });
}

void Store::interrupt_trial(std::int64_t trial, const std::string& ended_at) {
  connection_->in_transaction("interrupt trial", [&] {
    auto update = connection_->query(
        "UPDATE trial SET status = 'interrupted', ended_at = ? WHERE id = ? AND status = 'running' "
        "RETURNING id");
    require_one_row(update.bind(ended_at).bind(trial), trial, "interrupt trial");
  });
}

std::int64_t Store::save_tenant(std::int64_t trial, const Tenant& tenant) {
  return connection_->in_transaction("store a tenant", [&] {
    static const std::string sql = upsert_sql<Tenant>("tenant", "trial_id", "trial_id, tenant_index");
    auto saved = connection_->query(sql);
    saved.bind(trial).bind_columns(tenant).next();
    return saved.read<std::int64_t>();
  });
}

std::int64_t Store::save_node(std::int64_t tenant, const Node& node) {
  return connection_->in_transaction("store a node", [&] {
    static const std::string sql = upsert_sql<Node>("node", "tenant_id", "tenant_id, name");
    auto saved = connection_->query(sql);
    saved.bind(tenant).bind_columns(node).next();
    const auto id = saved.read<std::int64_t>();
    connection_->query("DELETE FROM fingerprint WHERE node_id = ?").bind(id).run();
    connection_->save_fingerprint(std::nullopt, id, node.fingerprint);
    return id;
  });
}

std::int64_t Store::save_rank(std::int64_t tenant, const Rank& rank) {
  return connection_->in_transaction("store a rank", [&] {
    static const std::string sql = upsert_sql<Rank>("rank", "tenant_id", "tenant_id, rank");
    auto saved = connection_->query(sql);
    saved.bind(tenant).bind_columns(rank).next();
    return saved.read<std::int64_t>();
  });
}

void Store::save_transport(std::int64_t tenant, const Transport& transport) {
  connection_->in_transaction("store a transport", [&] {
    connection_
        ->query(
            "INSERT OR REPLACE INTO transport (tenant_id, from_node, to_node, transport) VALUES (?, ?, ?, ?)")
        .bind(tenant)
        .bind_columns(transport)
        .run();
  });
}

void Store::add_samples(std::int64_t rank, std::span<const Sample> samples) {
  connection_->in_transaction("store samples", [&] {
    static const std::string sql = insert_sql<Sample>("sample", "rank_id");
    for (const auto& sample : samples) { connection_->query(sql).bind(rank).bind_columns(sample).run(); }
  });
}

void Store::add_telemetry(std::int64_t node, std::span<const Telemetry> readings) {
  connection_->in_transaction("store telemetry", [&] {
    static const std::string sql = insert_sql<Telemetry>("telemetry", "node_id");
    for (const auto& reading : readings) { connection_->query(sql).bind(node).bind_columns(reading).run(); }
  });
}

void Store::add_figures(std::int64_t tenant, std::span<const Figure> figures) {
  connection_->in_transaction("store figures", [&] {
    static const std::string sql = insert_sql<Figure>("figure", "tenant_id");
    for (const auto& figure : figures) { connection_->query(sql).bind(tenant).bind_columns(figure).run(); }
  });
}

void Store::add_event(const std::string& experiment, const Event& event) {
  connection_->in_transaction("store an event of " + experiment, [&] {
    Event shown = event;
    shown.message = printable(event.message);
    static const std::string sql = insert_sql<Event>("event", "experiment_number, trial_id");
    connection_->query(sql)
        .bind(connection_->experiment_number(experiment))
        .bind(event.trial)
        .bind_columns(shown)
        .run();
  });
}

void Store::add_probes(const std::string& experiment, std::span<const Probe> probes) {
  connection_->in_transaction("store probes of " + experiment, [&] {
    static const std::string sql = insert_sql<Probe>("probe", "experiment_number, settings");
    const std::int64_t number = connection_->experiment_number(experiment);
    for (const auto& probe : probes) {
      connection_->query(sql).bind(number).bind(stored_settings(probe)).bind_columns(probe).run();
    }
  });
}

void Store::add_leak_searches(const std::string& experiment, std::span<const LeakSearch> probes) {
  connection_->in_transaction("store leak searches of " + experiment, [&] {
    static const std::string sql = insert_sql<LeakSearch>("security_probe", "experiment_number");
    const std::int64_t number = connection_->experiment_number(experiment);
    for (const auto& probe : probes) { connection_->query(sql).bind(number).bind_columns(probe).run(); }
  });
}

bool Store::mark_interrupted(const std::string& experiment) {
  return connection_->in_transaction("mark experiment " + experiment + " interrupted", [&] {
    auto found = connection_->query("SELECT number, status FROM experiment WHERE id = ?");
    if (!found.bind(experiment).next()) { return false; }
    const auto number = found.read<std::int64_t>();
    const bool was_running = found.read<Status>() == Status::running;
    const std::string now = iso8601(wall_ns());
    connection_
        ->query(
            "UPDATE trial SET status = 'interrupted', ended_at = ? WHERE experiment_number = ? AND status = "
            "'running'")
        .bind(now)
        .bind(number)
        .run();
    connection_
        ->query(
            "UPDATE experiment SET status = 'interrupted', ended_at = ? WHERE number = ? AND status = "
            "'running'")
        .bind(now)
        .bind(number)
        .run();
    return was_running;
  });
}

void Store::set_label(const std::string& experiment, const std::string& label) {
  connection_->in_transaction("label experiment " + experiment, [&] {
    connection_->query("UPDATE experiment SET label = ? WHERE number = ?")
        .bind(label)
        .bind(connection_->experiment_number(experiment))
        .run();
  });
}

std::optional<Store::ImportedFile> Store::remember_import(const std::string& sha256, const std::string& name,
                                                          const std::string& imported_at) {
  return connection_->in_transaction(
      "remember the imported file " + name, [&]() -> std::optional<ImportedFile> {
        auto earlier = connection_->query("SELECT name, imported_at FROM import_file WHERE sha256 = ?");
        if (earlier.bind(sha256).next()) {
          return ImportedFile{earlier.read<std::string>(), earlier.read<std::string>()};
        }
        auto inserted =
            connection_->query("INSERT INTO import_file (sha256, name, imported_at) VALUES (?, ?, ?)");
        inserted.bind(sha256).bind(name).bind(imported_at).run();
        return std::nullopt;
      });
}

bool Store::has_pair(const std::string& experiment, const std::string& case_name, const std::string& arm,
                     std::int64_t pair) const {
  return connection_->guarded("look for a trial", [&] {
    auto found = connection_->query(
        "SELECT 1 FROM trial WHERE experiment_number = (SELECT number FROM experiment WHERE id = ?) "
        "AND \"case\" = ? AND arm = ? AND pair = ?");
    return found.bind(experiment).bind(case_name).bind(arm).bind(pair).next();
  });
}

}  // namespace virtrain::results
