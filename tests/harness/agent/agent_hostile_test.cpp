#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/un.h>

#include <limits>
#include <random>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/text.h"
#include "harness/agent/rsh_socket.h"
#include "harness/job/trainer_job.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/made_frame.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace virtrain::test;
using virtrain::test::Contains;

namespace {

using Task = asio::awaitable<void>;

/// Speaks frames over a socket without any of the client's care.
class RawPeer {
 public:
  explicit RawPeer(int fd) : fd_(fd) {}
  /// As much as the socket takes at once; how much that was.
  std::size_t send(std::string_view bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
      const auto n = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0) { break; }
      sent += static_cast<std::size_t>(n);
    }
    return sent;
  }
  void send_json(const std::string& text) {
    Frame frame;
    frame.message = nlohmann::json::parse(text);
    send(encode(frame));
  }
  /// The next frame of this type; other frames are passed over.
  nlohmann::json wait_for(const std::string& type) {
    char chunk[65536];
    while (true) {
      while (auto frame = decoder_.next()) {
        if (frame->message["type"] == type) { return frame->message; }
      }
      pollfd ready{fd_, POLLIN, 0};
      REQUIRE(::poll(&ready, 1, 20'000) > 0);
      const auto got = ::recv(fd_, chunk, sizeof chunk, 0);
      REQUIRE(got > 0);
      decoder_.feed({chunk, static_cast<std::size_t>(got)});
    }
  }

 private:
  int fd_;
  FrameDecoder decoder_;
};

/// What the client says of an agent that sends these bytes, `answer` once it is asked something, and then
/// nothing more or its end.
std::string handshake_with(const std::string& bytes, bool stays, const std::string& answer = "") {
  asio::io_context io;
  auto ends = make_socketpair();
  RawPeer(ends[1].get()).send(bytes);
  if (!stays) { ends[1].reset(); }
  std::thread answering([&ends, &answer] {
    pollfd asked{ends[1].get(), POLLIN, 0};
    if (!answer.empty() && ::poll(&asked, 1, 10'000) > 0) { RawPeer(ends[1].get()).send(answer); }
  });
  auto client = std::make_shared<AgentClient>(io, "rogue", std::move(ends[0]));
  std::string words = "(accepted)";
  asio::co_spawn(io, client->handshake(2s), [&](std::exception_ptr error, const NodeReport&) {
    try {
      if (error) { std::rethrow_exception(error); }
    } catch (const Error& e) { words = e.what(); }
    client->close();
  });
  io.run_for(20s);
  answering.join();
  return words;
}

std::string announce() {
  return encode(make_frame("announce", 0));
}

}  // namespace

TEST_CASE("requests with fields of the wrong type fail alone, and the agent goes on") {
  AgentProcess agent;
  RawPeer peer(agent.channel());
  peer.wait_for("announce");
  for (const char* request :
       {R"({"type":"start","id":1})", R"({"type":"start","id":1,"argv":"sh"})",
        R"({"type":"start","id":1,"argv":[1]})", R"({"type":"start","id":1,"argv":["sh"],"environment":[]})",
        R"({"type":"start","id":1,"argv":{"a":1}})", R"({"type":"read_file","id":1})",
        R"({"type":"read_file","id":1,"path":7})",
        R"({"type":"write_file","id":1,"path":"/proc/nothing","mode":"x"})", R"({"type":"hello","id":1})",
        R"({"type":"reach","id":1,"address":"127.0.0.1"})", R"({"type":"telemetry","id":1,"period_ms":"a"})",
        R"({"type":"telemetry","id":1,"period_ms":1000,"cores":"a-b"})", R"({"type":"unheard","id":1})"}) {
    INFO(request);
    peer.send_json(request);
    const auto answer = peer.wait_for("failed");
    CHECK(answer["id"] == 1);
    CHECK_FALSE(answer["message"].get<std::string>().empty());
  }
  peer.send_json(R"({"type":"ping","id":9})");
  CHECK(peer.wait_for("pong")["id"] == 9);
  agent.close_channel();
  CHECK(agent.ends_well());
}

TEST_CASE("garbage from a coordinator ends the conversation and its processes, never the agent by a signal") {
  std::mt19937 random(5);
  std::vector<std::string> streams{"GET / HTTP/1.1\r\n\r\n", std::string(64, '\0'),
                                   std::string(1 << 16, '\xff')};
  std::string noise(4096, ' ');
  for (char& byte : noise) { byte = static_cast<char>(random()); }
  streams.push_back(noise);
  streams.push_back(encode(make_frame("ping", 1)) + noise);
  std::string no_id = encode(Frame{{{"type", "ping"}}, {}});
  streams.push_back(no_id);
  for (const auto& stream : streams) {
    AgentProcess agent;
    RawPeer peer(agent.channel());
    peer.wait_for("announce");
    peer.send_json(R"({"type":"start","id":1,"argv":["sleep","1000"]})");
    peer.wait_for("started");
    CHECK(agent.leftovers().size() == 1);
    peer.send(stream);
    CHECK(agent.ends_well());
    CHECK(agent.leftovers().empty());
  }
}

TEST_CASE("a coordinator that goes in the middle of a flood, with every queue full, is noticed") {
  AgentProcess agent;
  RawPeer peer(agent.channel());
  peer.wait_for("announce");
  peer.send_json(R"({"type":"start","id":1,"argv":["yes"]})");
  peer.wait_for("started");
  // Nothing is read from here on. Pings until nothing more is taken: the agent stands in the sending of a
  // pong.
  const auto ping = encode(make_frame("ping", 2));
  int quiet = 0;
  while (quiet < 20) {
    quiet = peer.send(ping) == ping.size() ? 0 : quiet + 1;
    if (quiet > 0) { std::this_thread::sleep_for(10ms); }
  }
  agent.close_channel();
  CHECK(agent.ends_well());
  CHECK(agent.leftovers().empty());
}

TEST_CASE("garbage from an agent: the client loses it with words") {
  CHECK_THAT(handshake_with("SSH-2.0-OpenSSH_9.2\r\n", true),
             Contains("it broke the protocol") && Contains("magic"));
  CHECK_THAT(handshake_with(std::string("VTRM\x02\0\0\0\0\0\0\0\0\0\0\0", 16), true),
             Contains("the peer speaks version 2"));
  CHECK_THAT(handshake_with(std::string("VTRM\x01\0\0\0\xff\xff\xff\xff\0\0\0\0", 16), true),
             Contains("over the limits"));
  CHECK_THAT(handshake_with(encode(Frame{{{"type", "announce"}}, {}}), true), Contains("field 'id'"));
  CHECK_THAT(handshake_with("", false),
             Contains("reach the agent of rogue") && Contains("its channel closed"));
  CHECK_THAT(handshake_with("", true), Contains("no message from it within 2 s"));
  CHECK_THAT(handshake_with(announce(), true), Contains("no answer within 2000 ms"));
  CHECK_THAT(handshake_with(announce(), false), Contains("its channel closed") || Contains("Broken pipe"));
  const auto answered = [](const Frame& answer) { return handshake_with(announce(), true, encode(answer)); };
  CHECK_THAT(answered(make_frame("hello", 1, "nonce", "old")),
             Contains("nonce mismatch in the reply to hello"));
  CHECK_THAT(answered(make_frame("hello", 1)), Contains("field 'nonce'"));
  CHECK_THAT(answered(make_frame("failed", 1, "message", 5)), Contains("ask the agent of rogue to hello"));
  CHECK_THAT(answered(make_frame("failed", 1, "message", "\x1b[2J")), Contains("\uFFFD[2J"));
  CHECK_THAT(answered(make_frame("telemetry", 0, "values", 5, "t_ns", "x")), Contains("no answer within"));
}

namespace {

/// The handshake fails, after which the agent is still asked to sweep.
Task sweep_all_the_same(std::shared_ptr<AgentClient> client, std::string* words) {
  try {
    co_await client->handshake(20s);
  } catch (const Error& error) { CHECK_THAT(error.what(), Contains("nonce mismatch")); }
  try {
    co_await client->sweep();
  } catch (const Error& error) { *words = error.what(); }
  client->close();
}

/// What the client says of an agent that claims to have ended so many processes.
std::string sweep_of(std::int64_t count) {
  asio::io_context io;
  auto ends = make_socketpair();
  std::thread answering([&ends, count] {
    RawPeer peer(ends[1].get());
    peer.send(announce());
    const auto hello = peer.wait_for("hello")["id"].get<std::int64_t>();
    peer.send(encode(make_frame("hello", hello, "nonce", "old")));
    const auto sweep = peer.wait_for("sweep")["id"].get<std::int64_t>();
    peer.send(encode(make_frame("swept", sweep, "count", count)));
  });
  std::string words = "(accepted)";
  const auto client = std::make_shared<AgentClient>(io, "rogue", std::move(ends[0]));
  asio::co_spawn(io, sweep_all_the_same(client, &words), asio::detached);
  io.run_for(20s);
  answering.join();
  return words;
}

}  // namespace

TEST_CASE("a number of processes that no machine has is refused: the nodes' are added up") {
  CHECK(sweep_of(0) == "(accepted)");
  CHECK(sweep_of(1 << 22) == "(accepted)");
  CHECK_THAT(sweep_of((1 << 22) + 1), Contains("it claims to have ended 4194305 processes"));
  CHECK_THAT(sweep_of(std::numeric_limits<std::int64_t>::max()), Contains("ended 9223372036854775807"));
  CHECK_THAT(sweep_of(-1), Contains("it claims to have ended -1 processes"));
}

namespace {

/// What an agent told one of its children.
struct RshAddress {
  std::string socket, secret;
};

RshAddress rsh_address(RawPeer& peer, const AgentProcess& agent) {
  peer.send_json(R"({"type":"start","id":7,"argv":["sleep","1000"]})");
  const auto child = peer.wait_for("started")["pid"].get<int>();
  RshAddress found;
  REQUIRE(comes_true([&] {
    for (const auto& entry : split(read_file(fmt::format("/proc/{}/environ", child)).value_or(""), '\0')) {
      if (entry.starts_with("VIRTRAIN_AGENT_SOCKET=")) { found.socket = entry.substr(22); }
      if (entry.starts_with("VIRTRAIN_AGENT_SECRET=")) { found.secret = entry.substr(22); }
    }
    return !found.socket.empty();
  }));
  REQUIRE(agent.pid() > 0);
  return found;
}

/// From a child of this test, not of the agent, after `become`: whether the agent takes a request for a
/// shell.
bool takes_request_from(const RshAddress& at, const std::function<void()>& become) {
  const pid_t child = ::fork();
  if (child == 0) {
    become();
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    at.socket.copy(address.sun_path, sizeof address.sun_path - 1);
    const auto length = offsetof(sockaddr_un, sun_path) + at.socket.size();
    if (address.sun_path[0] == '@') { address.sun_path[0] = '\0'; }
    const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), static_cast<socklen_t>(length)) != 0) {
      ::_exit(1);
    }
    RawPeer(socket).send(encode(make_frame("rsh", 0, "host", "t1n2", "command", "id", "secret", at.secret)));
    pollfd closed{socket, POLLIN, 0};
    char byte = 0;
    const bool refused = ::poll(&closed, 1, 3000) > 0 && ::recv(socket, &byte, 1, 0) <= 0;
    ::_exit(refused ? 1 : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

TEST_CASE("row 1: no other user, no other process and nobody without the secret gets a shell from an agent") {
  AgentProcess agent;
  RawPeer peer(agent.channel());
  peer.wait_for("announce");
  const auto address = rsh_address(peer, agent);
  CHECK_FALSE(takes_request_from(address, [] {}));
  if (::geteuid() == 0) {
    CHECK_FALSE(takes_request_from(address, [] {
      constexpr uid_t nobody = 65534;
      if (::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0) {
        ::_exit(1);
      }
    }));
  }
  const auto rsh = [&](int id, const std::string& environment) {
    peer.send_json(
        fmt::format(R"({{"type":"start","id":{},"argv":["env","{}","{}/virtrain-rsh","t1n2","id"]}})", id,
                    environment, VIRTRAIN_BINARY_DIR));
  };
  rsh(8, "VIRTRAIN_AGENT_SECRET=guessed");
  CHECK(peer.wait_for("exit")["status"] == 255);
  // No file of it is left, however the agent ends.
  CHECK(std::filesystem::read_symlink(address.socket).string().ends_with(" (deleted)"));
  rsh(9, "NONE=");
  CHECK(peer.wait_for("rsh")["command"] == "id");
  agent.close_channel();
  CHECK(agent.ends_well());
}

TEST_CASE("virtrain-rsh outside of an agent says so and ends with ssh's 255") {
  ::unsetenv(rsh_socket_variable);
  const std::string program = std::string(VIRTRAIN_BINARY_DIR) + "/virtrain-rsh";
  const auto none = run_command({program, "t1n2", "true"});
  CHECK(none.exit_status == 255);
  CHECK_THAT(none.err, Contains("VIRTRAIN_AGENT_SOCKET is not set"));
  CommandOptions gone;
  gone.environment = {std::string(rsh_socket_variable) + "=/proc/self/fd/1000"};
  const auto refused = run_command({program, "t1n2", "true"}, gone);
  CHECK(refused.exit_status == 255);
  CHECK_THAT(refused.err, Contains("connect to the agent at /proc/self/fd/1000") && Contains("No such file"));
  CHECK(run_command({program, "t1n2"}).exit_status == 2);
}

namespace {

/// A job over two agents whose mpirun is this script.
struct ScriptedJob {
  std::filesystem::path folder;
  TenantPlacement placement;
  std::shared_ptr<TrainerJob> job;

  explicit ScriptedJob(const std::string& script) {
    std::string name = "/tmp/virtrain-job-test-XXXXXX";
    folder = ::mkdtemp(name.data());
    const auto program = folder / "mpirun.openmpi";
    write_file_atomically(program, "#!/bin/sh\n" + script);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    placement.name = "tenant";
    placement.workload.environment["PATH"] =
        fmt::format("{}:{}:/usr/bin:/bin", folder.string(), VIRTRAIN_BINARY_DIR);
    for (const char* host : {"t1n1", "t1n2"}) {
      NodePlacement node;
      node.hostname = host;
      node.address = "127.0.0.1/8";
      placement.nodes.push_back(node);
    }
  }
  ~ScriptedJob() { std::filesystem::remove_all(folder); }

  /// Runs the script to its end; what it said beside records, with the error that follows.
  /// Once it waits for the ranks' hello, the event loop stands still for a while.
  std::string run(Session& session, std::chrono::milliseconds deadline = 30s,
                  std::chrono::milliseconds standstill = 0ms) {
    static ScriptedJob* current;
    static std::string words;
    static std::chrono::milliseconds longest, stands_still;
    current = this;
    longest = deadline;
    stands_still = standstill;
    session.run(+[](Session& s) -> Task {
      std::vector<JobNode> nodes;
      for (std::size_t n = 0; n < 2; ++n) {
        nodes.push_back({.hostname = current->placement.nodes[n].hostname,
                         .agent = s.clients.at(n),
                         .interface = "lo",
                         .address = "127.0.0.1"});
      }
      current->job =
          std::make_shared<TrainerJob>(s.io, current->placement, std::move(nodes), RankNetwork::tcp);
      try {
        co_await current->job->launch("trainer", 60s);
        asio::post(s.io, [] { std::this_thread::sleep_for(stands_still); });
        co_await current->job->wait_for_hello(longest);
        words = "(no error)";
      } catch (const Error& error) { words = error.what(); }
    });
    return words;
  }
};

}  // namespace

TEST_CASE("mpirun's remote shell runs on the other node, with its output and exit status") {
  Session session(2);
  ScriptedJob job(
      "virtrain-rsh t1n2 'echo relayed $OMPI_ALLOW_RUN_AS_ROOT $PPID; echo bad >&2; exit 5'; echo status $?\n"
      "virtrain-rsh t1n2 echo several words; echo status $?\n"
      "virtrain-rsh nowhere true; echo status $?\n"
      "printf '{\"record\":\"hel'; printf 'its last words' >&2; exit 3\n");
  const auto words = job.run(session);
  CHECK_THAT(words, Contains(fmt::format("relayed 1 {}", session.agents[1]->pid())));
  CHECK_THAT(words, Contains("bad\n") && Contains("status 5\n") && Contains("several words\nstatus 0\n"));
  CHECK_THAT(words, Contains("no node of this tenant is named nowhere") && Contains("status 255"));
  CHECK_THAT(words, Contains("ended with exit status 3") && Contains("\n{\"record\":\"hel\nits last words"));
}

TEST_CASE("what came while the coordinator itself stood still came in time") {
  Session session(2);
  ScriptedJob job(
      "sleep 0.3\nfor rank in 0 1; do echo '{\"record\":\"hello\",\"rank\":'$rank',\"size\":2,"
      "\"local_rank\":0,\"hostname\":\"a\"}'; done\nsleep 20\n");
  CHECK(job.run(session, 600ms, 1500ms) == "(no error)");
}

TEST_CASE("a remote shell that is given up takes its command with it") {
  Session session(2);
  ScriptedJob job(
      "virtrain-rsh t1n2 'echo started; exec sleep 1000' > /tmp/virtrain-shell-$$ & shell=$!\n"
      "while ! grep -q started /tmp/virtrain-shell-$$; do sleep 0.05; done; rm /tmp/virtrain-shell-$$\n"
      "kill -9 $shell\n"
      // The second is behind the first on the same way, so that the signal has been sent when this returns.
      "virtrain-rsh t1n2 true\n"
      "virtrain-rsh t1n2 'while pgrep -P $PPID -x sleep; do sleep 0.05; done'; echo gone\n");
  CHECK_THAT(job.run(session), Contains("gone"));
}

TEST_CASE("records that do not hold end the job with words") {
  const auto words = [](const std::string& script) {
    Session session(2);
    ScriptedJob job(script + "\nsleep 20\n");
    return job.run(session);
  };
  CHECK_THAT(words("echo '{\"record\":\"hello\",\"rank\":5,\"size\":2,\"local_rank\":0,\"hostname\":\"a\"}'"),
             Contains("rank 5 of 2"));
  CHECK_THAT(words("echo '{broken'"), Contains("a record is not a JSON object"));
  CHECK_THAT(words("echo '{\"record\":\"error\",\"rank\":1,\"message\":\"no memory\"}'"),
             Contains("rank 1: no memory"));
  // Else a node could say anew, and ever later, when its counted steps began.
  CHECK_THAT(
      words(fmt::format("echo '{{\"record\":\"sample\",\"rank\":1,\"t_ns\":{0},\"step\":1,\"images\":32,"
                        "\"seconds\":1}}'\necho '{{\"record\":\"warmup\",\"rank\":1,\"t_ns\":{0}}}'",
                        monotonic_ns())),
      Contains("rank 1 sends a warm-up step after a counted one"));
  CHECK_THAT(words("yes 'a line that is no record' | head -c 9000000"),
             Contains("output that is not the protocol"));
}

TEST_CASE("row 4: what waits for a node that reads nothing is bounded, and who posts more is told") {
  asio::io_context io;
  auto [ours, theirs] = make_socketpair();
  const auto connection = std::make_shared<Connection>(io, std::move(ours));
  Frame frame = make_frame("rsh_output", 1);
  frame.body = std::string(100'000, 'x');
  std::size_t waiting = 0;
  while (connection->post(frame)) {
    waiting += frame.body.size();
    REQUIRE(waiting <= max_posted_bytes);
  }
  CHECK(waiting > max_posted_bytes / 2);
}
