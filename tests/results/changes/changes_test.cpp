#include "results/changes/changes.h"

#include <fmt/format.h>

#include "results/reading/reading.h"
#include "results/tables/tables.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

/// One night of a scenario: a pair, with the driver as a fact of the host.
void add_night(Store& store, int number, double vm, const std::string& driver = "470",
               const std::string& text = "name: quickstart\n", const std::string& date = "") {
  auto night = an_experiment(fmt::format("night-{:03}", number));
  night.scenario_text = text;
  night.started_at =
      date.empty() ? fmt::format("2026-{:02}-{:02}T02:00:00.000Z", number / 28 + 1, number % 28 + 1) : date;
  night.status = Status::finished;
  night.fingerprint = {{"driver", driver}, {"boot_id", night.id}};
  store.add_experiment(night);
  const double noise = 1 + 0.002 * (number % 5 - 2);
  add_finished(store, night.id, "one-vm", "bare_metal", 1, 1000 * noise);
  add_finished(store, night.id, "one-vm", "vm", 1, vm * noise * (1 + 0.001 * (number % 3 - 1)));
}

const Series& series_named(const ChangeLog& log, const std::string& name) {
  for (const auto& one : log.series) {
    if (one.name() == name) { return one; }
  }
  FAIL("no series " + name);
  return log.series.front();
}

}  // namespace

TEST_CASE("a loss is found in the figures it concerns, its suspect named, accepted, and silent then") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 20; ++night) { add_night(store, night, 950); }
  CHECK(read_changes(store).changes.empty());
  for (int night = 20; night < 23; ++night) { add_night(store, night, 850, "580"); }
  const auto log = read_changes(store);
  REQUIRE(log.changes.size() == 2);
  CHECK(log.changes[0].series->name() == "quickstart/one-vm/vm/images_per_second");
  CHECK(log.changes[1].series->name() == "quickstart/one-vm/vm/ratio");
  for (const auto& change : log.changes) {
    CHECK(is_alarm(change));
    CHECK(change.regression);
    CHECK(change.level.large);
    CHECK(change.first_night().experiment == "night-020");
    REQUIRE(change.suspects.size() == 1);
    CHECK(change.suspects[0].fact == "host.driver");
    CHECK(change.suspects[0].after == "580");
  }
  const auto text = render(changes_table(log), Format::markdown);
  CHECK_THAT(text, Contains("host.driver (470 → 580)"));
  CHECK_THAT(text, Contains("2 losses are open"));

  const auto id = log.changes[0].id;
  CHECK(error_of([&] { acknowledge(store, id, "  ", "now"); }).code() == ErrorCode::usage);
  CHECK(error_of([&] { acknowledge(store, "nobody", "why", "now"); }).code() == ErrorCode::not_found);
  for (const auto& change : log.changes) { acknowledge(store, change.id, "known", "2026-11-20T08:00:00Z"); }
  add_night(store, 23, 850, "580");
  const auto after = read_changes(store);
  REQUIRE(after.changes.size() == 2);
  CHECK(after.changes[0].id == id);
  CHECK(after.changes[0].state == ChangeState::acknowledged);
  CHECK(after.changes[0].why == "known");
  CHECK_FALSE(is_alarm(after.changes[0]));
}

TEST_CASE("a loss that lasts stays one while a worse night waits to be confirmed") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 20; ++night) { add_night(store, night, 950); }
  for (int night = 20; night < 24; ++night) { add_night(store, night, 850); }
  add_night(store, 24, 780);
  const auto log = read_changes(store);
  for (const auto& state : series_states(log, {})) {
    if (state.series->arm != "vm") { continue; }
    CHECK(state.open_losses.size() == 1);
    CHECK(state.changes.back()->state == ChangeState::unconfirmed);
    CHECK(state.verdict == SeriesVerdict::loss);
  }
}

TEST_CASE("that KVM became emulation is a suspect, and so is the batch, of imported nights too") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 23; ++night) {
    auto experiment = an_experiment(fmt::format("night-{:03}", night));
    experiment.started_at = fmt::format("2026-01-{:02}T02:00:00.000Z", night + 1);
    store.add_experiment(experiment);
    auto trial = a_trial(experiment.id, "one-vm", "vm", 1);
    trial.status = Status::finished;
    trial.virtualization = night < 20 ? "kvm" : "tcg";
    trial.batch_size = night < 20 ? 8 : 4;
    trial.throughput = of_images((night < 20 ? 950 : 50) * (1 + 0.001 * (night % 3 - 1)));
    store.import_trial(trial);
  }
  const auto log = read_changes(store);
  REQUIRE(log.changes.size() == 1);
  std::set<std::string> suspects;
  for (const auto& one : log.changes[0].suspects) {
    suspects.insert(one.fact + " " + one.before + " " + one.after);
  }
  CHECK(suspects == std::set<std::string>{"batch_size 8 4", "virtualization kvm tcg"});
}

TEST_CASE("a package of the guest image that was updated is a suspect") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 23; ++night) {
    add_night(store, night, night < 20 ? 950 : 850);
    store.add_host_facts(fmt::format("night-{:03}", night),
                         {{"package.libdnnl2", night < 20 ? "2.6.3-1" : "2.7.0-1"},
                          {"package.libc6", night < 7 ? "2.36-9" : "2.36-10"},
                          {"driver", "of a later look"}});
  }
  const auto log = read_changes(store);
  REQUIRE(log.changes.size() == 2);
  REQUIRE(log.changes[0].suspects.size() == 1);
  CHECK(log.changes[0].suspects[0].fact == "host.package.libdnnl2");
  CHECK(log.changes[0].suspects[0].after == "2.7.0-1");
  CHECK(store.experiment("night-000")->fingerprint.at("driver") == "470");
}

TEST_CASE("another scenario text is another series, and comments and spaces are not") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 15; ++night) { add_night(store, night, 950); }
  for (int night = 15; night < 18; ++night) {
    add_night(store, night, 850, "470", "# why\nname: quickstart  \n\n");
  }
  REQUIRE(read_changes(store).changes.size() == 2);
  CHECK(read_changes(store).changes[0].state == ChangeState::open);
  for (int night = 18; night < 22; ++night) {
    add_night(store, night, 700, "470", "name: quickstart\npairs: 9\n");
  }
  const auto log = read_changes(store);
  REQUIRE(log.changes.size() == 2);
  CHECK(log.changes[0].state == ChangeState::superseded);
  CHECK_FALSE(is_alarm(log.changes[0]));
}

TEST_CASE(
    "a clock that jumps, two nights of one date and missing nights: nothing lost, nothing counted twice") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  const std::vector<std::string> dates{"2026-03-28T01:00:00Z", "2026-03-28T22:00:00Z", "1970-01-01T00:00:00Z",
                                       "2031-03-29T01:00:00Z", "2026-03-29T01:00:00Z", ""};
  for (int night = 0; night < 24; ++night) {
    add_night(store, night, 950, "470", "name: n\n", dates[static_cast<std::size_t>(night) % dates.size()]);
  }
  auto failed = a_trial("night-023", "one-vm", "vm", 2);
  failed.status = Status::failed;
  store.import_trial(failed);
  store.add_experiment(an_experiment("nothing-ran"));
  auto log = read_changes(store);
  const auto& ratio = series_named(log, "quickstart/one-vm/vm/ratio");
  REQUIRE(ratio.nights.size() == 24);
  for (std::size_t i = 0; i < ratio.nights.size(); ++i) {
    CHECK(ratio.nights[i]->experiment == fmt::format("night-{:03}", i));
  }
  CHECK(log.changes.empty());
  for (int night = 30; night < 33; ++night) {
    add_night(store, night, 850, "470", "name: n\n", "2001-01-01T00:00:00Z");
  }
  log = read_changes(store);
  REQUIRE(log.changes.size() == 2);
  CHECK(log.changes[0].first_night().experiment == "night-030");
}

TEST_CASE("figures of scaling, steps, boots and probes are series, and seconds are better when fewer") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  store.add_experiment(an_experiment("e"));
  add_finished(store, "e", "weak/1", "vm", 1, 100);
  const auto trial = add_finished(store, "e", "weak/2", "vm", 1, 180, 2);
  Tenant tenant;
  const auto tenant_id = store.save_tenant(trial, tenant);
  Node node;
  node.name = "t1n1";
  node.kind = "vm";
  node.agent_ready_seconds = 2.5;
  store.save_node(tenant_id, node);
  Rank rank;
  rank.step_p99_seconds = 0.25;
  store.save_rank(tenant_id, rank);
  Probe probe;
  probe.name = "triad";
  probe.arm = "vm";
  probe.value = 1e10;
  probe.unit = "B/s";
  store.add_probes("e", std::span(&probe, 1));
  const auto log = read_changes(store);
  CHECK(series_named(log, "quickstart/weak/2/vm/efficiency").values == std::vector<double>{0.9});
  CHECK(series_named(log, "quickstart/weak/2/vm/boot").values == std::vector<double>{2.5});
  const auto& p99 = series_named(log, "quickstart/weak/2/vm/step_p99");
  CHECK(p99.values == std::vector<double>{0.25});
  CHECK_FALSE(p99.higher_is_better());
  CHECK(series_named(log, "quickstart/vm/probe.triad").higher_is_better());
}

TEST_CASE("a mean over other sizes of messages is another series") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 18; ++night) {
    add_night(store, night, 950);
    std::vector<Probe> probes;
    for (const std::int64_t size : {1024, 8, 1 << 20}) {
      Probe probe{.name = "all_reduce", .arm = "vm", .size_bytes = size, .unit = "B/s"};
      probe.value = 1e6 * static_cast<double>(size) * (1 + 0.001 * (night % 5));
      if (size == 8 && night >= 13 && night < 15) { continue; }
      if (size == 8 && night >= 15) { probe.wrong = 1; }
      probes.push_back(probe);
    }
    store.add_probes(fmt::format("night-{:03}", night), probes);
  }
  const auto log = read_changes(store);
  CHECK(log.changes.empty());
  CHECK(series_named(log, "quickstart/vm/probe.all_reduce").nights.size() == 13);
  CHECK(series_named(log, "quickstart/vm/probe.all_reduce.1024+1048576").nights.size() == 5);
}

TEST_CASE("probes of other nodes, and in place and out of place, are series of their own") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  for (int night = 0; night < 18; ++night) {
    add_night(store, night, 950);
    std::vector<Probe> probes;
    for (const bool in_place : {false, true}) {
      // Until night 9 on two nodes, from there on on four, which are half as fast.
      Probe probe{.name = "all_reduce", .arm = "vm", .nodes = night < 9 ? 2 : 4, .ranks = 4, .unit = "B/s"};
      probe.value = (night < 9 ? 2e9 : 1e9) * (in_place ? 3 : 1) * (1 + 0.001 * (night % 5));
      probe.detail = {{"in_place", in_place}};
      probes.push_back(probe);
    }
    store.add_probes(fmt::format("night-{:03}", night), probes);
  }
  const auto log = read_changes(store);
  CHECK(log.changes.empty());
  for (const auto& [name, value] : {std::pair("", 6e9),
                                    {".2-nodes.out-of-place", 2e9},
                                    {".4-nodes.in-place", 3e9},
                                    {".4-nodes.out-of-place", 1e9}}) {
    const auto& series = series_named(log, std::string("quickstart/vm/probe.all_reduce.4") + name);
    CHECK(series.nights.size() == 9);
    CHECK(series.values.at(0) == Approx(value).epsilon(0.01));
  }
}

TEST_CASE("imported nights are series of their own beside those that ran here") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  const auto add = [&](int number, const std::string& host, double rate, const std::string& text,
                       bool imported = false) {
    auto night = an_experiment(fmt::format("night-{:03}", number));
    night.scenario_text = text;
    night.host_name = host;
    night.status = Status::finished;
    imported ? store.add_imported_experiment(night) : store.add_experiment(night);
    add_finished(store, night.id, "one-vm", "vm", 1, rate * (1 + 0.001 * (number % 5)));
  };
  for (int night = 0; night < 20; ++night) { add(night, "", 900, "name: quickstart\n"); }
  auto log = read_changes(store);
  REQUIRE(log.series.size() == 1);
  CHECK(log.series[0].name() == "quickstart/one-vm/vm/images_per_second");
  for (int night = 20; night < 30; ++night) { add(night, "ada", 500, "name: quickstart\n"); }
  add(30, "", 905, "name: quickstart\npairs: 9\n");
  add(31, "ada", 500, "name: quickstart\n");
  log = read_changes(store);
  CHECK(log.changes.empty());
  REQUIRE(log.series.size() == 3);
  CHECK(series_named(log, "quickstart/one-vm/vm/images_per_second").nights.size() == 11);
  CHECK(series_named(log, "quickstart/one-vm/vm/images_per_second").current);
  CHECK(series_named(log, "quickstart/one-vm/vm/images_per_second (imported)").nights.size() == 20);
  for (int night = 32; night < 36; ++night) { add(night, "ada", 900, "name: quickstart\n", true); }
  log = read_changes(store);
  CHECK(log.changes.empty());
  CHECK(series_named(log, "quickstart/one-vm/vm/images_per_second").nights.size() == 11);
}

TEST_CASE("each series says how noisy it is and what can be told, and one night what is missing") {
  const TemporaryFolder folder;
  Store store(folder.path / "r.db");
  add_night(store, 0, 950);
  CHECK_THAT(render(changes_table(read_changes(store)), Format::markdown),
             Contains("3 of these series have too few runs: the first change can be detected after 15 runs"));
  for (int night = 1; night < 20; ++night) { add_night(store, night, 950); }
  const auto log = read_changes(store);
  CHECK_THAT(render(changes_table(log), Format::markdown), Contains("smallest detectable loss 2."));
  const auto rows = nlohmann::json::parse(render(noise_table(log), Format::json));
  REQUIRE(rows.size() == 3);
  for (const auto& row : rows) {
    CHECK(row.at("nights") == 20);
    CHECK(row.at("nights_to_go") == 0);
    CHECK(row.at("sigma").get<double>() == Approx(0.003).margin(0.002));
    CHECK(row.at("least_loss_15_nights").get<double>() >= 0.02);
  }
}
