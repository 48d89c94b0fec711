#include <SQLiteCpp/SQLiteCpp.h>

#include <string>
#include <tuple>
#include <vector>

#include "results/store/store.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;

namespace {

std::string value_of(const std::filesystem::path& file, const std::string& sql) {
  SQLite::Database database(file.string(), SQLite::OPEN_READONLY);
  return database.execAndGet(sql).getString();
}

}  // namespace

TEST_CASE("the ratio of a night is its pairs' geometric mean, and wrong data have no rate") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  const auto add_pair = [&](std::optional<std::int64_t> pair, double on_metal, double in_vm) {
    add_finished(store, "e", "one", "bare_metal", pair, on_metal);
    add_finished(store, "e", "one", "vm", pair, in_vm);
  };
  add_pair(1, 100, 50), add_pair(2, 100, 200), add_pair(std::nullopt, 1, 1000);
  store.add_probes("e", std::vector<Probe>{
                            {.name = "all_reduce", .arm = "vm", .value = 10, .unit = "B/s"},
                            {.name = "all_reduce", .arm = "vm", .value = 1000, .unit = "B/s", .wrong = 3},
                        });
  std::map<std::string, double> figures;
  for (const auto& one : store.night_figures()) { figures[one.figure] = one.value; }
  CHECK(figures.at("ratio") == Approx(1));
  CHECK(figures.at("probe.all_reduce") == 10);
}

TEST_CASE("where a case has pairs, a warm-up without one is in no figure and in no view") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  store.add_experiment(an_experiment("e"));
  for (const auto& [name, arm, nodes, value] : {std::tuple{"weak/1", "vm", 1, 100.0},
                                                {"weak/4", "vm", 4, 390.0},
                                                {"weak/4", "bare_metal", 4, 400.0}}) {
    add_finished(store, "e", name, arm, 1, value, nodes);
    add_finished(store, "e", name, arm, std::nullopt, 1, nodes);
  }
  CHECK(value_of(file,
                 "SELECT printf('%.3f %d', speedup, runs) FROM v_speedup WHERE nodes = 4 AND arm = 'vm'") ==
        "3.900 1");
  CHECK(value_of(file, "SELECT group_concat(pair || ' ' || ratio) FROM v_vm_vs_bare_metal") == "1 0.975");
  for (const auto& one : store.night_figures()) {
    if (one.figure == "efficiency" && one.arm == "vm") { CHECK(one.value == Approx(0.975)); }
  }
}

TEST_CASE("trials without pairs have the ratio of their geometric means") {
  const TemporaryFolder folder;
  Store store(folder.path / "results.db");
  store.add_experiment(an_experiment("e"));
  for (const double speed : {100, 400}) {
    add_finished(store, "e", "one", "bare_metal", std::nullopt, speed);
  }
  add_finished(store, "e", "one", "vm", std::nullopt, 100);
  for (const auto& one : store.night_figures()) {
    if (one.figure == "ratio") { CHECK(one.value == Approx(0.5)); }
  }
  CHECK(store.night_figures().size() == 3);
}

TEST_CASE("old nights lose samples and telemetry, and nothing else") {
  const TemporaryFolder folder;
  const auto file = folder.path / "results.db";
  Store store(file);
  const auto add_night = [&](const std::string& id, const std::string& scenario,
                             const std::string& started_at) {
    auto experiment = an_experiment(id);
    experiment.scenario = scenario;
    experiment.started_at = started_at;
    store.add_experiment(experiment);
    const auto trial = store.begin_trial(a_trial(id, "one", "vm", 1));
    const auto tenant = store.save_tenant(trial, Tenant());
    Node node;
    node.name = "n0";
    node.kind = "vm";
    node.agent_ready_seconds = 3;
    store.add_telemetry(store.save_node(tenant, node),
                        std::vector<Telemetry>(3000, {1, "guest", "cpu", 0.5}));
    Rank rank;
    rank.node = "n0";
    rank.step_p99_seconds = 0.5;
    store.add_samples(store.save_rank(tenant, rank), std::vector<Sample>(2000, {1, 1, 4, 0.1, 2.0}));
    store.finish_trial(trial, {of_images(12.5), 0, true, ""}, "2026-11-20T08:01:00.000Z");
    store.end_experiment(id, Status::finished, "2026-11-20T08:02:00.000Z");
  };
  add_night("old", "quickstart", "2024-01-01T02:00:00.000Z");
  add_night("bisected", "quickstart.bisect", "2024-01-01T02:00:00.000Z");
  add_night("other", "another", "2024-01-01T02:00:00.000Z");
  add_night("new", "quickstart", "2026-11-20T02:00:00.000Z");
  const auto figures = store.night_figures();
  REQUIRE(figures.size() == 12);  // throughput, p99 and boot of each
  const auto bytes = std::filesystem::file_size(file);

  const auto before = store.stored_readings(store.nights().front().number);
  CHECK(before.samples == 2000);
  CHECK(before.readings == 3000);
  CHECK(before.last_sample == 2000);
  CHECK(before.last_reading == 3000);

  const auto thinned = store.thin_nights("quickstart", "2025-01-01T00:00:00.000Z");
  CHECK(store.stored_readings(store.nights().front().number).samples == 0);
  CHECK(store.stored_readings(store.nights().back().number).readings == 3000);
  CHECK(thinned.nights == 2);
  CHECK(thinned.samples == 4000);
  CHECK(thinned.readings == 6000);
  CHECK(std::filesystem::file_size(file) + static_cast<std::uintmax_t>(thinned.freed_bytes) == bytes);
  CHECK(thinned.freed_bytes > 100'000);
  CHECK(value_of(file, "SELECT count(*) FROM sample") == "4000");
  CHECK(value_of(file, "SELECT count(*) FROM telemetry") == "6000");
  CHECK(value_of(file, "SELECT count(*) FROM trial") == "4");
  CHECK(value_of(file, "SELECT count(*) FROM rank") == "4");
  CHECK(value_of(file, "PRAGMA integrity_check") == "ok");
  REQUIRE(store.night_figures().size() == figures.size());
  for (std::size_t i = 0; i < figures.size(); ++i) {
    CHECK(store.night_figures()[i].value == figures[i].value);
  }
  CHECK(store.thin_nights("quickstart", "2025-01-01T00:00:00.000Z").nights == 0);
}
