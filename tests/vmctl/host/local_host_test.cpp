// Calls that a coordinator of ours would never make: refused in words, with nothing done.

#include "vmctl/host/local_host.h"

#include <map>
#include <string>

#include "common/error.h"
#include "tests/support/catch.h"
#include "vmctl/api/protocol/messages.h"
#include "vmctl/host/host_server.h"

namespace virtrain::vmctl {
namespace {

using nlohmann::json;

json one(const auto& value) {
  return json::array({wire::write(value)});
}

}  // namespace

TEST_CASE("calls of a run that has not begun are refused") {
  LocalHost host("/");
  HostCalls calls(host);
  const Canary canary{"a", "b"};
  const json none = json::array();
  const std::map<std::string, json> early{{"acquire", one(std::vector<std::string>{"core:0"})},
                                          {"end", one(true)},
                                          {"make_image", one(ImageSpec())},
                                          {"keep_services_away", one(std::vector<DeviceGrant>())},
                                          {"lend", {json::array(), wire::write(CardSettings())}},
                                          {"set", {json::array(), wire::write(DeviceSettings())}},
                                          {"give_back", none},
                                          {"end_lending", none},
                                          {"plan_nodes", one(NodeGroupSpec())},
                                          {"make_networks", one(1)},
                                          {"start", one(1)},
                                          {"counters", one(1)},
                                          {"last_words", one(1)},
                                          {"kill", one(1)},
                                          {"await_end", one(1)},
                                          {"remove", one(1)},
                                          {"watched", none},
                                          {"plant", one(canary)},
                                          {"remove_planted", none},
                                          {"plant_in_memory", one(canary)},
                                          {"search_leftovers", {json::array(), wire::write(canary)}},
                                          {"check_modes", none},
                                          {"clean", none}};
  for (const auto& [call, arguments] : early) {
    INFO(call);
    try {
      calls.make(call, arguments);
      FAIL_CHECK("it was not refused");
    } catch (const Error& error) { CHECK(error.code() == ErrorCode::protocol); }
  }
}

TEST_CASE("a watch ends when what it has seen is asked for") {
  LocalHost host("/");
  CHECK(host.look().waiting.empty());
  host.watch_devices({});
  host.look();
  const auto energy = host.watched().package_energy;
  CHECK((energy.empty() || energy.size() >= 3));  // of the start, the look, and the end
  CHECK_THROWS_AS(host.watched(), Error);
}

TEST_CASE("a run has an experiment's id, of which folders are named") {
  LocalHost host("/");
  for (const auto* id : {"", "e", "../../etc", "20261129t000000-00000g", "20261129t000000-0000000"}) {
    INFO(id);
    try {
      host.begin({.experiment = id});
      FAIL_CHECK("it was not refused");
    } catch (const Error& error) { CHECK(error.code() == ErrorCode::protocol); }
  }
}

}  // namespace virtrain::vmctl
