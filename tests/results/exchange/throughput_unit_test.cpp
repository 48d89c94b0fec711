// Throughputs in other units than images/s: imported, compared among themselves and with nothing else, shown
// with their unit, and exported again.

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <map>
#include <sstream>

#include "results/comparison/compare_json.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/read_comparison.h"
#include "results/tables/tables.h"
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
  CHECK_THAT(render(list, Format::table), Contains("1982.5 tokens/s"));
  CHECK_THAT(render(show_experiment(one.store, "e"), Format::table), Contains("2001.0 tokens/s"));
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
  CHECK(images.store.trials("e").at(0).images_per_second == 5.5);
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
