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

VIRTRAIN_ENUM_CLASS(Bus, pci, usb)

struct DescribedPort {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint16_t, number, 0, .text = "Number of the port");
  VIRTRAIN_FIELD(std::optional<std::string>, name, {}, .text = "Name", .most_bytes = 4);
};

struct DescribedCard {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::uint64_t, bytes, 0, .text = "Memory");
  VIRTRAIN_FIELD(Bus, bus, Bus::pci, .text = "Bus", .may_lack = true);
  VIRTRAIN_FIELD(std::vector<DescribedPort>, ports, {}, .text = "Ports", .most_items = 2);
  VIRTRAIN_FIELD(std::vector<std::int64_t>, lanes, {}, .text = "Lanes", .least = 1, .most = 16,
                 .may_lack = true);
  VIRTRAIN_FIELD(std::optional<std::string>, class_name, {}, .text = "Class", .name = "class");
};

std::string refusal_of_card(const json& object) {
  DescribedCard card;
  return read_record(object, card);
}

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

TEST_CASE("lists of records, enumerations and whole numbers of every width are written and read back") {
  const DescribedCard card{UINT64_MAX, Bus::usb, {{65'535, "eth0"}, {1, {}}}, {1, 16}, "nic"};
  const auto text = message_json(card).dump();
  CHECK(text == R"({"bus":"usb","bytes":18446744073709551615,"class":"nic","lanes":[1,16],)"
                R"("ports":[{"name":"eth0","number":65535},{"number":1}]})");
  DescribedCard read;
  CHECK(read_record(json::parse(text), read).empty());
  CHECK(message_json(read).dump() == text);
}

TEST_CASE("a number is never cut or rounded to fit, and a list or text has no more than its row says") {
  CHECK(refusal_of_card({{"bytes", 1}, {"ports", json::array()}}).empty());  // what may lack has its default
  for (const json& bad : {json(-1), json(1.0), json(18446744073709551616.0), json("1"), json(nullptr)}) {
    INFO(bad.dump());
    CHECK(refusal_of_card({{"bytes", bad}, {"ports", json::array()}}) == "'bytes' must be a whole number");
  }
  const auto ports = [](const json& list) { return refusal_of_card({{"bytes", 1}, {"ports", list}}); };
  const json port{{"number", 1}};
  CHECK(ports({port, port}).empty());
  CHECK(ports({port, port, port}) == "'ports' must be a list of at most 2, each an object");
  for (const json& bad : {json{{"number", 65'536}}, json{{"number", -1}},
                          json{{"number", 1}, {"name", "eth10"}}, json(7), json::object()}) {
    INFO(bad.dump());
    CHECK_FALSE(ports({port, bad}).empty());
  }
  CHECK_FALSE(ports(port).empty());
  const auto with = [](const char* name, const json& value) {
    return refusal_of_card({{"bytes", 1}, {"ports", json::array()}, {name, value}});
  };
  CHECK(with("bus", "isa") == "'bus' must be pci or usb");
  CHECK_FALSE(with("bus", 0).empty());
  CHECK(with("lanes", {16, 17}) == "'lanes' must be a list, each a whole number from 1 to 16");
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
