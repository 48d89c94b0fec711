#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/store/comparison_data.h"
#include "results/store/nights.h"
#include "results/store/records.h"

namespace virtrain::results {

/// Present version of the schema (PRAGMA user_version).
inline constexpr int schema_version = 12;

/// Rows of one of the database's views, column by column as JSON: null, number or text.
struct ViewRows {
  std::vector<std::string> columns;
  std::vector<std::vector<nlohmann::json>> rows;

  /// Index of the column; Error(not_found) if the view has none of this name.
  std::size_t column(std::string_view name) const;
};

/// The views that exports read (docs/database.md), v_trial first.
const std::vector<std::string>& view_names();

/// One line of `list`.
struct ExperimentSummary {
  Experiment experiment;  ///< without plan, scenario text and fingerprint
  std::int64_t trials = 0;
  std::int64_t finished = 0;
  std::int64_t failed = 0;
  std::int64_t interrupted = 0;
  std::int64_t probes = 0;
};

/// The results database: one file, one writing thread. Every call is one transaction, whole or not at all;
/// every failure is an Error with SQLite's words, the file and what to do.
class Store {
 public:
  enum class Mode {
    create,  ///< make the file (and its folder) if it is not there
    open,    ///< the file must be there, and a database of virtrain's
    copy,    ///< as open, on a copy as it is at this moment, without a name, which goes when this goes
  };

  /// Opens the file and brings its schema up to date; a newer schema or a foreign file is refused.
  /// A lock of another process is waited for `busy_timeout` long; what the file makes SQLite do in one step
  /// may take `longest_step`.
  explicit Store(std::filesystem::path file, Mode mode = Mode::create,
                 std::chrono::milliseconds busy_timeout = std::chrono::seconds(10),
                 std::chrono::milliseconds longest_step = std::chrono::minutes(2));
  ~Store();
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;

  const std::filesystem::path& file() const;

  // -- writing, in the order a run does it
  /// Stores all of it; the id must be new.
  void add_experiment(const Experiment& experiment);
  /// The same of records that were measured elsewhere, or before.
  void add_imported_experiment(const Experiment& experiment);
  /// Adds facts of its host that became known since: keys that it has already keep their values.
  void add_host_facts(const std::string& experiment, const Fingerprint& facts);
  /// Sets the final status and the end's wall clock time.
  void end_experiment(const std::string& experiment, Status status, const std::string& ended_at);
  /// Inserts the trial as `running`, before its first side effect, with its start time; returns its row id.
  std::int64_t begin_trial(const Trial& trial);
  /// Replaces the wall clock time of the start, for trials whose ranks started later than the row.
  void set_trial_started(std::int64_t trial, const std::string& started_at);
  /// Says what stood between the trial's nodes and the hardware, known only once the host has been probed.
  void set_trial_virtualization(std::int64_t trial, const std::string& virtualization);
  void finish_trial(std::int64_t trial, const TrialOutcome& outcome, const std::string& ended_at);
  void fail_trial(std::int64_t trial, const TrialFailure& failure, const std::string& ended_at);
  void interrupt_trial(std::int64_t trial, const std::string& ended_at);
  /// The save_… functions insert, or replace what was saved under the same index, name or rank; they return
  /// the row id, which stays the same.
  std::int64_t save_tenant(std::int64_t trial, const Tenant& tenant);
  std::int64_t save_node(std::int64_t tenant, const Node& node);
  std::int64_t save_rank(std::int64_t tenant, const Rank& rank);
  void save_transport(std::int64_t tenant, const Transport& transport);
  void add_samples(std::int64_t rank, std::span<const Sample> samples);
  void add_telemetry(std::int64_t node, std::span<const Telemetry> readings);
  void add_figures(std::int64_t tenant, std::span<const Figure> figures);
  void add_event(const std::string& experiment, const Event& event);
  void add_probes(const std::string& experiment, std::span<const Probe> probes);
  /// Largest number of a run of its probes; 0: none has one.
  std::int64_t last_probe_run(const std::string& experiment) const;
  void add_leak_searches(const std::string& experiment, std::span<const LeakSearch> probes);
  /// After a crash: the experiment and its running trials become `interrupted`; finished and failed trials
  /// and ended experiments stay as they are. Whether the experiment was `running`.
  bool mark_interrupted(const std::string& experiment);

  // -- reading
  /// All experiments, oldest first.
  std::vector<ExperimentSummary> list_experiments() const;
  std::optional<Experiment> experiment(const std::string& id) const;
  /// The same of one that must be there. Throws Error(not_found): "show experiment ID: there is none …".
  Experiment known_experiment(const std::string& verb, const std::string& id) const;
  /// Ids that the selection means, oldest first. Error(not_found) with words if there are none.
  std::vector<std::string> select(const Selection& selection) const;
  /// Trials of one experiment in the order they were inserted.
  std::vector<Trial> trials(const std::string& experiment) const;
  std::vector<Tenant> tenants(std::int64_t trial) const;
  std::vector<Node> nodes(std::int64_t tenant) const;
  std::vector<Rank> ranks(std::int64_t tenant) const;
  /// Counted work of each rank in usable trials, where nodes say on which of several hosts they were.
  std::vector<RankWork> work_on_hosts(const std::string& experiment) const;
  std::vector<Transport> transports(std::int64_t tenant) const;
  std::vector<Sample> samples(std::int64_t rank) const;
  std::vector<Telemetry> telemetry(std::int64_t node) const;
  /// Figures of a tenant's own command with their readings, in the order of storing.
  std::vector<Figure> figures(std::int64_t tenant) const;
  /// Those of all usable trials of an experiment, without readings.
  std::vector<TrialFigure> trial_figures(const std::string& experiment) const;
  std::vector<Event> events(const std::string& experiment) const;
  std::vector<Probe> probes(const std::string& experiment) const;
  std::vector<LeakSearch> leak_searches(const std::string& experiment) const;
  /// The view's rows of these experiments, experiment by experiment in the view's own order. Error(usage) if
  /// there is no such view.
  ViewRows view(std::string_view name, const std::vector<std::string>& experiments) const;
  /// Data that compare() needs of these experiments, read in one go; of imported trials' environments these
  /// fields.
  ComparisonData comparison_data(const std::vector<std::string>& experiments,
                                 const std::vector<std::string>& environment_fields) const;

  /// Label, host, start and boot of these experiments, in their order.
  std::vector<ComparisonExperiment> comparison_experiments(const std::vector<std::string>& experiments) const;
  /// When the trials of this experiment began.
  std::set<std::string> comparison_starts(const std::string& experiment) const;
  /// Means for the explainer over the valid finished trials of these experiments: telemetry within the
  /// measured steps ("rate.METRIC" of counters of seconds, "mean.METRIC" of others), ranks and nodes.
  std::vector<ArmNumber> comparison_numbers(const std::vector<std::string>& experiments) const;
  /// Work of neighbours' stressors, for the matrix of isolation.
  std::vector<NeighbourMean> comparison_neighbours(const std::vector<std::string>& experiments) const;
  std::vector<NeighbourRate> comparison_neighbour_rates(const std::vector<std::string>& experiments) const;
  std::vector<LaterStepRow> comparison_later_steps(const std::vector<std::string>& experiments) const;
  /// All figures of micro-benchmarks of these experiments.
  std::vector<ExperimentProbe> comparison_probes(const std::vector<std::string>& experiments) const;

  // -- nights
  /// All experiments as nights, in the order of storing.
  std::vector<Night> nights() const;
  std::vector<NightFigure> night_figures() const;
  /// Facts of each case and arm of a night (its number); facts of the host have the prefix "host.".
  std::vector<ArmFact> night_facts(std::int64_t night) const;
  StoredReadings stored_readings(std::int64_t night) const;
  /// Removes samples and telemetry of a scenario's nights that began before `before` (ISO 8601), a
  /// transaction each; trials, ranks, facts, verdicts and changes stay. The file shrinks in steps where it
  /// was made by this version; in older files the room is used again. Error(busy) where another process
  /// writes.
  Thinned thin_nights(const std::string& scenario, const std::string& before);
  void acknowledge(const Acknowledgement& acknowledgement);
  std::vector<Acknowledgement> acknowledgements() const;

  // -- import and export
  /// Runs the function in one transaction; what it wrote is undone if it throws.
  void transaction(const std::string& operation, const std::function<void()>& work);
  /// Inserts a trial in any status, as it is; the pair must be new in its experiment, case and arm.
  std::int64_t import_trial(const Trial& trial);
  /// Fills the key of a trial whose record has only names, as those of virtrain 0.2.0: what a name says of
  /// sizes, points and neighbours becomes fields.
  void read_old_names(std::int64_t trial);
  /// Gives an imported experiment the label that a later record of it carries.
  void set_label(const std::string& experiment, const std::string& label);
  struct ImportedFile {
    std::string name, imported_at;
  };
  /// Remembers an imported file by the hash of its bytes; returns its earlier import where there was one.
  std::optional<ImportedFile> remember_import(const std::string& sha256, const std::string& name,
                                              const std::string& imported_at);
  /// Id of the experiment that has this one, or whose id alone begins so. Error(not_found) with words if
  /// there is none, or several.
  std::string full_id(const std::string& begin) const;
  /// The same of each.
  std::vector<std::string> full_ids(const std::vector<std::string>& begins) const;
  /// True if the database has a finished or other trial of this experiment, case, arm and pair.
  bool has_pair(const std::string& experiment, const std::string& case_name, const std::string& arm,
                std::int64_t pair) const;

 private:
  class Connection;

  /// Rows that a query finds for each of the experiments, with the experiment's position in the list.
  template <typename Row>
  std::vector<Row> rows_of_each(const std::string& operation, const std::vector<std::string>& experiments,
                                std::string_view sql) const;

  std::unique_ptr<Connection> connection_;
};

}  // namespace virtrain::results
