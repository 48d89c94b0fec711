// Several hosts, started by a launcher: here by env, sh and the real virtrain-host.

#include "harness/hosts/named_host.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

#include "common/error.h"
#include "common/frames/frame.h"
#include "common/system/log.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/protocol/messages.h"

namespace virtrain::harness {
namespace {

using namespace std::chrono_literals;
using test::Contains;

const std::string program = (std::filesystem::path(VIRTRAIN_BINARY_DIR) / "virtrain-host").string();

/// A launcher that runs a script with the host's name as $1 and the program's options after it.
HostList scripted(const std::string& script, const std::vector<std::string>& names) {
  HostList list{{"sh", "-c", script, "launcher", "{host}"}, {}};
  for (const auto& name : names) { list.hosts.push_back({name}); }
  return list;
}

const std::string starts = "shift; exec " + program + " \"$@\"";

std::string refusal(const HostList& list, bool skip_unreachable = false) {
  try {
    open_hosts(list, {}, skip_unreachable);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::host_unable);
    return error.what();
  }
  return "(started)";
}

}  // namespace

TEST_CASE("a launcher starts the host process on each host, and each has its name") {
  const auto hosts = open_hosts(scripted(starts, {"a", "b", "c"}), {}, false);
  REQUIRE(hosts.size() == 3);
  CHECK(hosts[0].name == "a");
  CHECK(hosts[2].name == "c");
  for (const auto& one : hosts) { CHECK_FALSE(one.host->checks().empty()); }
  try {
    hosts[1].host->domain_xml_of("no such domain");
    FAIL("nothing was thrown");
  } catch (const Error& error) { CHECK_THAT(error.what(), Catch::Matchers::StartsWith("b: ")); }
}

TEST_CASE("the launcher's words have the host's name, and the program's options come last") {
  const auto words = launch_words({"srun", "-w{host}:{host}", "{host}", "/x/virtrain-host"}, "n1",
                                  {.mode = vmctl::HostMode::session, .with_vms = true});
  CHECK(words == std::vector<std::string>{"srun", "-wn1:n1", "n1", "/x/virtrain-host", "--log-level", "info",
                                          "--mode", "session", "--with-vms"});
}

TEST_CASE("signals of the terminal are not for a launcher, and its words while all is well are no error") {
  // The sixth word of stat is the session.
  const std::string own_session = "test $(cut -d' ' -f6 /proc/$$/stat) = $$ || exit 8; echo banner >&2; ";
  const std::string later = "(sleep 0.3; echo; echo ' all is well'; printf 'not ended') >&2 & ";
  std::promise<std::pair<std::string, nlohmann::json>> logged;
  log::pass_on([&](log::Level level, std::string_view message, const nlohmann::json& fields) {
    if (level == log::Level::info) { logged.set_value({std::string(message), fields}); }
  });
  {
    const auto hosts = open_hosts(scripted(own_session + later + starts, {"a"}), {}, false);
    auto line = logged.get_future();
    REQUIRE(line.wait_for(10s) == std::future_status::ready);
    const auto [message, fields] = line.get();
    CHECK(message == "all is well");
    CHECK(fields == nlohmann::json{{"host", "a"}});
    CHECK_FALSE(hosts[0].host->checks().empty());
    log::pass_on([](log::Level, std::string_view, const nlohmann::json&) {});
  }
  log::pass_on({});
}

TEST_CASE("a host that goes fails the calls with its name and the launcher's last words") {
  const auto ends = "shift; exec 3<&0; " + program +
                    " \"$@\" <&3 & sleep 1; kill -9 $!; echo 'send disconnect: Broken pipe' >&2; exit 255";
  const auto hosts = open_hosts(scripted(ends, {"a"}), {}, false);
  std::string said;
  for (int i = 0; i < 200 && said.empty(); ++i) {
    try {
      hosts[0].host->checks();
      std::this_thread::sleep_for(50ms);
    } catch (const Error& error) { said = error.what(); }
  }
  CHECK_THAT(said, Catch::Matchers::StartsWith("a: call checks of the host: virtrain-host is gone: "));
  CHECK_THAT(said, Contains("(the launcher said: send disconnect: Broken pipe)"));
}

TEST_CASE("hosts that do not answer are named all at once, with what the launcher said") {
  const auto list = scripted(
      "case $1 in b) echo \"no route to $1\" >&2; exit 255;; c) exit 3;; esac; " + starts, {"a", "b", "c"});
  const auto words = refusal(list);
  CHECK_THAT(words, Contains("\nb: no route to b (exit status 255); tried: sh -c ") ||
                        Contains(": b: no route to b (exit status 255); tried: sh -c "));
  CHECK_THAT(words, Contains("\nc: the launcher ended without a word (exit status 3)"));
  CHECK_THAT(words, Contains("--skip-unreachable goes on with the others"));
  CHECK_THAT(words, !Contains("\na: "));
  const auto others = open_hosts(list, {}, true);
  REQUIRE(others.size() == 1);
  CHECK(others[0].name == "a");
  CHECK_THAT(refusal(scripted("exit 1", {"a", "b"}), true), !Contains("--skip-unreachable"));
}

TEST_CASE("a launcher that floods or is not there, and a shell that greets, are refused in words") {
  CHECK_THAT(refusal(scripted("yes out of order >&2 & yes=$!; sleep 0.3; kill $yes; exit 9", {"a"})),
             Contains("out of order") && Contains("(exit status 9)"));
  CHECK_THAT(refusal({{"no-such-launcher", "{host}"}, {{"a"}}}),
             Contains("is not installed on this machine"));
  CHECK_THAT(refusal(scripted("echo Welcome to $1; " + starts, {"a"})),
             Contains("start-up file of the shell"));
  CHECK_THAT(refusal(scripted("exec /nowhere/virtrain-host", {"a"})), Contains("(exit status 127)"));
}

TEST_CASE("a launcher that does not end is waited for shortly, and not killed") {
  const TemporaryFolder folder;
  const auto file = (folder.path / "ended").string();
  const auto began = std::chrono::steady_clock::now();
  // Its output is closed, so that the connection ends at once.
  const auto words = refusal(scripted("exec >&- <&-; sleep 5; echo yes > " + file, {"a"}));
  CHECK(std::chrono::steady_clock::now() - began < 5s);
  CHECK_THAT(words, Contains("a: "));
  for (int i = 0; i < 100 && !std::filesystem::exists(file); ++i) { std::this_thread::sleep_for(100ms); }
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("another build is refused with the way to copy this one, whatever may be left out") {
  const TemporaryFolder folder;
  Frame hello;
  hello.message = vmctl::to_json(vmctl::Hello{"0.0.0", "another"});
  std::ofstream(folder.path / "hello") << encode(hello, host_frame_limits);
  const auto other = (folder.path / "virtrain-host").string();
  std::ofstream(other) << "#!/bin/sh\ncat " << (folder.path / "hello").string() << "\ncat > /dev/null\n";
  std::filesystem::permissions(other, std::filesystem::perms::owner_all);
  const auto words = refusal({{"env", "HOST={host}", other}, {{"gpu-a"}}}, true);
  CHECK_THAT(words, Contains("gpu-a: it is of another build: version 0.0.0 (another)"));
  CHECK_THAT(words, Contains("copy this build there: ssh gpu-a mkdir -p " + folder.path.string() +
                             " && rsync -a " + VIRTRAIN_BINARY_DIR));
  CHECK_THAT(words, Contains("/virtrain-* gpu-a:" + folder.path.string() + "/"));
}

}  // namespace virtrain::harness
