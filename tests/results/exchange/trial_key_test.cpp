// What tells trials apart, through import, comparison and export: fields, and never a name that is taken
// apart.

#include <fmt/format.h>

#include <sstream>

#include "results/comparison/isolation_matrix.h"
#include "results/exchange/exchange.h"
#include "results/exchange/exporters/exporters.h"
#include "results/reading/reading.h"
#include "tests/results/support.h"

using namespace virtrain;
using namespace virtrain::results;
using virtrain::test::Contains;

namespace {

std::string keyed_record(const std::string& case_name, const std::string& arm, int pair, int nodes,
                         double value, const std::string& more = "") {
  return fmt::format(
      R"({{"record":"trial","experiment":"e","scenario":"s","case":"{}","arm":"{}","pair":{},"nodes":{},)"
      R"("gpus_per_node":0,"virtualization":"none","images_per_second":{}{}}})"
      "\n",
      case_name, arm, pair, nodes, value, more);
}

void import_keyed(Store& store, const std::string& text) {
  std::istringstream in(text);
  import_jsonl(store, in, "data.jsonl");
}

std::string exported_bytes(const Store& store) {
  std::ostringstream out;
  export_jsonl(store, {.experiments = {"e"}}, out);
  return out.str();
}

struct KeyedImport {
  explicit KeyedImport(const std::string& text) { import_keyed(store, text); }
  Trial first() const { return store.trials("e").at(0); }

  TemporaryFolder folder;
  Store store{folder.path / "results.db"};
};

std::string refusal_of_keyed(const std::string& text) {
  return error_of([&] { const KeyedImport imported(text); }).what();
}

}  // namespace

TEST_CASE("a case that somebody calls a/2@x+y is a case, and stays one through an export") {
  std::string text;
  for (int pair = 1; pair <= 3; ++pair) {
    text += keyed_record("a/2@x+y", "bare_metal", pair, 1, 100 + pair);
    text += keyed_record("a/2@x+y", "vm+b@c", pair, 1, 98 + pair);
  }
  const KeyedImport imported(text);
  CHECK(imported.first().case_key == CaseKey());
  const auto list = compare(imported.store, {.candidate = "vm+b@c"});
  REQUIRE(list.size() == 1);
  CHECK(list[0].case_name == "a/2@x+y");
  CHECK(list[0].n == 3);
  CHECK_FALSE(list[0].arms.at(0).scaling);
  CHECK_FALSE(list[0].arms.at(0).sweep);
  CHECK(isolation_matrices(imported.store.comparison_data({"e"}, {})).empty());
  const auto bytes = exported_bytes(imported.store);
  CHECK_THAT(bytes, Contains(R"("case":"a/2@x+y")") && !Contains("point"));
  CHECK(exported_bytes(KeyedImport(bytes).store) == bytes);
}

TEST_CASE("a point, a size and a neighbour are fields, whose order is the name's") {
  const auto key = R"(,"point":{"batch_size":32,"vcpus":"2"},"like":"vm","neighbour":"cpu","level":0.25)";
  const KeyedImport imported(keyed_record("weak@vcpus=2,batch_size=32/4", "vm+cpu@25%", 1, 4, 100, key));
  const auto trial = imported.first();
  CHECK(trial.case_key == CaseKey{"weak", 4, {{{"vcpus", "2"}, {"batch_size", "32"}}}});
  CHECK(trial.arm_key == ArmKey{"vm", "cpu", 0.25});
  const auto bytes = exported_bytes(imported.store);
  CHECK_THAT(bytes, Contains(R"("level":0.25,"like":"vm","neighbour":"cpu")") &&
                        Contains(R"("point":{"batch_size":"32","vcpus":"2"})"));
  const KeyedImport again(bytes);
  CHECK(again.first().case_key == trial.case_key);
  CHECK(exported_bytes(again.store) == bytes);
}

TEST_CASE("names without their parts get them") {
  const auto key = R"(,"scale":4,"point":{"batch_size":32},"neighbour":"idle")";
  const auto trial = KeyedImport(keyed_record("weak", "vm", 1, 4, 100, key)).first();
  CHECK(trial.case_name == "weak@batch_size=32/4");
  CHECK(trial.arm == "vm+idle");
  CHECK(trial.case_key.family == "weak");
  CHECK(trial.arm_key.like == "vm");
}

TEST_CASE("a name that contradicts its fields is refused, and so is a key that cannot be") {
  CHECK_THAT(refusal_of_keyed(keyed_record("weak/2", "vm", 1, 4, 1, R"(,"family":"weak","scale":4)")),
             Contains("data.jsonl:1") && Contains("case is weak/2") && Contains("say weak/4"));
  CHECK_THAT(refusal_of_keyed(keyed_record("weak/2", "vm", 1, 4, 1, R"(,"scale":2)")),
             Contains("scale is 2 and nodes is 4"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "capped", 1, 1, 1, R"(,"like":"vm","neighbour":"idle")")),
             Contains("arm is capped") && Contains("say vm+idle"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "vm", 1, 1, 1, R"(,"neighbour":"cpu")")),
             Contains("has no level"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "vm", 1, 1, 1, R"(,"level":0.5)")),
             Contains("level is of an aggressor"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "vm", 1, 1, 1, R"(,"neighbour":"cpu","level":2)")),
             Contains("level is 2"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "vm", 1, 1, 1, R"(,"point":{"a":[1]})")),
             Contains("point is"));
  CHECK_THAT(refusal_of_keyed(keyed_record("c", "vm", 1, 1, 1, R"(,"point":"a=1")")), Contains("point is"));
}

TEST_CASE("a record without these fields is read as one of virtrain 0.2.0, whose names said it") {
  const auto trial = KeyedImport(keyed_record("weak@batch_size=32/2", "vm+h2d+d2h@12.5%", 1, 2, 100)).first();
  CHECK(trial.case_key == CaseKey{"weak", 2, {{{"batch_size", "32"}}}});
  CHECK(trial.arm_key == ArmKey{"vm", "h2d+d2h", 0.125});
  for (const char* name : {"a@b", "@a=1", "a@=1", "a@a=1,=2", "a@a=1,b", "a@", "weak/4", "a@b=1\\\"2"}) {
    CAPTURE(name);
    CHECK(KeyedImport(keyed_record(name, "vm+", 1, 2, 1)).first().case_key == CaseKey());
  }
  for (const char* name : {"+idle", "vm+cpu", "vm+cpu@", "vm+@5%", "vm+cpu@x%", "vm+cpu@0%", "vm+cpu@101%"}) {
    CAPTURE(name);
    CHECK(KeyedImport(keyed_record("c", name, 1, 1, 1)).first().arm_key == ArmKey());
  }
}
