// Throughputs in other units than images/s: imported, compared among themselves and with nothing else, shown
// with their unit, and exported again.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "results/comparison/compare_json.h"
#include "results/comparison/mitigation.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "results/report/figures/figures.h"
#include "results/tables/isolation_table.h"
#include "results/tables/tables.h"
#include "tests/results/exchange/prometheus_page.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

std::string measured(const std::string& arm, int pair, const std::string& figure,
                     const std::string& case_name = "c", int nodes = 1) {
  return fmt::format(
      R"({{"record":"trial","experiment":"e","scenario":"s","case":"{}","arm":"{}","pair":{},"nodes":{},)"
      R"("gpus_per_node":0,"virtualization":"{}",{}}})"
      "\n",
      case_name, arm, pair, nodes, arm == "vm" ? "kvm" : "none", figure);
}

std::string tokens(double value) {
  return fmt::format(R"("throughput":{},"unit":"tokens/s")", value);
}

struct Measured {
  explicit Measured(const std::string& text) {
    std::istringstream in(text);
    import_jsonl(store, in, "data.jsonl");
  }
  std::string exported() const {
    std::ostringstream out;
    export_jsonl(store, {.experiments = {"e"}}, out);
    return out.str();
  }

  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
};

std::string pairs_in_tokens() {
  std::string text;
  for (int pair = 1; pair <= 4; ++pair) {
    text += measured("bare_metal", pair, tokens(2000 + pair)) + measured("vm", pair, tokens(1980 + pair));
  }
  return text;
}

std::string images(double value) {
  return fmt::format(R"("images_per_second":{})", value);
}

/// Figures of a job in either arm, and one reading.
std::string job_figures() {
  std::string text;
  const std::string tenant =
      R"(,"tenants":[{"tenant_index":0,"nodes":1,"name":"a","workload":{"batch_size":8},"throughput":2000.0,"unit":"tokens/s"}])";
  for (const auto* arm : {"bare_metal", "vm"}) { text += measured(arm, 1, tokens(2000) + tenant); }
  const auto add = [&](int trial, const std::string& more) {
    text += fmt::format(R"({{"record":"figure","experiment":"e","trial":{},"tenant":0,{}}})"
                        "\n",
                        trial, more);
  };
  add(1, R"("name":"mfu","unit":"%","value":40.0)");
  add(2, R"("name":"mfu","unit":"%","value":30.0)");
  add(2, R"("name":"mfu","unit":"%","value":31.0,"t_ns":5)");
  add(2, R"("name":"all_reduce","unit":"B/s","value":1e9,"rank":3,"settings":{"size_bytes":"1024"})");
  return text;
}

/// A victim alone and next to a neighbour at full level, in three rounds, with a cap and without. The shares
/// that it keeps are those of mitigation_test.cpp, scaled.
std::string isolation_in(const std::string& unit, int first_round) {
  const bool in_tokens = unit == "tokens/s";
  const double scale = in_tokens ? 1000 : 1;
  const auto figure = [&](double value) { return in_tokens ? tokens(scale * value) : images(scale * value); };
  std::string text;
  const double alone[] = {100, 200, 50};
  const double beside[] = {in_tokens ? 50.0 : 90.0, in_tokens ? 80.0 : 180.0, in_tokens ? 25.0 : 45.0};
  const double capped[] = {in_tokens ? 60.0 : 99.0, in_tokens ? 120.0 : 198.0, in_tokens ? 25.0 : 49.5};
  for (int i = 0; i < 3; ++i) {
    const auto add = [&](const std::string& arm, const std::string& like, double value, double rate) {
      const bool is_beside = rate > 0;
      const auto name = is_beside ? like + "+cpu@100%" : arm;
      auto line = measured(name, first_round + i, figure(value), "trainer");
      line.replace(
          line.rfind('}'), 1,
          fmt::format(R"(,"like":"{}"{},"tenants":[{{"tenant_index":0,"nodes":1,{}}}{}]}})", like,
                      is_beside ? R"(,"neighbour":"cpu","level":1)" : "", figure(value),
                      is_beside ? fmt::format(R"(,{{"tenant_index":1,"nodes":1,"workload":{{"stressors":)"
                                              R"([{{"kind":"cpu","rate":{},"busy":1}}]}}}})",
                                              rate)
                                : ""));
      text += line;
    };
    add("vm", "vm", alone[i], 0);
    add("vm", "vm", beside[i], in_tokens ? 1000 : 400);
    add("capped", "vm", alone[i], 0);
    add("capped", "capped", capped[i], in_tokens ? 500 : 300);
  }
  return text;
}

constexpr const char* isolation_plan =
    R"({"record":"experiment","experiment":"e","scenario":"s","plan":{"arms":[)"
    R"({"name":"vm","base":"vm","like":null,"changes":{}},)"
    R"({"name":"capped","base":"vm","like":"vm","changes":{"neighbour.limits.cpu":"25%"}}]}})"
    "\n";

std::string refusal_of_figure(const std::string& figure) {
  return error_of([&] { const Measured one(measured("vm", 1, figure)); }).what();
}

}  // namespace

TEST_CASE("throughputs in tokens/s are compared among themselves and shown with their unit") {
  const Measured one(pairs_in_tokens());
  const auto list = compare(one.store, {});
  REQUIRE(list.size() == 1);
  CHECK(list[0].n == 4);
  CHECK(list[0].test->ratio == Approx(0.99).epsilon(1e-3));
  CHECK(list[0].verdict == Verdict::equivalent);
  const auto json = to_json(list[0]).at("throughput").at("vm");
  CHECK(json.at("images_per_second").is_null());
  CHECK(json.at("throughput") == 1982.5);
  CHECK(json.at("unit") == "tokens/s");
  for (const auto& [words, figure] :
       {std::pair(render(list, Format::table), "1982.5 tokens/s"),
        std::pair(render(show_experiment(one.store, "e"), Format::table), "2001.0 tokens/s")}) {
    CHECK_THAT(words, Contains(figure) && !Contains("images/s"));
  }
  const SQLite::Database database(one.store.file());
  SQLite::Statement row(
      database,
      "SELECT t.images_per_second IS NULL, f.value, f.unit FROM v_trial t JOIN v_figure f ON f.trial_id "
      "= t.trial_id ORDER BY t.trial_id");
  REQUIRE(row.executeStep());
  CHECK(row.getColumn(0).getInt() == 1);
  CHECK(row.getColumn(1).getDouble() == 2001);
  CHECK(row.getColumn(2).getString() == "tokens/s");
  CHECK_THAT(prometheus(one.store, {"e"}), Contains("virtrain_trial_throughput{") &&
                                               Contains("unit=\"tokens/s\"") &&
                                               !Contains("virtrain_trial_images_per_second"));
}

TEST_CASE("figures of two units are not compared, and the words say which they are") {
  std::string text;
  for (int pair = 1; pair <= 3; ++pair) {
    text += measured("bare_metal", pair, fmt::format(R"("images_per_second":{})", 100 + pair));
    text += measured("vm", pair, tokens(99 + pair));
  }
  const Measured one(text);
  const auto list = compare(one.store, {});
  REQUIRE(list.size() == 2);
  for (const auto& comparison : list) {
    CHECK_FALSE(comparison.test);
    CHECK(comparison.verdict == Verdict::inconclusive);
  }
  CHECK_THAT(
      render(list, Format::table),
      Contains("no ratio: vm was measured in tokens/s, and this is in images/s (units are not compared)"));
}

TEST_CASE("sizes of a weak scaling are held against one node of the same unit") {
  std::string text;
  for (int pair = 1; pair <= 3; ++pair) {
    text += measured("vm", pair, tokens(100), "w/1", 1) + measured("vm", pair, tokens(190), "w/2", 2);
    text += measured("vm", pair + 10, R"("images_per_second":10)", "w/1", 1);
  }
  for (const auto& comparison : compare(Measured(text).store, {})) {
    for (const auto& arm : comparison.arms) {
      if (arm.nodes == 2) { CHECK(arm.scaling->speedup == Approx(1.9)); }
      if (arm.nodes == 1) { CHECK(arm.throughput == (arm.unit == "tokens/s" ? 100.0 : 10.0)); }
    }
  }
}

TEST_CASE("figures of nights are apart by unit") {
  const Measured one(pairs_in_tokens() + measured("bare_metal", 11, R"("images_per_second":100)") +
                     measured("vm", 11, R"("images_per_second":50)"));
  std::map<std::string, double> of_vm;
  for (const auto& figure : one.store.night_figures()) {
    if (figure.arm == "vm") { of_vm[figure.figure + " " + figure.unit] = figure.value; }
  }
  CHECK(of_vm.at("images_per_second images/s") == 50);
  CHECK(of_vm.at("throughput tokens/s") == 1982.5);
  CHECK(of_vm.at("ratio ") == Approx(0.5));
  CHECK(of_vm.at("ratio of tokens/s ") == Approx(0.99).epsilon(1e-3));
}

TEST_CASE("a unit goes through an export, and images/s are images/s whatever the key") {
  const Measured one(pairs_in_tokens());
  const auto bytes = one.exported();
  CHECK_THAT(bytes, Contains(R"("throughput":2001,"unit":"tokens/s")") && !Contains("images_per_second"));
  CHECK(Measured(bytes).exported() == bytes);
  const Measured images(measured("vm", 1, R"("throughput":5.5,"unit":"images/s")"));
  CHECK(in_images(images.store.trials("e").at(0).throughput) == 5.5);
  CHECK_THAT(images.exported(), Contains(R"("images_per_second":5.5)") && !Contains("unit"));
}

TEST_CASE("a throughput without its unit is refused, and so is one that cannot be") {
  CHECK_THAT(refusal_of_figure(R"("throughput":1)"),
             Contains("data.jsonl:1") && Contains("throughput has no unit"));
  CHECK_THAT(refusal_of_figure(R"("unit":"tokens/s")"), Contains("there is none"));
  CHECK_THAT(refusal_of_figure(R"("throughput":1,"unit":"tokens/s","images_per_second":1)"),
             Contains("both given"));
  CHECK_THAT(refusal_of_figure(R"("throughput":1,"unit":"tokens")"), Contains("unit is \"tokens\""));
  CHECK_THAT(refusal_of_figure(R"("throughput":1,"unit":"a b/s")"), Contains("unit is"));
  CHECK_THAT(refusal_of_figure(R"("throughput":0,"unit":"tokens/s")"), Contains("throughput is 0"));
  CHECK_THAT(refusal_of_figure(R"("throughput":1e300,"unit":"tokens/s")"), Contains("throughput is"));
}

TEST_CASE("a weak scaling in tokens/s has its prediction and its published speedup, both in its unit") {
  std::string text;
  for (const int nodes : {1, 2, 4}) {
    for (int pair = 1; pair <= 3; ++pair) {
      text += measured("vm", pair, tokens(1000.0 * nodes - 10 * (nodes - 1)), fmt::format("weak/{}", nodes),
                       nodes);
    }
    for (const char* figure : {R"("throughput":{},"unit":"tokens/s")", R"("images_per_second":{})"}) {
      const bool in_tokens = std::string(figure).starts_with("\"throughput");
      auto published =
          measured("vm", in_tokens ? 1 : 2, fmt::format(fmt::runtime(figure), in_tokens ? 100 * nodes : 50),
                   fmt::format("weak/{}", nodes), nodes);
      published.replace(published.find(R"("e")"), 3, R"("study","label":"published")");
      text += published;
    }
  }
  const Measured one(text);
  CompareRequest request;
  request.selection.experiments = {"e"};
  request.candidate = "vm";
  request.predict = {8};
  const auto list = compare(one.store, request);
  REQUIRE(list.size() == 3);
  const auto& arm = list[2].arms.at(0);
  REQUIRE(arm.published);
  CHECK(arm.published->speedup == 4);  // not of the means in images/s, nor of both together
  REQUIRE(arm.prediction);
  CHECK(arm.prediction->one_node == 1000);
  CHECK_FALSE(arm.prediction->step_seconds);  // the images of a step say nothing about tokens
  const auto words = render(list, Format::table);
  CHECK_THAT(words, Contains(" tokens/s, speedup ") && !Contains("images/s, speedup"));
}

TEST_CASE("what neighbours cost and what helps is known in tokens/s, and two units of one case stay apart") {
  const auto study_of = [](const std::string& text) { return isolation_study(Measured(text).store, {"e"}); };
  const auto in_tokens = study_of(isolation_plan + isolation_in("tokens/s", 1));
  REQUIRE(in_tokens.matrices.size() == 2);
  const auto text = render(in_tokens, Format::table);
  INFO(text);
  CHECK_THAT(text, Contains("tokens/s") && !Contains("images/s"));
  REQUIRE(in_tokens.mitigations.size() == 1);
  CHECK(in_tokens.mitigations[0].relief.value() == Approx(1.2164404).epsilon(1e-6));

  const auto both = study_of(isolation_plan + isolation_in("images/s", 1) + isolation_in("tokens/s", 101));
  std::map<std::string, std::vector<IsolationMatrix>> matrices;
  for (const auto& one : both.matrices) { matrices[one.unit].push_back(one); }
  REQUIRE(matrices.size() == 2);
  const auto& images_alone = matrices.at("images/s").at(0).cells;
  const auto& tokens_alone = matrices.at("tokens/s").at(0).cells;
  CHECK(images_alone.at(0).throughput.value() == Approx(350.0 / 3));
  CHECK(tokens_alone.at(0).throughput.value() == Approx(350'000.0 / 3));
  CHECK(images_alone.at(1).against_alone->loss == Approx(0.1));
  // 1 - (0.5 * 0.4 * 0.5)^(1/3)
  CHECK(tokens_alone.at(1).against_alone->loss == Approx(0.5358411).epsilon(1e-6));
  std::map<std::string, Mitigation> by_unit;
  for (const auto& one : both.mitigations) { by_unit[one.unit] = one; }
  REQUIRE(both.mitigations.size() == 2);
  CHECK(by_unit.at("images/s").relief.value() == Approx(1.1));
  CHECK(by_unit.at("images/s").cost_aggressor->loss == Approx(0.25));
  CHECK(by_unit.at("tokens/s").relief.value() == Approx(1.2164404).epsilon(1e-6));
  CHECK(by_unit.at("tokens/s").cost_aggressor->loss == Approx(0.5));
  const auto words = render(both, Format::table);
  INFO(words);
  CHECK_THAT(words, Contains("trainer in vm, in tokens/s: 3 rounds") && Contains("trainer in vm: 3 rounds"));
}

TEST_CASE("tenants stand beside their runs alone in their own unit") {
  const auto with_tenants = [](std::string line, const std::vector<std::string>& figures) {
    std::string list;
    for (std::size_t i = 0; i < figures.size(); ++i) {
      list += fmt::format(R"({}{{"tenant_index":{},"nodes":1,"name":"{}","workload":{{"steps":1}},{}}})",
                          i > 0 ? "," : "", i, i > 0 ? "b" : "a", figures[i]);
    }
    return line.replace(line.rfind('}'), 1, ",\"tenants\":[" + list + "]}");
  };
  std::string text;
  for (int pair = 1; pair <= 2; ++pair) {
    text += with_tenants(measured("vm", pair, tokens(1000), "alone"), {tokens(1000)});
    text += with_tenants(measured("vm", pair, tokens(1300), "both"), {tokens(800), tokens(500)});
    text += with_tenants(measured("vm", pair + 10, images(10), "alone"), {images(10)});
    text += with_tenants(measured("vm", pair + 10, images(14), "both"), {images(9), images(5)});
  }
  const Measured one(text);
  std::map<std::string, nlohmann::json> tenants;
  for (const auto& comparison : compare(one.store, {})) {
    if (comparison.case_name != "both") { continue; }
    tenants[comparison.throughput_unit] = to_json(comparison).at("tenants_vs_alone").at("vm").at("tenants");
  }
  const auto& of_images = tenants.at("images/s");
  CHECK(of_images.at(0).at("slowdown").get<double>() == Approx(10.0 / 9));
  CHECK(of_images.at(0).at("shared_images_per_second") == 9);
  CHECK_FALSE(of_images.at(0).contains("unit"));
  const auto& of_tokens = tenants.at("tokens/s");
  CHECK(of_tokens.at(0).at("slowdown").get<double>() == Approx(1.25));
  CHECK(of_tokens.at(1).at("slowdown").get<double>() == Approx(2));
  CHECK(of_tokens.at(1).at("alone_images_per_second").is_null());
  CHECK(of_tokens.at(1).at("alone_throughput") == 1000);
  CHECK(of_tokens.at(1).at("unit") == "tokens/s");
  // A tenant's figure goes through an export, in v_tenant and in Prometheus with its unit.
  CHECK(Measured(one.exported()).exported() == one.exported());
  CHECK_THAT(prometheus(one.store, {"e"}), Contains("virtrain_tenant_throughput{") && Contains("} 800\n"));
  CHECK_THAT(error_of([&] { Measured(with_tenants(measured("vm", 1, tokens(1)), {images(1)})); }).what(),
             Contains("in images/s, and its trial's in tokens/s"));
}

TEST_CASE("views hold sizes and pairs against each other in their unit") {
  std::string text;
  for (int pair = 1; pair <= 3; ++pair) {
    for (const int nodes : {1, 2}) {
      const auto name = fmt::format("w/{}", nodes);
      text += measured("vm", pair, tokens(nodes == 1 ? 100 : 190), name, nodes);
      text += measured("bare_metal", pair, tokens(nodes == 1 ? 125 : 200), name, nodes);
      text += measured("vm", pair + 10, images(nodes == 1 ? 10 : 15), name, nodes);
    }
  }
  const Measured one(text);
  const SQLite::Database database(one.store.file());
  const auto texts = [&](const std::string& sql) {
    SQLite::Statement query(database, sql);
    std::vector<std::string> rows;
    while (query.executeStep()) { rows.push_back(query.getColumn(0).getString()); }
    return rows;
  };
  CHECK(texts("SELECT coalesce(unit, 'none') || ' ' || speedup || ' ' || coalesce(images_per_second, "
              "throughput) FROM "
              "v_speedup WHERE arm = 'vm' AND nodes = 2 ORDER BY 1") ==
        std::vector<std::string>{"none 1.5 15.0", "tokens/s 1.9 190.0"});
  CHECK(texts("SELECT DISTINCT unit || ' ' || ratio || ' ' || (vm_images_per_second IS NULL) FROM "
              "v_vm_vs_bare_metal "
              "ORDER BY 1") == std::vector<std::string>{"tokens/s 0.8 1", "tokens/s 0.95 1"});
  CHECK_THAT(prometheus(one.store, {"e"}),
             Contains("virtrain_speedup_ratio{") && Contains("unit=\"tokens/s\"} 1.9\n"));
}

TEST_CASE("the course of a trial and the series of a case are drawn in their unit") {
  std::string text;
  for (int night = 1; night <= 40; ++night) {
    const auto named = fmt::format("n{}", night);
    auto line = measured("vm", 1, tokens((night < 25 ? 1000 : 500) + night % 3));
    line += measured("vm", 2, images(10));
    for (std::size_t at = 0; (at = line.find("\"e\"", at)) != std::string::npos;) {
      line.replace(at, 3, "\"" + named + "\"");
    }
    text += fmt::format(
        R"({{"record":"experiment","experiment":"{}","scenario":"s","started_at":"2026-{}-{:02}T00:00:00Z"}})"
        "\n",
        named, night > 28 ? 11 : 10, night > 28 ? night - 28 : night);
    text += line;
  }
  auto sampled = measured("vm", 1, tokens(1000));
  sampled.replace(sampled.rfind('}'), 1,
                  R"(,"tenants":[{"tenant_index":0,"nodes":1,"ranks":[{"rank":0}]}]})");
  text += sampled +
          R"({"record":"sample","experiment":"e","trial":1,"tenant":0,"rank":0,"t_ns":2000000000,"step":1,)"
          R"("images":2048,"seconds":2})"
          "\n";
  const Measured one(text);
  ReportRequest request;
  request.compare.selection.scenario = "s";
  const auto data = read_report_data(one.store, request);
  const ArmOrder order(data);
  const auto course = course_charts(data, order);
  REQUIRE(course.size() == 1);
  CHECK(course[0].title == "c, in tokens/s: throughput over time");
  CHECK_THAT(course[0].summary, Contains("tokens/s: VM, tenant 1: median 1024"));
  CHECK(course[0].data["lines"].at(0)["unit"] == "tokens/s");
  std::map<std::string, Chart> series;
  for (auto& chart : series_charts(data, order)) { series.emplace(chart.title, chart); }
  REQUIRE(series.size() == 2);
  const auto& of_tokens = series.at("c, in tokens/s: throughput from experiment to experiment");
  CHECK_THAT(of_tokens.summary, Contains("VM: -50.0 % (") && Contains("worse, since 2026-10-25, open"));
  CHECK(of_tokens.table.columns.at(2).head == "tokens/s");
  CHECK_THAT(of_tokens.data["points"].at(0)["tip"].get<std::string>(), Contains("1001.0 tokens/s"));
  CHECK_THAT(series.at("c: throughput from experiment to experiment").summary, Contains("No lasting change"));
}

TEST_CASE("formats without units have the trials in images/s, and say how many others there are") {
  std::string text;
  for (int pair = 1; pair <= 2; ++pair) {
    text += measured("vm", pair, tokens(1000)) + measured("bare_metal", pair, images(10));
  }
  const Measured one(text);
  std::ostringstream mlperf, superbench;
  export_mlperf(one.store, {"e"}, mlperf);
  export_superbench(one.store, {"e"}, superbench);
  for (const auto& out : {mlperf.str(), superbench.str()}) {
    INFO(out);
    CHECK_THAT(out, Contains("bare_metal") && !Contains("\"vm\"") && !Contains("e/vm") && !Contains("1000"));
  }
  CHECK(trials_in_other_units(one.store, {"e"}) == std::map<std::string, std::int64_t>{{"tokens/s", 2}});
}

TEST_CASE(
    "figures of jobs come and go in exchange records, and have their units in tables, views and metrics") {
  const Measured measured(job_figures());
  const auto exported = measured.exported();
  CHECK_THAT(exported,
             Contains(R"("name":"all_reduce","rank":3,"record":"figure","settings":{"size_bytes":"1024"})"));
  CHECK_THAT(exported, Contains(R"("t_ns":5)"));
  CHECK(Measured(exported).exported() == exported);

  const auto table = render(figures_table(measured.store, "e"), Format::markdown);
  CHECK_THAT(table, Contains("40 %") && Contains("30 %") && Contains("75.0 %") && Contains("1 GB/s") &&
                        Contains("rank 3") && Contains("size\\_bytes=1024"));
  CHECK_THAT(render(show_experiment(measured.store, "e"), Format::table),
             Contains("3 figures next to the throughput: virtrain show e --figures"));
  CHECK_THAT(prometheus(measured.store, {"e"}),
             Contains(R"(name="mfu",unit="%"} 40)") && Contains(R"(setting_size_bytes="1024"} 1e+09)"));
  const auto view = measured.store.view("v_figure", {"e"});
  const auto name = view.column("name");
  CHECK(std::ranges::count_if(view.rows, [&](const auto& row) { return row[name] == "mfu"; }) == 2);

  const auto refusal = [](const std::string& figure) {
    return error_of([&] { Measured bad(job_figures() + figure); }).what();
  };
  const std::string begin =
      R"({"record":"figure","experiment":"e","trial":1,"tenant":0,"name":"x","unit":"%",)";
  CHECK_THAT(refusal(begin + R"("value":"fast"})"), Contains("value is \"fast\", it must be a number"));
  CHECK_THAT(refusal(begin + R"("value":1,"rank":-1})"), Contains("rank is -1, it must be at least 0"));
  CHECK_THAT(refusal(begin + R"("value":1,"settings":"x"})"), Contains("settings is \"x\""));
  CHECK_THAT(
      refusal(R"({"record":"figure","experiment":"e","trial":9,"tenant":0,"name":"x","unit":"%","value":1})"),
      Contains("trial 9 of experiment e was not seen"));
}
