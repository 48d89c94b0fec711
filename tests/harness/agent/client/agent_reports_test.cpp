#include "harness/agent/client/agent_reports.h"

#include "common/error.h"
#include "harness/agent/machine_report.h"
#include "harness/agent/messages.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using nlohmann::json;
using virtrain::test::Contains;

namespace {

template <typename Check>
std::string refusal(Check check) {
  try {
    check();
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::protocol);
    return error.message();
  }
  return "(accepted)";
}

std::string refused_facts(const json& facts) {
  return refusal([&] { checked_facts(facts); });
}

std::string refused_readings(const json& values) {
  return refusal([&] { checked_readings(values); });
}

json many(std::size_t count) {
  json object = json::object();
  for (std::size_t i = 0; i < count; ++i) { object["m" + std::to_string(i)] = 1; }
  return object;
}

Frame exit_with(std::int64_t status) {
  return message::frame_of(message::Exit{status, 1});
}

}  // namespace

TEST_CASE("what the agent says of this machine is accepted as it is") {
  const auto facts = read_node_facts();
  const auto report = checked_facts(facts);
  CHECK(report.facts.size() == facts.size());
  for (const auto& [name, value] : facts.items()) {
    CHECK(report.facts.at(name) == (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  CHECK(report.boot_id == facts["boot_id"]);
  CHECK(report.memory_limit_bytes == facts["memory_limit_bytes"].get<std::int64_t>());
  CHECK(checked_readings(read_telemetry("/", {})).at("memory_total_bytes") > 0);
}

TEST_CASE("row 5: facts that no reader could take are refused on receipt") {
  CHECK_THAT(refused_facts(5), Contains("not an object"));
  CHECK_THAT(refused_facts(many(65)), Contains("65 of them, at most 64"));
  CHECK_THAT(refused_facts({{"", "x"}}), Contains("'' is not a name"));
  CHECK_THAT(refused_facts({{"a b\x1b[2J", "x"}}), Contains("'a b\uFFFD[2J' is not a name"));
  CHECK_THAT(refused_facts({{std::string(65, 'n'), "x"}}), Contains("is not a name"));
  for (const json& value :
       {json(nullptr), json(true), json(-1), json::array(), json{{"a", 1}}, json(std::string(16385, 'x'))}) {
    INFO(value.dump());
    CHECK_THAT(refused_facts({{"fact", value}}), Contains("'fact' is neither a short text nor a number"));
  }
  for (const char* name : {"hostname", "kernel", "boot_id", "cpus"}) {
    CHECK_THAT(refused_facts({{name, 5}}), Contains(std::string("'") + name + "' must be text"));
  }
  CHECK(checked_facts({{"kernel", "6.1\x1b[2J"}}).kernel == "6.1\uFFFD[2J");
}

TEST_CASE("row 5: telemetry that the database would refuse is refused on receipt") {
  CHECK_THAT(refused_readings("x"), Contains("not an object"));
  CHECK_THAT(refused_readings(many(33)), Contains("33 of them, at most 32"));
  CHECK_THAT(refused_readings({{"", 1}}), Contains("'' is not a name"));
  CHECK_THAT(refused_readings({{"x", "1"}}), Contains("'x' is not a number"));
  CHECK(checked_readings({{"x", 1e308}, {"y", -1}}) ==
        std::map<std::string, double>{{"x", 1e308}, {"y", -1}});
}

TEST_CASE("an exit status that no process has is refused, and never taken for another") {
  for (const std::int64_t status : {0, 1, 137, 255}) {
    CHECK(message::read<message::Exit>(exit_with(status)).status == status);
  }
  for (const std::int64_t status : {std::int64_t{-1}, std::int64_t{256}, std::int64_t{1} << 62}) {
    CHECK_THROWS_WITH(message::read<message::Exit>(exit_with(status)),
                      Contains("'status' must be a whole number from 0 to 255"));
  }
}
