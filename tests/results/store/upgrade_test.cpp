// A database that virtrain 0.2.0 made: data/version-9.sql.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "results/exchange/exchange.h"
#include "results/reading/reading.h"
#include "results/store/schema/schema.h"
#include "results/tables/tables.h"
#include "tests/results/support.h"
#include "tests/support/file_size_limit.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

std::filesystem::path make_old(const std::filesystem::path& folder) {
  auto file = folder / "version-9.db";
  const auto sql = read_file(std::string(VIRTRAIN_SOURCE_DIR) + "/tests/results/store/data/version-9.sql");
  REQUIRE(sql);
  SQLite::Database old(file, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE);
  old.exec(*sql);
  return file;
}

std::vector<std::string> texts_of(const SQLite::Database& database, const std::string& sql) {
  SQLite::Statement query(database, sql);
  std::vector<std::string> texts;
  while (query.executeStep()) { texts.push_back(query.getColumn(0).getString()); }
  return texts;
}

/// Columns of each table.
using Columns = std::map<std::string, std::vector<std::string>>;
Columns columns_of(const std::filesystem::path& file) {
  const SQLite::Database database(file);
  Columns columns;
  for (const auto& table : texts_of(
           database, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")) {
    columns[table] = texts_of(database, "SELECT name FROM pragma_table_info('" + table + "')");
  }
  return columns;
}

/// Every value of these columns, bit by bit.
std::map<std::string, std::vector<std::string>> rows_of(const std::filesystem::path& file,
                                                        const Columns& columns) {
  const SQLite::Database database(file);
  std::map<std::string, std::vector<std::string>> rows;
  for (const auto& [table, names] : columns) {
    std::vector<std::string> quoted;
    for (const auto& name : names) { quoted.push_back("quote(\"" + name + "\")"); }
    rows[table] = texts_of(
        database, fmt::format("SELECT {} FROM \"{}\" ORDER BY 1", fmt::join(quoted, " || ',' || "), table));
  }
  return rows;
}

std::vector<std::string> schema_of(const std::filesystem::path& file) {
  const SQLite::Database database(file);
  return texts_of(
      database,
      "SELECT replace(replace(sql, ' ', ''), char(10), '') FROM sqlite_schema WHERE sql IS NOT NULL "
      "AND name NOT LIKE 'sqlite_%' ORDER BY name");
}

}  // namespace

TEST_CASE("an upgrade loses no value of any table, and ends at the schema of a new file") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  const auto columns = columns_of(file);
  CHECK(columns.size() >= 10);
  const auto before = rows_of(file, columns);
  for (const auto& [table, rows] : before) {
    CAPTURE(table);
    CHECK_FALSE(rows.empty());  // nothing is proved of an empty table
  }
  { const Store upgraded(file); }
  CHECK(rows_of(file, columns) == before);
  { const Store made(folder.path / "fresh.db"); }
  CHECK(schema_of(file) == schema_of(folder.path / "fresh.db"));
  const SQLite::Database database(file);
  CHECK(texts_of(database, "PRAGMA user_version") == std::vector{std::to_string(schema_version)});
  CHECK(texts_of(database, "PRAGMA integrity_check") == std::vector<std::string>{"ok"});
  CHECK(texts_of(database, "PRAGMA foreign_key_check").empty());
}

TEST_CASE("an old database is listed, compared, exported and followed over its nights as a present one") {
  const TemporaryFolder folder;
  Store store(make_old(folder.path));
  const auto listed = store.list_experiments();
  REQUIRE(listed.size() == 22);
  CHECK(listed[0].finished == 2);
  CHECK(listed[0].probes == 2);
  CHECK(listed[18].failed == 1);

  const auto compared = compare(store, {.selection = {.scenario = "nightly"}});
  REQUIRE(compared.size() == 1);
  CHECK(compared[0].n == 18);

  const auto log = read_changes(store, "/vm/ratio");
  REQUIRE(log.changes.size() == 1);
  CHECK(log.changes[0].state == ChangeState::open);
  CHECK(log.changes[0].first_night().experiment == "n15");
  const auto is_kernel = [](const Suspect& one) { return one.fact == "host.kernel" || one.fact == "kernel"; };
  CHECK(std::any_of(log.changes[0].suspects.begin(), log.changes[0].suspects.end(), is_kernel));
  CHECK(store.acknowledgements().size() == 1);
  acknowledge(store, log.changes[0].id, "known", "2026-11-25T00:00:00Z");
  CHECK(read_changes(store, "/vm/ratio").changes[0].state == ChangeState::acknowledged);

  for (const auto& view : view_names()) { CHECK_NOTHROW(store.view(view, {"n00", "crashed"})); }
  std::ostringstream exported;
  export_jsonl(store, {.experiments = {"n00", "n17"}}, exported);
  CHECK_THAT(exported.str(), Contains("n17") && Contains("images_per_second"));
}

TEST_CASE("an upgrade makes fields of what names said, once") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  { const Store upgraded(file); }
  const SQLite::Database database(file);
  const auto keys = [&](const std::string& where) {
    return texts_of(
        database,
        "SELECT DISTINCT concat FROM (SELECT coalesce(family, '-') || ' ' || coalesce(scale, '-') || ' ' || "
        "coalesce(point, '-') || ' ' || coalesce(arm_like, '-') || ' ' || coalesce(neighbour, '-') || ' ' || "
        "coalesce(level, '-') AS concat FROM trial WHERE " +
            where + ")");
  };
  using Texts = std::vector<std::string>;
  CHECK(keys("\"case\" = 'weak@vcpus=2,batch_size=16/2' AND arm = 'vm-unpinned'") ==
        Texts{R"(weak 2 {"vcpus":"2","batch_size":"16"} vm - -)"});
  CHECK(keys("\"case\" = 'weak/4'") == Texts{"weak 4 - - - -"});
  CHECK(keys("\"case\" IN ('a/2@x+y', 'one')") == Texts{"- - - - - -"});
  CHECK(keys("arm = 'capped'") == Texts{"- - - vm - -"});
  CHECK(keys("arm = 'capped+idle'") == Texts{"- - - capped idle -"});
  CHECK(keys("arm = 'vm+h2d+d2h@12.5%'") == Texts{"- - - vm h2d+d2h 0.125"});
}

TEST_CASE("figures have a unit, a scope and settings, and settings are rows") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  { const Store upgraded(file); }
  const SQLite::Database database(file);
  using Texts = std::vector<std::string>;
  CHECK(
      texts_of(
          database,
          "SELECT scope || ' ' || name || ' ' || unit || ' ' || value || ' ' || (json_extract(settings, "
          "'$.batch_size') IS NOT NULL) FROM v_figure WHERE experiment = 'n00' AND arm = 'vm' ORDER BY 1") ==
      Texts{"node triad B/s 15000000000.0 0", "rank step_p99 s 0.3 0", "rank throughput images/s 950.0 0",
            "tenant throughput images/s 950.0 0", "trial throughput images/s 950.0 1"});
  CHECK(texts_of(database,
                 "SELECT key || '=' || value FROM v_setting WHERE experiment = 'sizes' AND case_name = "
                 "'weak@vcpus=2,batch_size=16/2' AND arm = 'vm' AND pair = 1") ==
        Texts{"sweep.vcpus=2", "sweep.batch_size=16"});
  CHECK(
      texts_of(
          database,
          "SELECT key || '=' || value FROM v_setting WHERE experiment = 'n00' AND arm = 'vm' ORDER BY 1") ==
      Texts{"workload.backend=cpu", "workload.batch_size=4", "workload.precision=fp32", "workload.steps=2"});
}

TEST_CASE("an upgrade of version 10 takes a node's host out of its properties") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  {
    SQLite::Database old(file, SQLite::OPEN_READWRITE);
    REQUIRE(migrate_from(9, old) == 10);
    old.exec(
        "PRAGMA user_version = 10; INSERT INTO fingerprint (node_id, key, value) "
        "SELECT min(id), 'host', 'gpu-a' FROM node");
  }
  const auto columns = columns_of(file);
  auto before = rows_of(file, columns);
  { const Store upgraded(file); }
  const SQLite::Database database(file);
  using Texts = std::vector<std::string>;
  CHECK(texts_of(database, "SELECT host FROM v_node WHERE host IS NOT NULL") == Texts{"gpu-a"});
  CHECK(texts_of(database, "SELECT host FROM node ORDER BY id LIMIT 1") == Texts{"gpu-a"});
  CHECK(texts_of(database, "SELECT 1 FROM fingerprint WHERE key = 'host'").empty());
  std::erase_if(before.at("fingerprint"), [](const auto& row) { return Contains("'gpu-a'").match(row); });
  CHECK(rows_of(file, columns) == before);
  CHECK(texts_of(database, "PRAGMA user_version") == Texts{std::to_string(schema_version)});
}

TEST_CASE("an upgrade of version 11 makes figures of readings that telemetry had, with who said them") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  {
    SQLite::Database old(file, SQLite::OPEN_READWRITE);
    REQUIRE(migrate_from(9, old) == 10);
    REQUIRE(migrate_from(10, old) == 11);
    old.exec(
        "PRAGMA user_version = 11;"
        "UPDATE tenant SET throughput = 5, unit = 'tokens/s' WHERE id = (SELECT min(tenant_id) FROM node);"
        "INSERT INTO telemetry (node_id, t_ns, source, metric, value) SELECT min(id), 7, 'guest', m.column1, "
        "m.column2 FROM node, (VALUES ('job_figure rank 12', 41.5), ('job_figure t1n2', 42.5)) m GROUP BY 4");
  }
  const auto columns = columns_of(file);
  auto before = rows_of(file, columns);
  const auto is_figure = [](const auto& row) { return Contains("job_figure").match(row); };
  CHECK(std::erase_if(before.at("telemetry"), is_figure) == 2);
  {
    const Store upgraded(file);
    const auto trials = upgraded.trials("n00");
    REQUIRE_FALSE(trials.empty());
  }
  const SQLite::Database database(file);
  using Texts = std::vector<std::string>;
  CHECK(
      texts_of(
          database,
          "SELECT coalesce(node, '-') || ' ' || coalesce(rank, '-') || ' ' || name || ' ' || unit || ' ' || "
          "value || ' ' || t_ns FROM figure ORDER BY rowid") ==
      Texts{"- 12 throughput tokens/s 41.5 7", "t1n2 - throughput tokens/s 42.5 7"});
  CHECK(rows_of(file, columns) == before);
  CHECK(texts_of(database, "PRAGMA user_version") == Texts{std::to_string(schema_version)});
  CHECK(texts_of(database, "PRAGMA integrity_check") == Texts{"ok"});
}

TEST_CASE("an upgrade reads what told figures of probes apart from the words of their sources") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  {
    SQLite::Database old(file, SQLite::OPEN_READWRITE);
    for (const auto* detail : {R"({"source":"nvbandwidth","test":"host_to_device_memcpy_ce"})",
                               R"({"source":"nvbandwidth","test":"host_to_device_memcpy_sm"})",
                               R"({"in_place":true})", R"([7])"}) {
      SQLite::Statement insert(old,
                               "INSERT INTO probe (experiment_number, name, arm, value, unit, detail) VALUES "
                               "(1, 'told_apart', 'vm', 1, 'B/s', ?)");
      insert.bind(1, detail);
      insert.exec();
    }
  }
  { const Store upgraded(file); }
  const SQLite::Database database(file);
  CHECK(texts_of(database,
                 "SELECT coalesce(json_extract(settings, '$.source'), 'none') FROM v_figure WHERE name = "
                 "'told_apart' ORDER BY 1") ==
        std::vector<std::string>{"none", R"({"side":"in place"})", R"({"test":"host_to_device_memcpy_ce"})",
                                 R"({"test":"host_to_device_memcpy_sm"})"});
}

TEST_CASE("settings of guests are rows of the trials that had them") {
  const TemporaryFolder folder;
  const auto file = folder.path / "r.db";
  Store store(file);
  auto experiment = an_experiment("e");
  experiment.plan = nlohmann::json::parse(
      R"({"trials":[{"order":1,"guest":{"vcpus":2,"pinning":"cores","network":{"queues":4}}},)"
      R"({"order":2,"guest":{"vcpus":8}}, "odd", 7]})");
  store.add_experiment(experiment);
  for (const int order : {1, 2}) {
    auto trial = a_trial("e", "c", order == 1 ? "vm" : "vm-large", 1);
    trial.order = order;
    store.import_trial(trial);
  }
  for (const auto* odd : {R"({"trials":7})", R"([1])", R"({"trials":{"a":{"guest":3}}})"}) {
    experiment.id = odd;
    experiment.plan = nlohmann::json::parse(odd);
    store.add_experiment(experiment);
    add_finished(store, odd, "c", "vm", 1, 5);
  }
  const SQLite::Database database(file);
  CHECK(texts_of(database, "SELECT arm || ' ' || key || '=' || value FROM v_setting ORDER BY 1") ==
        std::vector<std::string>{"vm guest.network.queues=4", "vm guest.pinning=cores", "vm guest.vcpus=2",
                                 "vm-large guest.vcpus=8"});
}

TEST_CASE("an upgrade that fails leaves the old version whole") {
  const TemporaryFolder folder;
  const auto file = make_old(folder.path);
  const auto before = schema_of(file);
  {
    const FileSizeLimit full(std::filesystem::file_size(file));
    CHECK_THROWS_AS(Store(file), Error);
  }
  CHECK(schema_of(file) == before);
  const SQLite::Database database(file);
  CHECK(texts_of(database, "PRAGMA user_version") == std::vector<std::string>{"9"});
  CHECK(texts_of(database, "SELECT count(*) FROM trial") == std::vector<std::string>{"187"});
}
