#include "results/report/page/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/contains.h"
#include "results/report/figures/figures.h"
#include "tests/results/support.h"

namespace virtrain::results {
namespace {

using virtrain::test::Contains;
using virtrain::test::StartsWith;

/// A database with one experiment of these ratios for each case, six pairs each unless told otherwise.
struct Study {
  TemporaryFolder folder;
  Store store{folder.path / "r.db"};

  explicit Study(const std::string& scenario = "quickstart") {
    auto experiment = an_experiment("e1");
    experiment.scenario = scenario;
    store.add_experiment(experiment);
  }

  void add_case(const std::string& name, double ratio, std::int64_t nodes = 1, int pairs = 6) {
    const double wobble[] = {1, 1.002, 0.999, 1.001, 0.998, 1};
    for (int pair = 0; pair < pairs; ++pair) {
      add_finished(store, "e1", name, "bare_metal", pair, 100.0 * static_cast<double>(nodes), nodes);
      add_finished(store, "e1", name, "vm", pair, 100 * ratio * wobble[pair] * static_cast<double>(nodes),
                   nodes);
    }
  }

  ReportData data() const { return read_report_data(store, {}); }
};

TEST_CASE("the verdict of one case is the headline") {
  Study study;
  study.add_case("one", 0.99);
  CHECK(headline(study.data())
            .starts_with("VM is equivalent to bare metal within 2 %: 1.00 % below bare metal"));
}

TEST_CASE("many cases make one headline, bad news first") {
  Study study;
  study.add_case("a", 0.99);
  study.add_case("b", 0.9);
  study.add_case("c", 1);
  CHECK(
      headline(study.data()) ==
      "VM against bare metal: slower by more than 2 % in 1 of 3 cases (10.0 % slower), equivalent within 2 % "
      "in 2 (0.0 to 1.0 % slower)");
  add_finished(study.store, "e1", "d", "bare_metal", 1, 100);
  CHECK_THAT(headline(study.data()), Contains("in 1 of 3 cases"));  // the case d has one arm alone
  auto failed = a_trial("e1", "d", "vm", 1);
  failed.status = Status::failed;
  study.store.import_trial(failed);
  CHECK_THAT(headline(study.data()),
             Contains("in 1 of 4 cases (10.0 % slower), without data in 1, equivalent within 2 % in 2"));
  auto data = study.data();
  data.comparisons.at(1).p_worse_holm = 0.2;
  CHECK_THAT(headline(data), Contains("without data in 1 of 4 cases, slower by more than 2 % before Holm's "
                                      "correction only in 1 (10.0 % slower)"));
}

TEST_CASE("equivalent cases on both sides say how far they are off, and failed trials are in the headline") {
  Study study;
  study.add_case("a", 0.988);
  study.add_case("b", 1.004);
  auto failed = a_trial("e1", "a", "vm", 7);
  failed.status = Status::failed;
  failed.virtualization = "";
  failed.failed_stage = "boot";
  failed.failure_reason = "no word from the agent";
  study.store.import_trial(failed);
  const auto data = study.data();
  CHECK(headline(data) ==
        "VM against bare metal: equivalent within 2 % in both cases (1.2 % slower to 0.4 % faster); 1 of 25 "
        "trials failed");
  const auto row = trials_model(data)["tables"][0]["rows"].back();
  CHECK(row["throughput"] == "failed");
  CHECK(row["virtual"] == "not known");
  CHECK(row["remark"] == "boot: no word from the agent");
}

TEST_CASE("verdicts are a table: a row a case, and one for all that have no data") {
  Study study;
  study.add_case("slow", 0.9);
  for (const char* name : {"lonely", "lone"}) { add_finished(study.store, "e1", name, "vm", 1, 80); }
  study.add_case("same", 0.99);
  const auto model = verdicts_model(study.data());
  CHECK(model["baseline_head"] == "Bare metal, images/s");
  CHECK(model["interval_head"] == "90 % interval");
  const auto& rows = model["rows"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["word"] == "worse");
  CHECK(rows[0]["difference"] == "−10.00 %");
  CHECK(rows[0]["interval"] == "−10.10 to −9.90 %");
  CHECK(rows[0]["baseline"] == "100");
  CHECK(rows[0]["candidate"] == "90");
  CHECK(rows[0]["compared"] == "6 pairs");
  CHECK(rows[0]["has_remark"] == false);
  CHECK(rows[1]["word"] == "equivalent");
  CHECK(rows[1]["difference"] == "−1.00 %");
  CHECK(rows[2]["measured"] == false);
  CHECK(rows[2]["cases"].size() == 2);
  CHECK(rows[2]["remark"] == "Nothing to compare: there is no finished, valid trial in the arm bare metal");
}

TEST_CASE("arms fifty times apart get a logarithmic axis that says so, and courses against their medians") {
  Study study;
  study.add_case("far", 0.02);
  auto charts = charts_of(study.data());
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].scales["x"] == "log");
  CHECK(charts[0].signals["axis_title"] == "throughput of VM ÷ bare metal, logarithmic axis");
  CHECK(charts[1].id == "throughput");
  CHECK(charts[1].scales["x"] == "log");
  CHECK(charts[1].signals["axis_title"] == "images/s, logarithmic axis");
  CHECK(charts[1].data["rows"].size() == 2);
  CHECK(charts[1].data["runs"].size() == 12);
  Study near;
  near.add_case("near", 0.99);
  charts = charts_of(near.data());
  CHECK(charts[1].scales.empty());
  CHECK(charts[1].signals["domain"][0] == 0);
}

TEST_CASE("predictions need two sizes and two trials of each, and go as far as their bound says something") {
  const auto predictions = [](std::initializer_list<std::int64_t> measured, nlohmann::json& absent,
                              std::int64_t once = 0) {
    Study study;
    for (const auto nodes : measured) { study.add_case("weak/" + std::to_string(nodes), 0.98, nodes); }
    if (once > 0) { study.add_case("weak/" + std::to_string(once), 0.98, once, 1); }
    ReportRequest request;
    request.compare.predict = {8, 1'000'000'000};
    return predictions_model(read_report_data(study.store, request), absent);
  };
  auto absent = nlohmann::json::array();
  CHECK(predictions({1, 2}, absent).empty());
  REQUIRE(absent.size() == 2);
  CHECK(absent[0]["words"] ==
        "predictions of weak, bare metal: two sizes beyond one node are needed, one was measured");
  absent.clear();
  const auto model = predictions({1, 2, 4}, absent);
  CHECK(absent.empty());
  REQUIRE(model.size() == 2);
  CHECK(model[1]["caption"] == "weak, VM");
  CHECK(model[1]["rows"].size() >= 4);
  CHECK(predictions({1, 2}, absent, 4).empty());
  REQUIRE(absent.size() == 2);
  CHECK(
      absent[1]["words"] ==
      "predictions of weak, VM: every measured size needs at least two valid trials; there is only one at 4 "
      "nodes");
}

TEST_CASE("an emulated machine gives no verdict, and the page says so") {
  Study study;
  for (int pair = 0; pair < 3; ++pair) {
    add_finished(study.store, "e1", "one", "bare_metal", pair, 50);
    auto trial = a_trial("e1", "one", "vm", pair);
    trial.status = Status::finished;
    trial.throughput = of_images(1.5 + 0.01 * pair);
    trial.virtualization = "tcg";
    study.store.import_trial(trial);
  }
  const auto data = study.data();
  CHECK(headline(data).find("emulated") != std::string::npos);
  const auto charts = charts_of(data);
  REQUIRE(charts.size() == 2);
  CHECK(charts[0].data["rows"][0]["interval"] == false);
  CHECK(charts[0].data["rows"][0]["words"].get<std::string>().find("emulated, not comparable") !=
        std::string::npos);
  CHECK(trials_model(data)["tables"][0]["rows"][1]["virtual"] == "emulated (TCG)");
}

TEST_CASE("the page has a table of what helps only where there are mitigations") {
  ReportData data;
  CHECK(page_model(data, {})["sections"].empty());
  Mitigation one;
  one.case_name = "trainer";
  one.arm = "vm-capped";
  one.like = "vm";
  one.changes = "neighbour.limits.cpu 25%";
  one.neighbour = "cpu@100%";
  one.verdict = Help::helps;
  one.cost_aggressor = ShareLost{0.5, Interval{0.45, 0.55}, 4};
  data.isolation.mitigations = {one};
  const auto table = page_model(data, {})["sections"].at(0)["tables"].at(0);
  CHECK(table["caption"] == "What helps how much");
  const auto text = table.dump();
  CHECK_THAT(text, Contains("vm-capped") && Contains("50 %"));
  CHECK_THAT(text, Contains("vm-capped is vm with neighbour.limits.cpu 25%"));
}

TEST_CASE("of victims next to neighbours the headline says how many disturb, and which most") {
  const auto cell = [](std::string neighbour, std::string aggressor, Isolated verdict, double loss) {
    Disturbance disturbance{verdict, "", loss, Interval{loss - 0.02, loss + 0.02}};
    NeighbourCell made;
    made.neighbour = std::move(neighbour);
    made.aggressor = std::move(aggressor);
    made.against_alone = disturbance;
    return made;
  };
  IsolationMatrix matrix;
  matrix.case_name = "trainer";
  matrix.cells = {NeighbourCell{"alone", ""}, cell("idle", "", Isolated::isolated, 0.01),
                  cell("cpu@25%", "cpu", Isolated::disturbed, 0.22),
                  cell("cpu@100%", "cpu", Isolated::disturbed, 0.48)};
  ReportData data;
  data.isolation.matrices = {matrix};
  CHECK(
      headline(data) ==
      "trainer next to neighbours: disturbed by 2 of 3, isolated from 1; most is lost next to cpu@100%: 48 % "
      "(46 to 50)");

  // Two arms are never summed, and a mitigation is in a note.
  auto vm = matrix, pinned = matrix;
  vm.arm = "vm", pinned.arm = "vm-pinned", data.isolation.matrices.back().arm = "bare_metal";
  vm.cells = {cell("cpu@100%", "cpu", Isolated::disturbed, 0.6)};
  data.isolation.matrices.insert(data.isolation.matrices.begin(), {pinned, vm});  // the order is random
  Mitigation helps{.case_name = "trainer", .arm = "vm-pinned", .like = "vm", .neighbour = "cpu@100%"};
  helps.verdict = Help::helps, helps.relief = 2;
  helps.with = Disturbance{Isolated::isolated, "", 0.04, Interval{0.02, 0.06}};
  helps.without = vm.cells.front().against_alone;
  data.isolation.mitigations = {helps};
  CHECK(headline(data) ==
        "trainer next to neighbours: VM loses up to 60 % (58 to 62), bare metal up to 48 % (46 to 50)");
  const auto page = page_model(data, charts_of(data));
  std::vector<std::string> notes;
  for (const auto& note : page["notes"]) { notes.push_back(note["sentence"]); }
  CHECK(contains(notes, std::string("VM, pinned helps trainer most: next to cpu@100% it loses 4 % (2 to 6), "
                                    "without 60 % (58 to 62).")));
  CHECK(contains(notes, std::string("trainer, bare metal: disturbed by 2 of 3, isolated from 1.")));
  CHECK(contains(notes, std::string("trainer, VM: disturbed by 1 of 1.")));
  REQUIRE(page["sections"].size() == 2);
  CHECK(page["sections"][0]["id"] == "neighbours");
  CHECK(page["sections"][1]["id"] == "mitigations");
  const auto chart = neighbour_charts(data).at(0);
  REQUIRE(chart.data["columns"].size() == 3);  // side by side
  CHECK(chart.data["columns"][0]["words"] == "VM");
  CHECK(chart.data["columns"][2]["words"] == "VM, pinned");
  CHECK(chart.data["rows"].size() == 3);
  CHECK(chart.data["cells"].size() == 7);
  CHECK(chart.data["cells"][3]["words"] == "48 %");
  CHECK(chart.data["cells"][3]["interval"] == "46 to 50");

  data.isolation.mitigations.front().arm = "bare_metal-capped";
  CHECK_THAT(page_model(data, {})["notes"].dump(), Contains("\"Bare metal, capped helps trainer most"));
}

TEST_CASE("arms beside neighbours are in the matrix alone, and their facts are those of the arm") {
  Study study;
  for (int pair = 0; pair < 3; ++pair) {
    for (const std::string arm : {"bare_metal", "vm", "vm+idle", "vm+cpu@100%"}) {
      auto trial = a_trial("e1", "trainer", arm, pair);
      trial.status = Status::finished;
      trial.throughput = of_images(arm == "vm+cpu@100%" ? 50 : 100 + 0.1 * pair);
      if (arm.starts_with("vm+")) {
        trial.arm_key = {"vm", arm == "vm+idle" ? "idle" : "cpu", std::nullopt};
        if (arm != "vm+idle") { trial.arm_key.level = 1; }
      }
      const auto id = study.store.import_trial(trial);
      Node node{.name = "n", .kind = "vm"};
      node.fingerprint = {{"driver", arm == "vm+idle" ? "551" : "550"}};
      study.store.save_node(study.store.save_tenant(id, {}), node);
    }
  }
  const auto data = study.data();
  CHECK(data.facts.size() == 2);
  CHECK(data.facts.at("vm").at("driver") == std::set<std::string>{"550", "551"});
  const auto charts = charts_of(data);
  const auto throughput = std::ranges::find(charts, "throughput", &Chart::id);
  REQUIRE(throughput != charts.end());
  REQUIRE(throughput->key.size() == 2);
  const auto page = page_model(data, charts);
  CHECK(page["verdicts"] == false);
  CHECK(page["sections"][0]["id"] == "neighbours");
  CHECK(page["sections"][1]["verdicts"]["rows"].size() == 1);
  CHECK(page["notes"][0]["sentence"].get<std::string>().find("+") == std::string::npos);
}

TEST_CASE("a ratio far off stands at the edge and does not squeeze the others") {
  Study study;
  study.add_case("near", 0.99);
  add_finished(study.store, "e1", "far", "bare_metal", 1, 50);
  auto trial = a_trial("e1", "far", "vm", 1);
  trial.status = Status::finished;
  trial.throughput = of_images(1.5);
  trial.virtualization = "tcg";
  study.store.import_trial(trial);
  const auto charts = charts_of(study.data());
  const auto& chart = charts.at(0);
  CHECK(chart.signals["domain"][0] > 0.9);
  CHECK(chart.data["rows"][1]["off"] == -1);
  CHECK(chart.data["rows"][1]["shown"] == chart.signals["domain"][0]);
  CHECK(chart.data["rows"][1]["ratio"].get<double>() == Approx(0.03));
}

TEST_CASE("every trial has its row, in tables of bounded length") {
  Study study;
  for (int c = 0; c < 40; ++c) { study.add_case("case-" + std::to_string(c), 1); }
  const auto model = trials_model(study.data());
  CHECK(model["count"] == 480);
  std::size_t rows = 0;
  for (const auto& table : model["tables"]) {
    CHECK(table["rows"].size() <= 200);
    rows += table["rows"].size();
  }
  CHECK(rows == 480);
}

TEST_CASE("every chart has words and a table for those who cannot see it") {
  Study study;
  study.add_case("weak-scaling/1", 0.99);
  study.add_case("weak-scaling/2", 0.98, 2);
  const auto charts = charts_of(study.data());
  REQUIRE(charts.size() == 3);
  for (const auto& chart : charts) {
    CAPTURE(chart.id);
    CHECK(!chart.title.empty());
    CHECK(chart.summary.size() > 20);
    CHECK(!chart.table.rows.empty());
    CHECK(!chart.key.empty());
  }
  CHECK(charts[2].data["steps"].size() == 4);
}

TEST_CASE("where most cases are sizes of a scaling, the report begins with it") {
  Study study;
  study.add_case("weak-scaling/1", 0.99);
  study.add_case("weak-scaling/2", 0.98, 2);
  const auto first_section = [&] {
    const auto data = study.data();
    return page_model(data, charts_of(data))["sections"][0]["id"].get<std::string>();
  };
  CHECK(first_section() == "speedup");
  for (const auto* name : {"one", "two", "three"}) { study.add_case(name, 1); }
  CHECK(first_section() == "ratios");
}

TEST_CASE("a sweep is a curve of each arm's means, and its best points are filled") {
  Study study;
  study.add_case("lonely@vcpus=2", 1);
  for (const auto& [batch, ratio] : {std::pair("16", 0.9), {"32", 1.0}, {"64", 0.995}}) {
    study.add_case(std::string("one@batch_size=") + batch, ratio);
  }
  const auto data = study.data();
  const auto charts = sweep_charts(data, ArmOrder(data));
  REQUIRE(charts.size() == 1);  // of one point there is no curve
  const auto& chart = charts[0];
  CHECK(chart.title == "one: throughput over its sweep");
  CHECK(chart.signals["keys"] == "batch_size");
  CHECK(chart.table.rows.size() == 6);
  std::vector<std::string> seen;
  for (const auto& point : chart.data["points"]) {
    if (point["tip"].get<std::string>().find("VM") == std::string::npos) { continue; }
    seen.push_back(fmt::format("{} {:.1f} {}", point["at"].get<std::string>(), point["value"].get<double>(),
                               point["good"].get<bool>()));
  }
  CHECK(seen == std::vector<std::string>{"16 90.0 false", "32 100.0 true", "64 99.5 true"});
  CHECK(chart.signals["values"][0].get<double>() < 90);
}

namespace {

/// Nights of which the VM is 8 % slower from the 24th on, by another scenario's text if `edited`.
ReportData nights_with_a_loss(int nights, bool edited = false) {
  Study study;
  for (int night = 0; night < nights; ++night) {
    const std::string id = "n" + std::to_string(100 + night);
    auto experiment = an_experiment(id);
    experiment.scenario_text = edited && night >= 24 ? "batch_size: 2" : "batch_size: 4";
    experiment.started_at = "2026-" + std::string(night < 28 ? "02" : "03") + "-" +
                            (night % 28 + 1 < 10 ? "0" : "") + std::to_string(night % 28 + 1) + "T02:00:00Z";
    study.store.add_experiment(experiment);
    const double wobble[] = {3, -5, 8, -2, 0, 6, -7, 4, -1, 2};
    add_finished(study.store, id, "one", "vm", 1, (night < 24 ? 1000 : 920) + wobble[night % 10]);
    add_finished(study.store, id, "one", "bare_metal", 1, 1000 + wobble[(night + 3) % 10]);
  }
  ReportRequest request;
  request.compare.selection.scenario = "quickstart";
  return read_report_data(study.store, request);
}

}  // namespace

TEST_CASE("forty nights with a loss show it where it is, as virtrain changes does") {
  const auto data = nights_with_a_loss(40);
  const auto charts = series_charts(data, ArmOrder(data));
  REQUIRE(charts.size() == 1);
  CHECK(charts[0].data["points"].size() == 80);
  REQUIRE(charts[0].data["changes"].size() == 1);
  CHECK(charts[0].data["changes"][0]["at"] == "2026-02-25T02:00:00Z");
  REQUIRE(data.changes.size() == 1);
  const auto& changes = data.changes[0]->changes;
  const auto change = std::ranges::find_if(
      changes, [](const Change& one) { return one.series->figure == "images_per_second"; });
  REQUIRE(change != changes.end());
  const auto percent = change_percent(change->level.ratio);
  REQUIRE(changes.size() == 2);  // the ratio fell, too
  CHECK(charts[0].data["changes"][0]["words"] == "VM " + percent);
  CHECK_THAT(charts[0].summary,
             Contains("VM: " + percent + " (") && Contains("worse, since 2026-02-25, open"));
  // One event, and nothing of verdicts over nights before and after it.
  CHECK_THAT(headline(data), StartsWith("-8.") && Contains(" % since 2026-02-25 in 2 series") &&
                                 !Contains("equivalent") && !Contains("bare metal"));

  const auto edited = nights_with_a_loss(40, true);
  CHECK_THAT(series_charts(edited, ArmOrder(edited)).at(0).summary, Contains("No lasting change"));
  CHECK_THAT(headline(edited), StartsWith("VM"));
  const auto unconfirmed = nights_with_a_loss(26);
  CHECK_THAT(series_charts(unconfirmed, ArmOrder(unconfirmed)).at(0).summary, !Contains("open"));
  CHECK_THAT(headline(unconfirmed), !Contains("losses"));
}

TEST_CASE("the page has a table of causes for a gap") {
  Study study;
  study.add_case("one", 0.9);
  auto data = study.data();
  CHECK(reasons_model(data) == false);
  auto& one = data.comparisons.at(0);
  one.explanation =
      explain(one.test->ratio, {}, {{{"rate.cpu_user_seconds", 0.9}, {"rate.cpu_steal_seconds", 0.1}}});
  const auto table = reasons_model(data).at("tables").at(0);
  CHECK_THAT(table["caption"].get<std::string>(), StartsWith("one: VM is 10.0 % slower than bare metal"));
  CHECK(table["rows"][0]["cells"][0]["text"] == "steal");
  CHECK_THAT(page_model(data, {}).dump(), Contains("Try next: leave a core free"));
}

TEST_CASE("sections without data are named") {
  Study study;
  study.add_case("one", 1);
  const auto data = study.data();
  const auto model = page_model(data, charts_of(data));
  CHECK(model["sections"].size() == 2);
  CHECK(model["absent"].size() == 6);
}

TEST_CASE(
    "bandwidth is drawn against size where three sizes were probed, every other probe is in the table") {
  Study study;
  study.add_case("one", 0.99);
  std::vector<Probe> probes;
  for (const std::string arm : {"bare_metal", "vm"}) {
    for (const std::int64_t size : {1024, 4096, 16384}) {
      for (const double wobble : {0.9, 1.0, 1.1}) {
        Probe probe{.name = "all_reduce", .arm = arm, .data_type = "float"};
        probe.size_bytes = size;
        probe.ranks = 2;
        probe.value = (arm == "vm" ? 1e9 : 2e9) * wobble;
        probe.unit = "B/s";
        probes.push_back(probe);
      }
    }
    Probe probe{.name = "gemm", .arm = arm};
    probe.value = 1e12;
    probe.unit = "FLOP/s";
    probes.push_back(probe);
  }
  study.store.add_probes("e1", probes);
  const auto data = study.data();
  const auto charts = probe_charts(data, ArmOrder(data));
  REQUIRE(charts.size() == 1);
  const auto page = page_model(data, charts_of(data));
  const auto bandwidth = [](const auto& model) {
    for (const auto& section : model["sections"]) {
      if (section["id"] == "bandwidth") { return section; }
    }
    return nlohmann::json();
  };
  CHECK(bandwidth(page)["section_note"] == "");
  CHECK(charts[0].title == "all reduce, float, 2 ranks: bandwidth against size");
  CHECK(charts[0].summary.starts_with("At 16KiB: bare metal 2 GB/s, VM 1 GB/s."));
  REQUIRE(charts[0].data["points"].size() == 6);
  CHECK(charts[0].data["points"][1]["value"] == 1.0);
  CHECK(charts[0].data["points"][1]["low"] == 0.9);
  const auto model = probes_model(data);
  REQUIRE(model.size() == 1);
  CHECK(model[0]["rows"].size() == 8);
  // Of many operations the first ones are drawn, and the section says so.
  const auto all_reduce = probes.front();
  for (int ranks = 3; ranks < 15; ++ranks) {
    for (const std::int64_t size : {1024, 4096, 16384}) {
      probes.push_back(all_reduce);
      probes.back().ranks = ranks;
      probes.back().size_bytes = size;
    }
  }
  study.store.add_probes("e1", probes);
  const auto many = study.data();
  const auto drawn = bandwidth(page_model(many, charts_of(many)));
  CHECK(drawn["figures"].size() == 8);
  CHECK(drawn["section_note"] == "Drawn are at most 8 operations; virtrain show --probes has the others.");
}

TEST_CASE("differences come with what they mean") {
  Study study;
  for (const std::string arm : {"bare_metal", "vm"}) {
    const auto trial = add_finished(study.store, "e1", "one", arm, 1, 100);
    const auto tenant = study.store.save_tenant(trial, {});
    Node node{.name = "n", .kind = "slice"};
    node.fingerprint = {{"kernel", arm == "vm" ? "6.1" : "6.2"}, {"driver", "550"}};
    study.store.save_node(tenant, node);
  }
  const auto model = environment_model(study.data());
  REQUIRE(model["tables"].size() == 1);
  const auto row = model["tables"][0]["rows"][0]["cells"];
  CHECK(row[0]["text"] == "kernel");
  CHECK(row[1]["text"] == "6.2");
  CHECK(row[2]["text"] == "6.1");
  CHECK(row[3]["text"].get<std::string>().starts_with("must be equal: forbids a verdict"));
  bool driver = false;
  for (const auto& fact : model["facts"]["rows"]) {
    driver = driver || (fact["cells"][0]["text"] == "driver" && fact["cells"][2]["text"] == "everywhere");
  }
  CHECK(driver);

  auto data = study.data();
  auto variant = data.comparisons.at(0);
  variant.baseline = "vm", variant.candidate = "vm-small";
  variant.differences.at(0).baseline = {"6.1"}, variant.differences.at(0).candidate = {"5.10"};
  data.comparisons.push_back(variant);
  const auto table = environment_model(data)["tables"][0];
  CHECK(table["columns"][1]["head"] == "Baseline");
  CHECK(table["rows"][0]["cells"][4]["text"] == "VM against bare metal: the case");
  CHECK(table["rows"][1]["cells"][4]["text"] == "VM, small against VM: the case");
}

}  // namespace
}  // namespace virtrain::results
