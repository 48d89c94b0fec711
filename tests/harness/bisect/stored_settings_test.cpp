#include "harness/bisect/stored_settings.h"

#include <algorithm>
#include <set>

#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;

namespace {

std::vector<std::string> confirmed_words(const std::string& text, const std::vector<Setting>& switched,
                                         const std::vector<Setting>& given = {}) {
  const TwoArms wanted{"bisect", "", "one", "vm", switched, {0}, 3};
  const auto scenario = decode_scenario(two_arm_scenario(text, wanted), "scenario", true);
  std::vector<std::string> words;
  for (const auto& one : settings_to_confirm(scenario, given)) { words.push_back(words_of(one)); }
  return words;
}

std::string stored_text(const std::string& workload, const std::string& guest, const std::string& tenant) {
  return "name: nightly\n"
         "workload: {steps: 2" +
         workload +
         "}\n"
         "guest: {vcpus: 1, memory: 768MiB" +
         guest +
         "}\n"
         "cases: [{name: one, tenants: [{nodes: 1" +
         tenant +
         "}]}]\n"
         "arms: [vm]\n";
}

}  // namespace

TEST_CASE(
    "the launcher of a stored scenario's hosts has to be confirmed, and no bisection runs it elsewhere") {
  const auto text =
      stored_text("", "", "") + "hosts: {launcher: [sh, -c, 'id >&2', \"{host}\"], hosts: [{name: a}]}\n";
  std::vector<std::string> words;
  for (const auto& one : settings_to_confirm(decode_scenario(text, "scenario"))) {
    words.push_back(words_of(one));
  }
  CHECK(words == std::vector<std::string>{"hosts.launcher: sh -c id >&2 {host}", "hosts.hosts: a"});
  CHECK_THROWS_WITH(two_arm_scenario(text, {"bisect", "", "one", "vm", {}, {0}, 3}),
                    test::Contains("the hosts that it names"));
}

TEST_CASE("what a stored scenario sets for processes and names of this host has to be confirmed") {
  using Words = std::vector<std::string>;
  const Setting edited{"workload.env.X", "1", "2"}, threads{"workload.threads", "1", "2"};
  CHECK(confirmed_words(stored_text("", "", ""), {threads}).empty());
  CHECK(confirmed_words(stored_text(", env: {LD_PRELOAD: /tmp/e.so}", "", ""), {edited}) ==
        Words{"workload.env.LD_PRELOAD: /tmp/e.so", "workload.env.X: 1 → 2"});
  // a value that only one of the nights has
  CHECK(confirmed_words(stored_text("", "", ""), {{"workload.env.X", std::nullopt, "2"}}) ==
        Words{"workload.env.X: not set → 2"});
  CHECK(confirmed_words(stored_text("", "", ", workload: {env: {PATH: /tmp}}"), {threads}) ==
        Words{"workload.env.PATH: /tmp"});
  CHECK(confirmed_words(stored_text("", ", image: /etc/shadow", ""), {threads}) ==
        Words{"guest.image: /etc/shadow"});
  CHECK(confirmed_words(stored_text("", ", nccl_topology: /etc/shadow", ""), {threads}) ==
        Words{"guest.nccl_topology: /etc/shadow"});
  CHECK(confirmed_words(stored_text("", ", nccl_topology: 'off'", ""), {threads}).empty());
  // what the user has typed needs no second word, and that exempts no other value of the same variable
  CHECK(confirmed_words(stored_text("", "", ""), {edited}, {edited}).empty());
  CHECK(confirmed_words(stored_text("", "", ""), {edited}, {{"workload.env.X", "1", "3"}}) ==
        Words{"workload.env.X: 1 → 2"});
}

namespace {

/// "devices.nics.select.count" and all others below "devices" in the schema.
void add_leaves(const nlohmann::ordered_json& schema, const std::string& path,
                std::set<std::string>& leaves) {
  bool has_children = false;
  for (const auto* node : {&schema, schema.contains("anyOf") ? &schema["anyOf"][0] : &schema}) {
    if (!node->contains("properties")) { continue; }
    has_children = true;
    for (const auto& [key, property] : node->at("properties").items()) {
      add_leaves(property, path + "." + key, leaves);
    }
  }
  if (!has_children) { leaves.insert(path); }
}

/// A tenant on devices of which every key is set.
Scenario with_every_key() {
  Scenario scenario;
  Case placed;
  auto& devices = placed.devices;
  const DeviceSelection select{"0x10de", 1, {"0000:17:00.0"}, {"GPU-1"}, "A100"};
  devices.kind = DeviceKind::vgpu;
  devices.select = select;
  devices.vgpu_type = "A100-20C";
  devices.clique = vmctl::Clique::all;
  devices.vfio = vmctl::Vfio::iommufd;
  devices.spread = true;
  devices.settings = {300.0, 1400, std::nullopt, true, true, true};
  devices.vgpu_scheduler = vmctl::VgpuScheduler::equal_share;
  devices.nics = Nics{NicKind::vf, 2, select};
  devices.nics->select.uuids.clear();
  devices.between_tenants = vmctl::BetweenTenants::erase;
  devices.licence_token = "/etc/token";
  placed.tenants.resize(1);
  for (const auto* name : {arm_good, arm_tried}) {
    scenario.arms.emplace_back().name = name;
    scenario.arms.back().cases = {placed};
  }
  return scenario;
}

}  // namespace

TEST_CASE("an imported record that would erase a disk has to be confirmed, as every key of devices has") {
  const auto text = stored_text("", "", ", gpus_per_node: 1");
  const Setting threads{"workload.threads", "1", "2"};
  const auto words = confirmed_words(
      text + "devices: {kind: passthrough, select: {address: ['0000:01:00.0']}, between_tenants: erase}\n",
      {threads});
  CHECK(words == std::vector<std::string>{"devices.between_tenants: erase", "devices.kind: passthrough",
                                          "devices.select.address: 0000:01:00.0"});

  std::set<std::string> known, confirmed;
  add_leaves(scenario_schema().at("properties").at("devices"), "devices", known);
  for (const auto& one : settings_to_confirm(with_every_key(), {})) { confirmed.insert(one.key); }
  CHECK(confirmed == known);
}

TEST_CASE("text of a stranger's scenario is shown without control characters") {
  CHECK(words_of({"workload.env.X", "a\x1b[2J\nb", "a\x1b[2J\nb"}).find('\x1b') == std::string::npos);
}
