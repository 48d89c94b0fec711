// Hosts files, the key `hosts` of a scenario, and --hosts.

#include "harness/scenario/decode/hosts.h"

#include <fstream>

#include "common/error.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/scenario/small_scenario.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::harness {
namespace {

using test::Contains;
using test::StartsWith;
using vmctl::HostNetworkKind;

constexpr const char* two_hosts =
    "launcher: [ssh, -T, \"{host}\", sudo, -n, virtrain-host]\n"
    "hosts:\n"
    "  - {name: gpu-b, network: {kind: bridge, name: br-data}}\n"
    "  - {name: gpu-a, network: {kind: bridge, name: br1}}\n";

Error hosts_error(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) { return error; }
  FAIL("nothing was thrown");
  return {"", ErrorCode::io, ""};
}

/// What is said of a hosts file that is refused, with its name left out.
std::string hosts_refusal(const std::string& text) {
  const TemporaryFolder folder;
  const auto path = (folder.path / "h.yaml").string();
  std::ofstream(path) << text;
  const auto error = hosts_error([&] { load_hosts(path); });
  CHECK(error.code() == ErrorCode::bad_input);
  REQUIRE_THAT(error.message(), StartsWith(path + ":"));
  return error.message().substr(path.size() + 1);
}

}  // namespace

TEST_CASE("a hosts file gives its hosts in the order of their names") {
  const TemporaryFolder folder;
  const auto path = folder.path / "h.yaml";
  std::ofstream(path) << two_hosts;
  const HostList expected{
      {"ssh", "-T", "{host}", "sudo", "-n", "virtrain-host"},
      {{"gpu-a", {HostNetworkKind::bridge, "br1"}}, {"gpu-b", {HostNetworkKind::bridge, "br-data"}}}};
  CHECK(load_hosts(path) == expected);
  CHECK(hosts_of(path.string()) == expected);
}

TEST_CASE("launchers have names, and one host needs no network") {
  const TemporaryFolder folder;
  const auto path = folder.path / "h.yaml";
  const auto launcher_of = [&](const std::string& text) {
    std::ofstream(path) << text;
    const auto list = load_hosts(path);
    CHECK(list.hosts == std::vector<ListedHost>{{"a@gpu-a.example"}});
    return list.launcher;
  };
  CHECK(launcher_of("hosts: [a@gpu-a.example]\n") == launcher_words(KnownLauncher::ssh));
  CHECK(launcher_of("{launcher: ssh, hosts: [{name: a@gpu-a.example}]}") ==
        launcher_words(KnownLauncher::ssh));
  CHECK(launcher_of("{launcher: sudo, hosts: [a@gpu-a.example]}") ==
        std::vector<std::string>{"sudo", "-n", "--", "virtrain-host"});
  const auto slurm = launcher_of("{launcher: slurm, hosts: [a@gpu-a.example]}");
  for (const char* word : {"srun", "--unset=SLURM_GPUS", "--overlap", "--unbuffered", "--nodelist={host}"}) {
    CHECK(std::ranges::count(slurm, word) == 1);
  }
  CHECK(launcher_of("{launcher: [sudo, -u, root, virtrain-host], hosts: [a@gpu-a.example]}").size() == 4);
}

TEST_CASE("a wrong hosts file is refused with the place") {
  const std::string network = ", network: {kind: bridge, name: br0}}";
  const std::pair<std::string, std::string> refusals[] = {
      {"hosts: [a, b]\n", "1:9: host 'a' needs a network, for there are several hosts"},
      {"hosts: [{name: a" + network + ", {name: a" + network + "]\n", "1:56: two hosts are named 'a'"},
      {"hosts: [{name: a" + network + ", {name: b, network: {kind: vxlan, name: eth1}}]\n",
       "1:75: host 'b' has vxlan and host 'a' has bridge (allowed: one kind for all hosts)"},
      {"hosts: [{name: a, network: {kind: vfs, name: eth1}}]\n",
       "kind: 'vfs' is not allowed (allowed: bridge, vxlan, vf"},
      {"hosts: [{name: a, network: {kind: adapter, name: eth1}}]\n",
       "nodes cannot talk over whole Ethernet adapters; use vf, vxlan or bridge"},
      {"hosts: [{name: a, network: {kind: bridge}}]\n", "1:28: network needs the key 'name'"},
      {"hosts: [{name: a, network: {name: br0}}]\n", "1:28: network needs the key 'kind'"},
      {"hosts: [{name: a, network: {kind: bridge, name: ../x}}]\n",
       "1:49: name: '../x' is not the name of a bridge or NIC"},
      {"hosts: [{name: a, network: {kind: bridge, name: sixteen-letters0}}]\n",
       "is not the name of a bridge"},
      {"hosts: [{nme: a}]\n", "unknown key 'nme' in host"},
      {"hosts: [a]\nlaucher: ssh\n", "2:1: unknown key 'laucher' in the hosts file"},
      {"hosts: []\n", "1:8: hosts must be a list of 1 to 256 items"},
      {"launcher: ssh\n", "1:1: the hosts file needs the key 'hosts'"},
      {"[a, b]\n", "1:1: the hosts file must be a mapping"},
      {"hosts: [-oProxyCommand=x]\n", "1:9: '-oProxyCommand=x' is not the name of a host"},
      {"hosts: [\"a b\"]\n", "1:9: 'a b' is not the name of a host"},
      {"hosts: [\"a;reboot\"]\n", "is not the name of a host"},
      {"hosts: [\"\"]\n", "is not the name of a host"},
      {"hosts: [" + std::string(254, 'a') + "]\n", "is not the name of a host"},
      {"hosts: [[a]]\n", "1:9: host must be a mapping"},
      {"launcher: rsh\nhosts: [a]\n",
       "1:11: launcher: 'rsh' is not allowed (allowed: ssh, slurm or sudo, or a list"},
      {"launcher: [ssh, -T, virtrain-host]\nhosts: [a]\n", "1:11: launcher: no word has {host}"},
      {"launcher: [ssh, {host}, virtrain-host]\nhosts: [a]\n",
       "1:17: launcher: {host} is a mapping to YAML (write \"{host}\", with the quotes)"},
      {"launcher: [ssh, [x], \"{host}\"]\nhosts: [a]\n", "1:17: launcher: a word must be text"},
      {"launcher: [ssh, \"a\\nb\", \"{host}\"]\nhosts: [a]\n", "1:17: launcher: a word must be text"},
      {"launcher: [\"{host}\", x]\nhosts: [a]\n", "1:11: launcher: its first word is the program to start"},
      {"launcher: {a: b}\nhosts: [a]\n", "1:11: launcher must be a list of 1 to 64 items"},
      {"launcher: []\nhosts: [a]\n", "1:11: launcher must be a list of 1 to 64 items"},
      {"launcher: sudo\nhosts: [{name: a" + network + ", {name: b" + network + "]\n",
       "1:11: launcher: sudo starts virtrain-host on this machine only"},
  };
  for (const auto& [text, words] : refusals) {
    INFO(text);
    CHECK_THAT(hosts_refusal(text), Contains(words));
  }
  std::string many = "hosts:\n";
  for (int i = 0; i < 257; ++i) { many += "  - h" + std::to_string(i) + "\n"; }
  CHECK_THAT(hosts_refusal(many), Contains("hosts must be a list of 1 to 256 items"));
}

TEST_CASE("a scenario names a hosts file in its folder, and its stored text has the hosts") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "h.yaml") << two_hosts;
  for (const std::string written :
       {"h.yaml", "'h.yaml'", "\"h.yaml\"", "./h.yaml # comment", "|-\n  h.yaml"}) {
    INFO(written);
    const auto text = "# häh\r\n" + small_scenario("hosts: " + written + "\npairs: 4\n");
    const auto scenario = decode_scenario(text, "x.yaml", false, folder.path);
    CHECK(scenario.hosts == load_hosts(folder.path / "h.yaml"));
    CHECK(scenario.pairs == 4);
    const auto stored = decode_scenario(scenario.text, "stored");
    CHECK(stored.hosts == scenario.hosts);
    CHECK(stored.pairs == 4);
    CHECK(stored.text == scenario.text);
    if (written.starts_with("./")) { CHECK_THAT(scenario.text, Contains("# comment")); }
  }
  CHECK(decode_scenario(small_scenario(""), "x.yaml").hosts.hosts.empty());
}

TEST_CASE("hosts of a scenario are refused where they stand") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "bad.yaml") << "hosts: [\"\", a b]\n";
  const auto refused = [&](const std::string& hosts) {
    return hosts_error([&] {
             decode_scenario(small_scenario("hosts: " + hosts + "\n"), "x.yaml", false, folder.path);
           })
        .message();
  };
  CHECK_THAT(refused("none.yaml"), StartsWith("x.yaml:6:8: hosts: ") && Contains("no such file"));
  CHECK_THAT(refused("."), StartsWith("x.yaml:6:8: hosts: ") && Contains("is a folder"));
  CHECK_THAT(refused("\"-\""), StartsWith("x.yaml:6:8: hosts must be the path"));
  CHECK_THAT(refused("[a, b]"),
             StartsWith("x.yaml:6:8: hosts must be the path") && Contains("(such as hosts: {hosts: [...]})"));
  CHECK_THAT(refused("bad.yaml"),
             StartsWith((folder.path / "bad.yaml").string() + ":1:9: '' is not the name"));
  CHECK_THAT(refused("{hosts: [a, b]}"), StartsWith("x.yaml:6:17: host 'a' needs a network"));
  CHECK_THAT(hosts_error([&] { decode_scenario(small_scenario("hosts: h.yaml\n"), "x.yaml"); }).message(),
             StartsWith("x.yaml:6:8: hosts: 'h.yaml' is a file, and this text comes from no folder"));
}

TEST_CASE("option --hosts has names or a file, and comes before the scenario's hosts") {
  const TemporaryFolder folder;
  std::ofstream(folder.path / "h.yaml") << two_hosts;
  const auto by_name = hosts_of("gpu-b,gpu-a");
  CHECK(by_name == HostList{launcher_words(KnownLauncher::ssh), {{"gpu-a"}, {"gpu-b"}}});
  for (const char* wrong : {"a,a", "a,", ",", "a b", "-x", "a,$(x)"}) {
    INFO(wrong);
    CHECK(hosts_error([&] { hosts_of(wrong); }).code() == ErrorCode::usage);
  }
  CHECK(hosts_error([&] { hosts_of("./none"); }).code() == ErrorCode::bad_input);

  auto scenario = decode_scenario(small_scenario("hosts: h.yaml\n"), "x.yaml", false, folder.path);
  CHECK(hosts_of(scenario, "") == scenario.hosts);
  const auto one = hosts_of(scenario, "gpu-b");
  CHECK(one.launcher == scenario.hosts.launcher);
  CHECK(one.hosts == std::vector<ListedHost>{{"gpu-b", {HostNetworkKind::bridge, "br-data"}}});
  CHECK(hosts_of(scenario, "other").launcher == launcher_words(KnownLauncher::ssh));
  const auto strange = hosts_error([&] { hosts_of(scenario, "gpu-a,other"); });
  CHECK(strange.code() == ErrorCode::usage);
  CHECK_THAT(strange.message(), Contains("(the scenario has gpu-a, gpu-b, and not other)"));

  set_hosts(scenario, one);
  CHECK(scenario.hosts == one);
  CHECK(decode_scenario(scenario.text, "stored").hosts == one);
  for (const auto& text : std::vector<std::string>{
           small_scenario(""), small_scenario("pairs: 4"),
           std::string("{name: x, workload: {}, guest: {vcpus: 1, memory: 1GiB}, cases: [{name: a, tenants: "
                       "[{nodes: 1}]}]}")}) {
    auto without = decode_scenario(text, "x.yaml");
    set_hosts(without, one);
    CHECK(decode_scenario(without.text, "stored").hosts == one);
  }
}

TEST_CASE("names of hosts") {
  for (const char* good : {"gpu-a", "root@192.0.2.7", "2001:db8::7", "GPU_1.example.org", "n1"}) {
    CHECK(is_host_name(good));
  }
  for (const char* bad : {"", "-a", "a b", "a/b", "a\nb", "ä", "a$b", "a%h", "a'b", "a{b"}) {
    CHECK_FALSE(is_host_name(bad));
  }
}

}  // namespace virtrain::harness
