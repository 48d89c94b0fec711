#include "results/store/store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <fstream>
#include <limits>
#include <set>

#include "common/files/reading.h"
#include "tests/results/support.h"
#include "tests/support/file_size_limit.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

std::string text_of(const std::filesystem::path& file, const std::string& sql) {
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  SQLite::Statement query(database, sql);
  return query.executeStep() ? query.getColumn(0).getString() : "no row";
}

}  // namespace

TEST_CASE("a new database is strict, journalled by truncation and marked as ours") {
  const TemporaryFolder folder;
  const auto file = folder.path / "deep" / "er" / "results.db";
  const Store store(file);
  CHECK(text_of(file, "PRAGMA user_version") == std::to_string(schema_version));
  CHECK(text_of(file, "PRAGMA application_id") == std::to_string(0x76745253));
  CHECK(text_of(file,
                "SELECT count(*) FROM pragma_table_list WHERE type = 'table' AND NOT strict AND name NOT "
                "LIKE 'sqlite_%'") == "0");
  CHECK(text_of(file, "PRAGMA integrity_check") == "ok");
  CHECK_FALSE(std::filesystem::exists(file.string() + "-wal"));
}

TEST_CASE("everything a run stores comes back as it was") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  Experiment experiment = an_experiment("e1");
  experiment.label = "first";
  experiment.scenario_text = "name: quickstart\n";
  experiment.host_name = "host";
  experiment.plan = {{"trials", 2}};
  experiment.daemon_versions = {{"libvirtd", "9.0.0"}};
  experiment.fingerprint = {{"kernel", "6.1"}, {"microcode", ""}};
  store.add_experiment(experiment);

  Trial trial = a_trial("e1", "one-vm", "vm", 1);
  trial.order = 2;
  trial.virtualization = "tcg";
  trial.oversubscribed = true;
  const auto id = store.begin_trial(trial);
  CHECK(store.trials("e1").at(0).status == Status::running);

  Tenant tenant;
  tenant.name = "blue";
  tenant.workload = {{"model", "resnet50"}};
  const auto tenant_id = store.save_tenant(id, tenant);
  tenant.loss_first = 7.25;
  tenant.network_bytes_measured = 1'234'567'890'123;
  CHECK(store.save_tenant(id, tenant) == tenant_id);

  Node node;
  node.name = "n0";
  node.kind = "vm";
  node.domain_uuid = "6ba7b810";
  node.cores = "0-1";
  node.clock_offset_ns = -17;
  node.fingerprint = {{"kernel", "6.1-guest"}};
  const auto node_id = store.save_node(tenant_id, node);
  node.guest_boot_id = "boot";
  CHECK(store.save_node(tenant_id, node) == node_id);

  Rank rank;
  rank.node = "n0";
  rank.size = 2;
  rank.rank = 1;
  rank.isa = "avx2";
  rank.parameters_hash_before = "aa";
  rank.parameters_hash_after = "bb";
  const auto rank_id = store.save_rank(tenant_id, rank);
  store.save_transport(tenant_id, {"n0", "n1", "tcp"});
  store.add_samples(rank_id, std::vector<Sample>{{5, 1, 16, 0.5, 7.0}, {6, 2, 16, 0.25, std::nullopt}});
  store.add_telemetry(node_id, std::vector<Telemetry>{{7, "guest", "steal_seconds", 0.125}});
  store.add_event("e1", {id, 3, "2026-11-20T08:00:01.000Z", "boot", "started", {{"domain", "d"}}});
  store.add_event("e1", {std::nullopt, 4, "", "", "planned", nullptr});
  store.finish_trial(id, {of_images(12.5), 1000, false, "transport differs"}, "2026-11-20T08:01:00.000Z");
  store.end_experiment("e1", Status::finished, "2026-11-20T08:02:00.000Z");

  const auto read = store.experiment("e1").value();
  CHECK(read.label == "first");
  CHECK(read.plan == experiment.plan);
  CHECK(read.daemon_versions == experiment.daemon_versions);
  CHECK(read.fingerprint == Fingerprint{{"kernel", "6.1"}});
  CHECK(read.status == Status::finished);
  CHECK(read.boot_id.empty());
  const auto finished = store.trials("e1").at(0);
  CHECK(finished.status == Status::finished);
  CHECK(in_images(finished.throughput) == 12.5);
  CHECK(finished.oversubscribed);
  CHECK_FALSE(finished.valid);
  CHECK(finished.invalid_reason == "transport differs");
  CHECK(finished.pair == 1);
  CHECK_FALSE(finished.started_at.empty());
  CHECK(store.tenants(id).at(0).loss_first == 7.25);
  CHECK(store.tenants(id).at(0).network_bytes_measured == 1'234'567'890'123);
  CHECK(store.tenants(id).at(0).workload == tenant.workload);
  CHECK(store.nodes(tenant_id).at(0).guest_boot_id == "boot");
  CHECK(store.nodes(tenant_id).at(0).clock_offset_ns == -17);
  CHECK(store.nodes(tenant_id).at(0).fingerprint == node.fingerprint);
  CHECK(store.ranks(tenant_id).at(0).parameters_hash_after == "bb");
  CHECK(store.transports(tenant_id).at(0).transport == "tcp");
  CHECK(store.samples(rank_id).at(0).loss == 7.0);
  CHECK_FALSE(store.samples(rank_id).at(1).loss);
  CHECK(store.telemetry(node_id).at(0).value == 0.125);
  const auto events = store.events("e1");
  REQUIRE(events.size() == 2);
  CHECK(events[0].trial == id);
  CHECK(events[0].detail.at("domain") == "d");
  CHECK_FALSE(events[1].trial);
}

TEST_CASE("probes come back as they were stored, and a figure that is no number is refused", "[store]") {
  TemporaryFolder folder;
  Store store(folder.path / "r.db");
  store.add_experiment({.id = "e1", .scenario = "s"});
  Probe sweep{.name = "all_reduce", .arm = "vm", .transport = "tcp", .data_type = "float"};
  sweep.ranks = 4;
  sweep.size_bytes = 1 << 20;
  sweep.seconds = 0.004;
  sweep.value = 0.25e9;
  sweep.unit = "B/s";
  sweep.bus_bytes_per_second = 0.375e9;
  sweep.wrong = 0;
  store.add_probes("e1", std::vector{sweep});
  const auto probes = store.probes("e1");
  REQUIRE(probes.size() == 1);
  CHECK(probes[0].transport == "tcp");
  CHECK(probes[0].size_bytes == 1 << 20);
  CHECK(probes[0].bus_bytes_per_second == 0.375e9);
  CHECK(probes[0].node.empty());
  sweep.value = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(store.add_probes("e1", std::vector{sweep}), Error);
  CHECK(store.probes("e1").size() == 1);
}

TEST_CASE("the views have the columns that others rely on") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  CHECK(text_of(file, "SELECT group_concat(name) FROM pragma_table_info('v_trial')") ==
        "experiment,scenario,label,case,arm,pair,trial_order,nodes,gpus_per_node,images_per_second,status,"
        "virtualization,valid,invalid_reason,started_at,trial_id,case_name");
  store.add_experiment(an_experiment("e1"));
  add_finished(store, "e1", "weak-scaling/1", "vm", 1, 100, 1);
  add_finished(store, "e1", "weak-scaling/4", "vm", 1, 390, 4);
  add_finished(store, "e1", "weak-scaling/4", "bare_metal", 1, 400, 4);
  add_finished(store, "e1", "weak-scaling/4", "bare_metal", 2, 500, 4);
  CHECK(text_of(file, "SELECT printf('%.3f %.3f', speedup, efficiency) FROM v_speedup WHERE nodes = 4") ==
        "3.900 0.975");
  CHECK(text_of(file, "SELECT group_concat(pair || ' ' || ratio) FROM v_vm_vs_bare_metal") == "1 0.975");
  CHECK(text_of(file, "SELECT count(*) FROM v_tenant") == "0");
}

TEST_CASE("views of experiments, facts, events and samples join by trial_id and need no quotes") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  auto experiment = an_experiment("e1");
  experiment.fingerprint = {{"kernel", "6.1"}};
  store.add_experiment(experiment);
  add_finished(store, "e1", "a/1", "vm", 1, 50);
  const auto trial = add_finished(store, "e1", "c", "vm", 1, 100);
  const auto tenant = store.save_tenant(trial, Tenant{});
  Node node;
  node.name = "n0";
  node.kind = "vm";
  node.fingerprint = {{"kernel", "6.2"}};
  store.save_node(tenant, node);
  const auto rank = store.save_rank(tenant, Rank{});
  store.add_samples(rank, std::vector<Sample>{{5, 1, 16, 0.5, 7.0}});
  store.add_event("e1", {trial, 3, "", "boot", "started", nullptr});
  store.add_event("e1", {std::nullopt, 4, "", "", "planned", nullptr});
  CHECK(text_of(file, "SELECT trials || ' ' || finished_trials || ' ' || probes FROM v_experiment") ==
        "2 2 0");
  CHECK(text_of(file, "SELECT value FROM v_fact WHERE trial_id IS NULL AND key = 'kernel'") == "6.1");
  CHECK(text_of(file, "SELECT value FROM v_fact WHERE case_name = 'c' AND node = 'n0'") == "6.2");
  CHECK(text_of(file, "SELECT message FROM v_event WHERE case_name = 'c'") == "started");
  CHECK(text_of(file, "SELECT count(*) FROM v_event") == "2");
  CHECK(text_of(file,
                "SELECT s.images_per_second || ' ' || d.images_per_second FROM v_sample s "
                "JOIN v_trial_detail d USING (trial_id) JOIN v_rank r USING (trial_id) "
                "JOIN v_node n USING (trial_id) JOIN v_tenant w USING (trial_id)") == "32.0 100.0");
  CHECK(text_of(file, "SELECT count(*) FROM sqlite_schema WHERE type = 'view' AND sql LIKE '% LIKE %'") ==
        "0");
}

TEST_CASE("every view of trials has case_name and trial_id without quotes, and the column case still") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  store.add_experiment(an_experiment("e1"));
  add_finished(store, "e1", "a/1", "vm", 1, 90);
  add_finished(store, "e1", "a/1", "bare_metal", 1, 100);
  add_finished(store, "e1", "c", "bare_metal", std::nullopt, 100);
  add_finished(store, "e1", "c", "vm", std::nullopt, 80);
  add_finished(store, "e1", "c", "vm", std::nullopt, 90);
  const std::set<std::string> of_experiments = {"v_probe", "v_experiment", "v_security"};
  const std::set<std::string> of_several_trials = {"v_speedup", "v_vm_vs_bare_metal"};
  const std::set<std::string> never_had_case = {"v_fact", "v_event", "v_sample", "v_figure", "v_setting"};
  for (const auto& name : view_names()) {
    CAPTURE(name);
    if (of_experiments.contains(name)) { continue; }
    const auto* id = of_several_trials.contains(name) ? "" : ", trial_id";
    CHECK_NOTHROW(text_of(file, fmt::format("SELECT case_name{} FROM {}", id, name)));
    if (!never_had_case.contains(name)) { CHECK_NOTHROW(store.view(name, {}).column("case")); }
  }
  const std::string ids = "SELECT bare_metal_trial_id || ' ' || ifnull(vm_trial_id, 'several') FROM ";
  CHECK(text_of(file, ids + "v_vm_vs_bare_metal WHERE case_name = 'a/1'") == "2 1");
  CHECK(text_of(file, ids + "v_vm_vs_bare_metal WHERE case_name = 'c'") == "3 several");
}

TEST_CASE("what cannot be a measurement is refused and leaves nothing behind") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  const auto id = store.begin_trial(a_trial("e1", "c", "vm", 1));
  for (const double value :
       {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    CAPTURE(value);
    CHECK(error_of([&] {
            store.finish_trial(id, {of_images(value), 0, true, ""}, "t");
          }).code() == ErrorCode::bad_input);
  }
  CHECK(store.trials("e1").at(0).status == Status::running);
  CHECK_THROWS_AS(store.begin_trial(a_trial("e1", "c", "vm", 1)), Error);
  CHECK_NOTHROW(store.begin_trial(a_trial("e1", "c", "vm", std::nullopt)));
  CHECK_NOTHROW(store.begin_trial(a_trial("e1", "c", "vm", std::nullopt)));
  CHECK_THROWS_AS(store.add_experiment(an_experiment("e1")), Error);
  CHECK(error_of([&] { store.begin_trial(a_trial("e2", "c", "vm", 1)); }).code() == ErrorCode::not_found);
  CHECK_THROWS_AS(store.save_tenant(77, Tenant{}), Error);
  CHECK(store.trials("e1").size() == 3);
}

TEST_CASE("a trial leaves the running state once") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  const auto id = store.begin_trial(a_trial("e1", "c", "vm", 1));
  store.fail_trial(id, {"boot", "the guest never spoke", "Kernel panic\xff\x1b[31m"}, "t");
  const auto failed = store.trials("e1").at(0);
  CHECK(failed.failed_stage == "boot");
  CHECK(failed.console_tail.find('\x1b') == std::string::npos);
  CHECK_THROWS_WITH(store.finish_trial(id, {of_images(1), 0, true, ""}, "t"), Contains("not running"));
  CHECK_THROWS_WITH(store.interrupt_trial(id, "t"), Contains("not running"));
}

TEST_CASE("marking a crashed experiment interrupted keeps what was finished") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  for (const char* id : {"e1", "e2"}) {
    store.add_experiment(an_experiment(id));
    store.finish_trial(store.begin_trial(a_trial(id, "c", "vm", 1)), {of_images(5), 0, true, ""}, "t");
    store.begin_trial(a_trial(id, "c", "bare_metal", 1));
  }
  CHECK(store.mark_interrupted("e1"));
  CHECK_FALSE(store.mark_interrupted("e3"));
  CHECK(store.trials("e1").at(0).status == Status::finished);
  CHECK(store.trials("e1").at(1).status == Status::interrupted);
  CHECK(store.trials("e2").at(1).status == Status::running);
  const auto list = store.list_experiments();
  CHECK(list.at(0).experiment.status == Status::interrupted);
  CHECK(list.at(0).finished == 1);
  CHECK(list.at(0).interrupted == 1);
  CHECK(list.at(1).experiment.status == Status::running);
  store.end_experiment("e2", Status::finished, "t");
  CHECK_FALSE(store.mark_interrupted("e2"));
  CHECK_FALSE(store.mark_interrupted("e1"));  // once
  CHECK(store.experiment("e2")->status == Status::finished);
}

TEST_CASE("the latest experiment with trials is meant unless a selection says otherwise") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  CHECK(error_of([&] { store.select({}); }).code() == ErrorCode::not_found);
  for (const char* id : {"z", "a", "empty"}) {
    Experiment experiment = an_experiment(id);
    experiment.label = id;
    store.add_experiment(experiment);
  }
  store.begin_trial(a_trial("z", "c", "vm", 1));
  store.begin_trial(a_trial("a", "c", "vm", 1));
  using Ids = std::vector<std::string>;
  CHECK(store.select({}) == Ids{"a"});
  Experiment yardstick = an_experiment("paper");
  yardstick.label = "published";
  store.add_experiment(yardstick);
  store.begin_trial(a_trial("paper", "c", "vm", 1));
  CHECK(store.select({}) == Ids{"a"});
  CHECK(store.select({.label = "published"}) == Ids{"paper"});
  CHECK(store.select({.experiments = {"a", "z"}}) == Ids{"z", "a"});
  CHECK(store.select({.scenario = "quickstart"}) == Ids{"z", "a", "paper"});
  CHECK(store.select({.label = "z"}) == Ids{"z"});
  CHECK(store.select({.all = true}) == Ids{"z", "a", "paper"});
  CHECK_THROWS_WITH(store.select({.experiments = {"nope"}}), Contains("nope"));
  CHECK_THROWS_WITH(store.select({.label = "nope"}), Contains("nope"));
}

TEST_CASE("files that are not ours or too new are refused with words") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  CHECK(error_of([&] { Store(file, Store::Mode::open); }).code() == ErrorCode::not_found);
  CHECK_FALSE(std::filesystem::exists(file));

  std::ofstream(folder.path / "text.db") << std::string(4096, 'x');
  CHECK_THROWS_WITH(Store(folder.path / "text.db"), Contains("text.db") && Contains("--db"));

  SQLite::Database(folder.path / "other.db", SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE)
      .exec("CREATE TABLE songs (name TEXT)");
  CHECK_THROWS_WITH(Store(folder.path / "other.db"), Contains("another program"));

  { const Store ours(file); }
  SQLite::Database(file, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 99");
  CHECK_THROWS_WITH(Store(file), Contains("newer virtrain") && Contains("99"));
}

TEST_CASE("a database from before 0.2.0 is refused, and stays as it is") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  { const Store ours(file); }
  SQLite::Database(file, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 8");
  CHECK_THROWS_WITH(Store(file), Contains("results.db was written before virtrain 0.2.0 (schema 8") &&
                                     Contains("open it once with virtrain 0.2.0"));
  CHECK(text_of(file, "PRAGMA user_version") == "8");
}

TEST_CASE("a database that another process holds gives words, not a hang") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file, Store::Mode::create, std::chrono::milliseconds(20));
  store.add_experiment(an_experiment("e1"));
  SQLite::Database other(file, SQLite::OPEN_READWRITE);
  other.exec("BEGIN EXCLUSIVE");
  const Error error = error_of([&] { store.begin_trial(a_trial("e1", "c", "vm", 1)); });
  CHECK(error.code() == ErrorCode::busy);
  CHECK_THAT(error.what(), Contains("results.db") && Contains("another process"));
  other.exec("ROLLBACK");
  CHECK(store.trials("e1").empty());
  CHECK_NOTHROW(store.begin_trial(a_trial("e1", "c", "vm", 1)));
}

TEST_CASE("a full disk gives words and leaves nothing half-written") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  store.add_experiment(an_experiment("e1"));
  const auto id = store.begin_trial(a_trial("e1", "c", "vm", 1));
  Tenant tenant;
  const auto tenant_id = store.save_tenant(id, tenant);
  const auto rank_id = store.save_rank(tenant_id, Rank{});
  const std::vector<Sample> many(20'000, Sample{1, 1, 1, 1.0, 1.0});
  {
    const FileSizeLimit limit(std::filesystem::file_size(file) + 8192);
    const Error error = error_of([&] { store.add_samples(rank_id, many); });
    CHECK(error.code() == ErrorCode::io);
    CHECK_THAT(error.what(), Contains("results.db") && Contains("free space"));
  }
  CHECK(store.samples(rank_id).empty());
  CHECK(text_of(file, "PRAGMA integrity_check") == "ok");
  store.add_samples(rank_id, many);
  CHECK(store.samples(rank_id).size() == many.size());
}

TEST_CASE("a transaction of many calls is whole or not at all") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  CHECK_THROWS_AS(store.transaction("test",
                                    [&] {
                                      store.add_experiment(an_experiment("e1"));
                                      store.begin_trial(a_trial("nope", "c", "vm", 1));
                                    }),
                  Error);
  CHECK(store.list_experiments().empty());
}

TEST_CASE("views are read row by row with their own names and types") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  store.add_experiment(an_experiment("e2"));
  add_finished(store, "e1", "c", "vm", 1, 100.5);
  add_finished(store, "e1", "c", "bare_metal", 1, 200);
  add_finished(store, "e2", "c", "vm", std::nullopt, 300);
  const auto trials = store.view("v_trial", {"e2", "e1"});
  REQUIRE(trials.rows.size() == 3);
  CHECK(trials.rows[0][trials.column("experiment")] == "e2");
  CHECK(trials.rows[0][trials.column("pair")].is_null());
  CHECK(trials.rows[1][trials.column("pair")] == 1);
  CHECK(trials.rows[1][trials.column("images_per_second")] == 100.5);
  CHECK_THROWS_AS(trials.column("none"), Error);
  const auto detail = store.view("v_trial_detail", {"e1"});
  CHECK(detail.rows.at(1)[detail.column("trial")] == 2);
  for (const auto& name : view_names()) { CHECK(store.view(name, {"e1"}).columns.at(0) == "experiment"); }
  CHECK(error_of([&] { store.view("trial", {}); }).code() == ErrorCode::usage);
}

TEST_CASE("telemetry is summed up by node and metric, counters by their first and last reading") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e1"));
  const auto tenant = store.save_tenant(add_finished(store, "e1", "c", "vm", 1, 1), {});
  Node node;
  node.name = "n0";
  node.kind = "vm";
  node.domain_xml = "<domain/>";
  const auto id = store.save_node(tenant, node);
  CHECK(store.nodes(tenant).at(0).domain_xml == "<domain/>");
  store.add_telemetry(
      id, std::vector<Telemetry>{{30, "host", "m", 9}, {10, "host", "m", 1}, {20, "host", "m", 5}});
  const auto view = store.view("v_telemetry", {"e1"});
  REQUIRE(view.rows.size() == 1);
  const auto value = [&](const char* name) { return view.rows[0][view.column(name)]; };
  CHECK(value("readings") == 3);
  CHECK(value("mean") == 5.0);
  CHECK(value("first") == 1.0);
  CHECK(value("last") == 9.0);
}
