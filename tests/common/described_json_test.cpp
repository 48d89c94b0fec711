#include "common/text/described_json.h"

#include <limits>

#include "common/model/workload.h"
#include "tests/support/catch.h"

using namespace virtrain;
using nlohmann::json;

namespace {

struct DescribedNode {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, vcpus, 1, .text = "Cores", .key = "vcpus", .least = 1, .most = 8);
  VIRTRAIN_FIELD(std::optional<double>, share, {}, .text = "Share of them", .positive = true);
  VIRTRAIN_FIELD(std::optional<std::string>, model, {}, .text = "Model", .lenient = true);
  VIRTRAIN_FIELD(std::string, name, "n1", .text = "Name");
};

std::string refusal_of(const json& object) {
  DescribedNode node;
  return read_record(object, node);
}

}  // namespace

TEST_CASE("a record is read by its description, and refused in words") {
  DescribedNode node;
  CHECK(
      read_record({{"vcpus", 8}, {"share", 0.5}, {"model", 7}, {"name", "a"}, {"unknown", 1}}, node).empty());
  CHECK(node.vcpus == 8);
  CHECK(node.share == 0.5);
  CHECK_FALSE(node.model);  // lenient: a value of another type counts as absent
  CHECK(node.name == "a");
  CHECK(refusal_of({{"vcpus", 1}, {"share", nullptr}, {"name", "a"}}).empty());
  CHECK(refusal_of({{"vcpus", 1}, {"share", 1e308}, {"name", "a"}}).empty());  // no bound is named
  CHECK(refusal_of({{"name", "a"}}) == "'vcpus' must be a whole number from 1 to 8");
  for (const json& bad : {json(0), json(9), json("1"), json(1.0), json(UINT64_MAX), json(nullptr)}) {
    INFO(bad.dump());
    CHECK_FALSE(refusal_of({{"vcpus", bad}, {"name", "a"}}).empty());
  }
  for (const json& bad : {json(0), json(-0.5), json("1"), json(std::numeric_limits<double>::infinity())}) {
    INFO(bad.dump());
    CHECK(refusal_of({{"vcpus", 1}, {"name", "a"}, {"share", bad}}) ==
          "'share' must be a positive finite number");
  }
  CHECK(refusal_of({{"vcpus", 1}, {"name", 5}}) == "'name' must be text");
  CHECK_FALSE(refusal_of(json::array()).empty());
}

TEST_CASE(
    "a record's JSON has every field, its settings those that a scenario "
    "may say") {
  CHECK(record_json(DescribedNode()) ==
        json{{"vcpus", 1}, {"share", nullptr}, {"model", nullptr}, {"name", "n1"}});
  CHECK(settings_json(DescribedNode()) == json{{"vcpus", 1}});
}

TEST_CASE("every row of the workload says what its readers need") {
  for_each_field<Workload>([](const auto& field) {
    INFO(field.name);
    using Value = std::remove_cvref_t<decltype(std::declval<Workload>().*field.member)>;
    CHECK(std::string(field.is.text).size() > 5);
    CHECK((field.is.key != nullptr || field.is.flag != nullptr));
    CHECK(field.is.guard.has_value() == (field.is.why != nullptr));
    CHECK((is_optional<Value> || std::is_same_v<Value, Variables>) == (field.is.absent != nullptr));
    if constexpr (std::is_arithmetic_v<Value>) {
      CHECK(field.is.least > INT64_MIN);
      CHECK(field.is.most < INT64_MAX);
    }
  });
}
