#include <sys/stat.h>

#include <cstdlib>
#include <thread>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/time.h"
#include "harness/agent/client/run_in_node.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace virtrain::test;
using virtrain::test::Contains;

namespace {

using Task = asio::awaitable<void>;

ProcessSpec command(std::vector<std::string> argv) {
  ProcessSpec spec;
  spec.argv = std::move(argv);
  return spec;
}

/// The words of the Error that a request must end in.
template <typename Result>
asio::awaitable<std::string> words_of(asio::awaitable<Result> request) {
  std::string words = "(no error)";
  try {
    co_await std::move(request);
  } catch (const Error& error) { words = error.what(); }
  co_return words;
}

}  // namespace

TEST_CASE("an agent introduces its node, and its clock is the one of this host") {
  Session session;
  static NodeReport report;
  session.run_bare(+[](Session& s) -> Task { report = co_await s.client().handshake(20s); });
  CHECK(report.boot_id == read_value("/proc/sys/kernel/random/boot_id").value());
  CHECK(report.kernel == read_value("/proc/sys/kernel/osrelease").value());
  CHECK(std::stod(report.facts.at("memory_total_bytes")) > 0);
  CHECK_FALSE(report.cpus.value().empty());
  // Both sides read the same clock here, so the true offset is 0 and must lie within the uncertainty.
  CHECK(session.client().clock().uncertainty_ns > 0);
  CHECK(std::abs(session.client().clock().offset_ns) <= session.client().clock().uncertainty_ns + 1);
  REQUIRE(session.client().clock().wall_offset_ns);  // the same machine's, but read twice
  CHECK(std::abs(*session.client().clock().wall_offset_ns) < 1'000'000'000);
  session.close();
  CHECK(session.agent().ends_well());
  CHECK(session.lost.empty());  // we closed it ourselves
}

TEST_CASE("a process has its environment and streams, and times lie between start and end") {
  Session session;
  session.run(+[](Session& s) -> Task {
    auto said = std::make_shared<Collected>();
    auto spec =
        command({"sh", "-c", "echo \"$A\"; echo bad >&2; echo ${VIRTRAIN_AGENT_SOCKET%%[0-9]*}; exit 7"});
    spec.environment["A"] = "a value";
    const auto before_ns = monotonic_ns();
    co_await s.client().start(spec, Collected::events(said));
    const std::function<bool()> ended = [said] { return said->status.has_value(); };
    co_await s.until(ended);
    const auto slack_ns = s.client().clock().uncertainty_ns;
    CHECK(said->status == 7);
    CHECK(said->out == "a value\n/proc/\n");
    CHECK(said->err == "bad\n");
    for (const auto t_ns : said->times_ns) {
      CHECK(t_ns >= before_ns - slack_ns);
      CHECK(t_ns <= monotonic_ns() + slack_ns);
    }
  });
  CHECK(session.agent().ends_well());
}

TEST_CASE("standard input arrives and ends") {
  Session session;
  session.run(+[](Session& s) -> Task {
    auto said = std::make_shared<Collected>();
    const auto spec = command({"cat"});
    const auto process = co_await s.client().start(spec, Collected::events(said));
    co_await s.client().write_stdin(process, "go\n", false);
    const std::function<bool()> echoed = [said] { return said->out == "go\n"; };
    co_await s.until(echoed);
    CHECK_FALSE(said->status);
    co_await s.client().write_stdin(process, "end", true);
    const std::function<bool()> ended = [said] { return said->status.has_value(); };
    co_await s.until(ended);
    CHECK(said->out == "go\nend");
    CHECK(said->status == 0);
  });
}

TEST_CASE("a signal reaches the whole process group, and its death is reported as the shell does") {
  Session session;
  session.run(+[](Session& s) -> Task {
    auto said = std::make_shared<Collected>();
    const auto spec = command({"sh", "-c", "sleep 1000 & echo ready; wait"});
    const auto process = co_await s.client().start(spec, Collected::events(said));
    const std::function<bool()> ready = [said] { return said->out == "ready\n"; };
    co_await s.until(ready);
    co_await s.client().signal(process, SIGTERM);
    const std::function<bool()> ended = [said] { return said->status.has_value(); };
    co_await s.until(ended);
    CHECK(said->status == 128 + SIGTERM);
    const std::function<bool()> alone = [&s] { return s.agent().leftovers().empty(); };
    co_await s.until(alone);
  });
}

TEST_CASE("a process that reads nothing keeps no request from being served") {
  Session session;
  session.run(+[](Session& s) -> Task {
    auto said = std::make_shared<Collected>();
    const auto spec = command({"sleep", "1000"});
    const auto process = co_await s.client().start(spec, Collected::events(said));
    const std::string more_than_a_pipe_holds(512U << 10, 'x');
    co_await s.client().write_stdin(process, more_than_a_pipe_holds, false);
    co_await s.client().signal(process, SIGKILL);
    const std::function<bool()> ended = [said] { return said->status.has_value(); };
    co_await s.until(ended);
    CHECK(said->status == 128 + SIGKILL);
  });
}

TEST_CASE("a program that is not there is an error in words, and the agent goes on") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const auto spec = command({"no-such-program"});
    auto request = s.client().start(spec, {});
    const auto words = co_await words_of(std::move(request));
    CHECK_THAT(words, Contains("start no-such-program") && Contains("No such file or directory"));
    const auto nothing = command({});
    auto second = s.client().start(nothing, {});
    const auto none = co_await words_of(std::move(second));
    CHECK_THAT(none, Contains("no program named"));
    const auto said = co_await s.shell("echo alive");
    CHECK(said.out == "alive\n");
  });
}

TEST_CASE("files are written with their mode and read back") {
  static TemporaryFolder folder;
  Session session;
  session.run(+[](Session& s) -> Task {
    const std::string path = folder.path / "file";
    std::string bytes = "a line\n";
    bytes.push_back('\0');
    bytes += "\xff more";
    co_await s.client().write_file(path, bytes, 0750);
    struct stat info {};
    ::stat(path.c_str(), &info);
    CHECK((info.st_mode & 0777) == 0750);
    CHECK(virtrain::read_file(path) == bytes);
    const auto back = co_await s.client().read_file(path);
    CHECK(back == bytes);
    auto absent = s.client().read_file(folder.path / "absent");
    const auto why = co_await words_of(std::move(absent));
    CHECK_THAT(why, Contains("cannot be read"));
    auto nowhere = s.client().write_file(folder.path / "no/folder/x", "x");
    const auto where = co_await words_of(std::move(nowhere));
    CHECK_THAT(where, Contains("No such file or directory"));
    virtrain::write_file_atomically(path, std::string(max_body_bytes + 1, 'x'));
    auto large = s.client().read_file(path);
    const auto much = co_await words_of(std::move(large));
    CHECK_THAT(much, Contains("over 1 MiB"));
    auto too_large = s.client().write_file(path, std::string(max_body_bytes + 1, 'x'));
    const auto over = co_await words_of(std::move(too_large));
    CHECK_THAT(over, Contains("over the limits"));
    const auto said = co_await s.shell("echo alive");
    CHECK(said.out == "alive\n");
  });
}

TEST_CASE("a sweep ends everything, however far it has moved away, and the agent goes on") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const std::string moving =
        "sleep 1000 & setsid sleep 1000 & setsid sh -c 'sleep 1000 & sleep 1000' & echo; exec sleep 1000";
    auto said = std::make_shared<Collected>();
    const auto spec = command({"sh", "-c", moving});
    co_await s.client().start(spec, Collected::events(said));
    const std::function<bool()> all_there = [&s] { return s.agent().leftovers().size() >= 6; };
    co_await s.until(all_there);
    const auto count = co_await s.client().sweep();
    CHECK(count >= 5);
    CHECK(s.agent().leftovers().empty());
    const std::function<bool()> told = [said] { return said->status == 128 + SIGKILL; };
    co_await s.until(told);
    const auto none = co_await s.client().sweep();
    CHECK(none == 0);
    const auto alive = co_await s.shell("echo alive");
    CHECK(alive.out == "alive\n");
  });
}

TEST_CASE("telemetry comes by itself, with plausible values that grow") {
  Session session;
  static std::vector<nlohmann::json> samples;
  session.client().on_telemetry = [](const std::map<std::string, double>& values, std::int64_t) {
    samples.push_back(values);
  };
  session.run(+[](Session& s) -> Task {
    co_await s.client().start_telemetry(100ms, "0");
    const std::function<bool()> three = [] { return samples.size() >= 3; };
    co_await s.until(three);
  });
  const auto total = [](const nlohmann::json& v) {
    return v["cpu_user_seconds"].get<double>() + v["cpu_system_seconds"].get<double>() +
           v["cpu_idle_seconds"].get<double>();
  };
  CHECK(total(samples[2]) > 0);
  CHECK(total(samples[2]) >= total(samples[0]));
  CHECK(samples[0]["memory_available_bytes"].get<double>() < samples[0]["memory_total_bytes"].get<double>());
  for (const char* name :
       {"cpu_steal_seconds", "cpu_iowait_seconds", "network_rx_bytes", "network_tx_bytes"}) {
    CHECK(samples[0][name].get<double>() >= 0);
  }
}

TEST_CASE("an address that answers is reachable, another is not and says why") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const auto here = co_await s.client().unreachable("127.0.0.1", 5s);
    CHECK_FALSE(here);
    const auto nowhere = co_await s.client().unreachable("255.255.255.255", 5s);
    REQUIRE(nowhere);
    CHECK_FALSE(nowhere->empty());
    const auto no_address = co_await s.client().unreachable("not an address", 5s);
    REQUIRE(no_address);
  });
}

TEST_CASE("a node tells its PCI functions") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const auto functions = co_await s.client().pci_functions();
    const auto here = vmctl::read_pci_functions("/");
    REQUIRE(functions.size() == here.size());
    for (std::size_t i = 0; i < here.size(); ++i) { CHECK(functions[i].address == here[i].address); }
  });
}

asio::awaitable<std::string> words_of_run(Session& s, std::vector<std::string> argv,
                                          std::chrono::milliseconds deadline) {
  try {
    co_return co_await run_in_node(s.io, s.clients.at(0), std::move(argv), deadline);
  } catch (const Error& error) { co_return error.what(); }
}

TEST_CASE("a short command in a node: its output, its failure in its own words, and its deadline") {
  Session session;
  session.run(+[](Session& s) -> Task {
    std::vector<std::string> works{"sh", "-c", "echo 250.00; echo noise >&2"};
    const auto output = co_await words_of_run(s, std::move(works), 300ms);
    CHECK(output == "250.00\n");
    std::vector<std::string> fails{"sh", "-c", "echo no such GPU >&2; exit 6"};
    const auto failure = co_await words_of_run(s, std::move(fails), 300ms);
    CHECK(failure.ends_with("exit status 6: no such GPU"));
    std::vector<std::string> talks{"sh", "-c", "yes | head -c 1048577"};
    const auto cut = co_await words_of_run(s, std::move(talks), 20s);
    CHECK(cut.ends_with("it wrote more than 1MiB"));
    std::vector<std::string> sleeps{"sleep", "30"};
    const auto late = co_await words_of_run(s, std::move(sleeps), 300ms);
    CHECK(late.ends_with("it has not ended within 0 s"));
  });
}

TEST_CASE("a flood arrives whole, is slowed down instead of stored, and leaves the agent responsive") {
  Session session;
  session.run(+[](Session& s) -> Task {
    constexpr std::size_t many_bytes = 50'000'000;
    auto received = std::make_shared<std::size_t>(0);
    auto status = std::make_shared<std::optional<int>>();
    ProcessEvents events;
    events.on_output = [received](OutputStream, std::string_view bytes, std::int64_t) {
      // A slow reader at first, so that all queues between the process and us are full.
      if (*received < 1'000'000) { std::this_thread::sleep_for(10ms); }
      *received += bytes.size();
    };
    events.on_exit = [status](int code) { *status = code; };
    const auto before_kib = s.agent().peak_memory_kib();
    const auto spec = command({"head", "-c", std::to_string(many_bytes), "/dev/zero"});
    co_await s.client().start(spec, std::move(events));
    co_await s.client().synchronize_clock(4);  // answered in the middle of it
    const bool answered_early = *received < many_bytes;
    CHECK(answered_early);
    const std::function<bool()> ended = [status] { return status->has_value(); };
    co_await s.until(ended);
    CHECK(*received == many_bytes);
    CHECK(s.agent().peak_memory_kib() - before_kib < 32'768);
  });
}

TEST_CASE("an agent that is killed is lost at once, and who waits for it hears of it") {
  Session session;
  static std::weak_ptr<int> of_a_process;
  session.run(+[](Session& s) -> Task {
    const auto owner = std::make_shared<int>();
    of_a_process = owner;
    ProcessEvents events;
    events.on_exit = [owner](int) {};
    const std::vector<std::string> sleep{"sleep", "100"};
    const auto spec = command(sleep);
    co_await s.client().start(spec, std::move(events));
    const auto before_ns = monotonic_ns();
    ::kill(s.agent().pid(), SIGKILL);
    auto request = s.client().sweep();
    const auto words = co_await words_of(std::move(request));
    CHECK_THAT(words, Contains("node-1") && Contains("its channel closed"));
    CHECK(monotonic_ns() - before_ns < std::chrono::nanoseconds(AgentClient::silence_limit / 2).count());
    CHECK(s.client().is_lost());
    auto again = s.client().sweep();
    const auto still = co_await words_of(std::move(again));
    CHECK_THAT(still, Contains("its channel closed"));
  });
  REQUIRE(session.lost.size() == 1);
  CHECK_THAT(session.lost[0], Contains("its channel closed"));
  CHECK(of_a_process.expired());  // a job holds its nodes' clients, which must not hold it
}

TEST_CASE("an agent that goes silent is lost after the limit, not before") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const auto before_ns = monotonic_ns();
    ::kill(s.agent().pid(), SIGSTOP);
    const std::function<bool()> lost = [&s] { return !s.lost.empty(); };
    co_await s.until(lost);
    CHECK_THAT(s.lost[0], Contains("silent"));
    CHECK(monotonic_ns() - before_ns > std::chrono::nanoseconds(AgentClient::silence_limit / 2).count());
  });
  session.agent().end(SIGKILL);
}

TEST_CASE("an agent is not silent while this process itself stands still") {
  Session session;
  session.run(+[](Session& s) -> Task {
    // As a write does to a database that another process holds.
    std::this_thread::sleep_for(AgentClient::silence_limit + 2s);
    asio::steady_timer later(s.io, 2s);
    co_await later.async_wait(asio::use_awaitable);
    CHECK(s.lost.empty());
  });
}

TEST_CASE("when the coordinator goes, everything the agent started goes, and so does the agent") {
  Session session;
  session.run(+[](Session& s) -> Task {
    const std::string moving =
        "sleep 1000 & setsid sleep 1000 & setsid sh -c 'trap \"\" TERM HUP INT; sleep 1000 & sleep 1000' & "
        "sleep 1000";
    const auto spec = command({"sh", "-c", moving});
    co_await s.client().start(spec, {});
    const std::function<bool()> all_there = [&s] { return s.agent().leftovers().size() >= 6; };
    co_await s.until(all_there);
  });
  CHECK(session.agent().ends_well());
  CHECK(session.agent().leftovers().empty());
}

TEST_CASE("a command in a node that is lost ends with the reason, not with its deadline") {
  Session session;
  static std::string words;
  session.run(+[](Session& s) -> Task {
    asio::steady_timer soon(s.io, 200ms);
    soon.async_wait([&s](const auto&) { s.agent().end(SIGKILL); });
    const std::vector<std::string> sleep{"sleep", "100"};
    try {
      co_await run_in_node(s.io, s.clients.at(0), sleep, 50s);
    } catch (const Error& error) { words = error.what(); }
  });
  CHECK_THAT(words, Contains("run sleep 100 in node-1") && Contains("its channel closed"));
}
