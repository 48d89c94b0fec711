// The protocol between coordinator and host, over real frames with a FakeHost behind them: what passes
// unchanged, what a hostile or foreign peer gets, and what is left where one side goes.

#include "harness/hosts/host_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <set>

#include "common/error.h"
#include "common/version.h"
#include "tests/support/catch.h"
#include "tests/support/fake_host.h"
#include "tests/support/framed_host.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/api/protocol/calls.h"
#include "vmctl/api/protocol/messages.h"
#include "vmctl/host/host_server.h"

namespace virtrain::harness {
namespace {

using namespace std::chrono_literals;
using namespace vmctl;
using nlohmann::json;
using test::Contains;
using test::FakeHost;
using test::FramedHost;

const std::filesystem::path agent = std::filesystem::path(VIRTRAIN_BINARY_DIR) / "virtrain-agent";

struct Fake {
  const TemporaryFolder folder;
  FakeHost host{folder.path, agent, {}};
};

ErrorCode code_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) { return error.code(); }
  FAIL("nothing was thrown");
  return ErrorCode::io;
}

NodeGroupSpec one_node() {
  NodeSpec node;
  node.hostname = "t1n1";
  node.address = "10.77.0.2/16";
  node.mac = "52:54:00:00:00:01";
  node.cores = {0};
  node.memory_bytes = 1ULL << 30;
  NodeGroupSpec group;
  group.guest.memory_bytes = 1ULL << 30;
  group.tenants = {{node}};
  return group;
}

/// A coordinator that says what it likes.
class Liar {
 public:
  explicit Liar(FakeHost& host, LinkTimes times = {}) {
    auto [ours, theirs] = make_socketpair();
    ours_ = std::move(ours);
    server_ = std::make_unique<HostServer>(host, duplicate(theirs.get()), std::move(theirs), times);
    thread_ = std::thread([this] {
      why_ = server_->serve();
      server_->undo();
    });
  }
  ~Liar() {
    ours_.reset();
    if (thread_.joinable()) { thread_.join(); }
  }

  void say(const std::string& bytes) const {
    REQUIRE(::send(ours_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }
  void say(const json& message) const {
    Frame frame;
    frame.message = message;
    say(encode(frame, host_frame_limits));
  }
  void greet() const { say(to_json(Hello{virtrain_version, protocol_digest()})); }
  void call(const std::string& name, const json& arguments) const {
    say(to_json(HostCall{1, name, arguments}));
  }
  /// The next message of that type; null where the connection ends before.
  json hear(const std::string& type) {
    char bytes[65536];
    while (true) {
      while (const auto frame = decoder_.next()) {
        if (frame->message.value("type", "") == type) { return frame->message; }
      }
      pollfd ready{ours_.get(), POLLIN, 0};
      REQUIRE(::poll(&ready, 1, 20'000) == 1);
      const auto size = ::read(ours_.get(), bytes, sizeof bytes);
      if (size <= 0) { return nullptr; }
      decoder_.feed({bytes, static_cast<std::size_t>(size)});
    }
  }
  /// Why the server ended by itself.
  std::string end() {
    thread_.join();
    return why_;
  }

 private:
  UniqueFd ours_;
  FrameDecoder decoder_{host_frame_limits};
  std::unique_ptr<HostServer> server_;
  std::thread thread_;
  std::string why_;
};

}  // namespace

TEST_CASE("values pass the frames unchanged") {
  Fake fake;
  FramedHost framed(fake.host);
  auto& client = framed.client();
  CHECK(wire::write(client.inventory(true)) == wire::write(FakeHost::small_inventory()));
  CHECK(client.fingerprint() == fake.host.fingerprint());
  CHECK(client.log_root() == fake.folder.path);
  client.begin({.experiment = "20261129t000000-000000", .results_db = "/x.db"});
  const auto group = client.plan_nodes(one_node());
  REQUIRE(group.nodes.size() == 1);
  CHECK(group.nodes[0].memory_bytes == 1ULL << 30);
  client.make_networks(group.id);
  auto started = client.start(group.nodes[0].id);
  REQUIRE(started.agent);
  pollfd ready{started.agent.get(), POLLIN, 0};
  REQUIRE(::poll(&ready, 1, 20'000) == 1);  // its agent announces itself
  client.remove(group.id);
  client.end(true);
  CHECK(fake.host.left().empty());
  CHECK(fake.host.ended() == true);
}

TEST_CASE("an Error keeps its code, its operation and its words") {
  Fake fake;
  for (const auto code : enum_values<ErrorCode>()) {
    fake.host.plant_fault("privileges", {.error = Error("try it", code, "what came back\n\"quoted\"")}, 0);
    FramedHost framed(fake.host);
    try {
      framed.client().privileges();
      FAIL("nothing was thrown");
    } catch (const Error& error) {
      CHECK(error.code() == code);
      CHECK(error.operation() == "try it");
      CHECK(error.message() == "what came back\n\"quoted\"");
    }
  }
}

TEST_CASE("a call that blocks delays no other, and ends when it is cancelled") {
  Fake fake;
  fake.host.plant_fault("make_image", {.until_cancelled = true});
  FramedHost framed(fake.host);
  framed.client().begin({.experiment = "e"});
  auto image =
      std::async(std::launch::async, [&] { return code_of([&] { framed.client().make_image({}); }); });
  CHECK(framed.client().fingerprint().size() == 3);
  CHECK(image.wait_for(0s) != std::future_status::ready);
  framed.client().cancel();
  CHECK(image.get() == ErrorCode::interrupted);
}

TEST_CASE("counters come once a second, and reading them asks nothing of the host") {
  Fake fake;
  FramedHost framed(fake.host);
  const auto waits = [&](std::chrono::nanoseconds time, std::chrono::milliseconds at_most) {
    const auto end = std::chrono::steady_clock::now() + at_most;
    while (std::chrono::steady_clock::now() < end) {
      const auto waiting = framed.client().look().waiting;
      if (waiting == std::map<NodeId, std::chrono::nanoseconds>{{7, time}}) { return true; }
      std::this_thread::sleep_for(1ms);
    }
    return false;
  };
  CHECK(framed.client().look().waiting.empty());
  fake.host.let_wait(7, 5s);
  CHECK(waits(5s, 3s));
  fake.host.let_wait(7, 9s);
  CHECK(waits(9s, 3s));
  CHECK(fake.host.calls("look") <= 7);
  framed.server().stop("killed");
  CHECK(code_of([&] { framed.client().fingerprint(); }) == ErrorCode::io);
  CHECK(framed.client().look().waiting.at(7) == 9s);  // of a host that is gone they stay
}

TEST_CASE("counters that cannot be end the connection") {
  Fake fake;
  fake.host.let_wait(7, -1ns);
  FramedHost framed(fake.host);
  try {
    while (true) { framed.client().fingerprint(); }
  } catch (const Error& error) {
    CHECK_THAT(error.what(), Contains("'counters.waiting' must be times that are not negative"));
  }
  CHECK(framed.client().look().waiting.empty());
}

TEST_CASE("a thread with a loop waits for no host") {
  Fake fake;
  FramedHost framed(fake.host);
  {
    const LoopThread this_thread;
    CHECK(code_of([&] { framed.client().fingerprint(); }) == ErrorCode::protocol);
    CHECK(std::async(std::launch::async, [&] { return framed.client().fingerprint().size(); }).get() == 3);
    framed.client().look();
    framed.client().cancel();
  }
  CHECK(fake.host.calls("fingerprint") == 1);
  CHECK(framed.client().fingerprint().size() == 3);
}

TEST_CASE("what a coordinator has made is undone when it goes") {
  Fake fake;
  {
    FramedHost framed(fake.host);
    framed.client().begin({.experiment = "e"});
    const auto first = framed.client().plan_nodes(one_node()),
               second = framed.client().plan_nodes(one_node());
    for (const auto& group : {first, second}) {
      framed.client().make_networks(group.id);
      framed.client().start(group.nodes[0].id);
    }
    DeviceGrant grant;
    grant.address = "0000:65:00.0";
    framed.client().lend({grant}, {});
    CHECK(fake.host.left().size() == 6);
    CHECK(framed.end() == "it ended");
  }
  CHECK(fake.host.left() == std::set<std::string>{"run"});
  CHECK(fake.host.ended() == false);  // nobody has stored how it ended: `clean` marks it
}

TEST_CASE("a run that did not begin has nothing to be undone") {
  Fake fake;
  fake.host.plant_fault("begin", {.error = Error("begin", ErrorCode::host_unable, "refused")});
  FramedHost framed(fake.host);
  CHECK(code_of([&] { framed.client().begin({.experiment = "e"}); }) == ErrorCode::host_unable);
  framed.end();
  CHECK(fake.host.calls("end") == 0);
}

TEST_CASE("what cannot be undone keeps nothing else from being undone") {
  Fake fake;
  fake.host.plant_fault("give_back", {.error = Error("give back", ErrorCode::io, "it is stuck")}, 0);
  FramedHost framed(fake.host);
  framed.client().begin({.experiment = "e"});
  const auto group = framed.client().plan_nodes(one_node());
  framed.client().make_networks(group.id);
  DeviceGrant grant;
  grant.address = "0000:65:00.0";
  framed.client().lend({grant}, {});
  framed.end();
  CHECK(fake.host.left() == std::set<std::string>{"device 0000:65:00.0", "run"});
}

TEST_CASE("a host that ends fails the calls under way, and each later one") {
  Fake fake;
  fake.host.plant_fault("make_image", {.until_cancelled = true});
  FramedHost framed(fake.host);
  framed.client().begin({.experiment = "e"});
  auto image = std::async(std::launch::async, [&] {
    try {
      framed.client().make_image({});
    } catch (const Error& error) { return std::string(error.what()); }
    return std::string();
  });
  while (fake.host.calls("make_image") == 0) { std::this_thread::sleep_for(1ms); }
  framed.server().stop("killed");
  CHECK_THAT(image.get(), Contains("virtrain-host is gone") && Contains("virtrain clean --verify"));
  CHECK(code_of([&] { framed.client().fingerprint(); }) == ErrorCode::io);
}

TEST_CASE("a coordinator of another build is refused in words, and nothing is done") {
  Fake fake;
  for (const auto& hello : {Hello{"0.0.1", protocol_digest()}, Hello{virtrain_version, "0123456789abcdef"}}) {
    Liar liar(fake.host);
    liar.say(to_json(hello));
    CHECK_THAT(liar.hear("failure")["message"].get<std::string>(), Contains("it is of another build"));
    liar.call("begin", json::array());
    CHECK(liar.end() == "read a message of the host protocol: 'call' is not expected now");
  }
  CHECK(fake.host.calls("begin") == 0);
}

TEST_CASE("a host of another build is refused in words") {
  auto [ours, theirs] = make_socketpair();
  Frame frame;
  frame.message = to_json(Hello{"0.0.1", protocol_digest()});
  const auto bytes = encode(frame, host_frame_limits);
  REQUIRE(::write(theirs.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  CHECK_THROWS_WITH(host_client({duplicate(ours.get()), std::move(ours), -1}), Contains("version 0.0.1"));
}

TEST_CASE("what does not fit the protocol ends the connection, and nothing was called") {
  Fake fake;
  const auto refused = [&](const std::function<void(Liar&)>& say) {
    Liar liar(fake.host);
    liar.greet();
    say(liar);
    return liar.end();
  };
  CHECK_THAT(
      refused([](Liar& liar) { liar.say(std::string("no frame at all, but long enough for its header")); }),
      Contains("wrong magic number"));
  CHECK_THAT(refused([](Liar& liar) {
               liar.say(json{{"type", "answer"}, {"id", 1}});
             }),
             Contains("'answer' is not expected"));
  CHECK_THAT(refused([](Liar& liar) {
               liar.say(json{{"type", "call"}, {"id", 1}});
             }),
             Contains("'call.call' must be there"));
  CHECK_THAT(refused([](Liar& liar) {
               auto call = to_json(HostCall{1, "begin", json::array()});
               call["sudo"] = true;
               liar.say(call);
             }),
             Contains("without other members"));
  CHECK_THAT(refused([](Liar& liar) {
               liar.say(json{{"type", "credit"}, {"stream", "x"}, {"bytes", 1}});
             }),
             Contains("'stream' is missing or not a whole number"));
  CHECK(fake.host.calls("begin") == 0);
}

TEST_CASE("arguments that do not fit are refused with their place, and nothing was called") {
  Fake fake;
  Liar liar(fake.host);
  liar.greet();
  const auto refusal = [&](const std::string& call, const json& arguments) {
    liar.call(call, arguments);
    return liar.hear("failure")["message"].get<std::string>();
  };
  CHECK(refusal("format_disk", json::array()) == "no call is named 'format_disk'");
  CHECK(refusal("begin", json::array()) == "'begin' must be called with 1 arguments");
  CHECK(refusal("numa_nodes_of", json::array({json::array({0, "1"})})) ==
        "'numa_nodes_of[0][1]' must be a whole number that its type holds");
  CHECK(refusal("numa_nodes_of", json::array({json::array({3'000'000'000})})) ==
        "'numa_nodes_of[0][0]' must be a whole number that its type holds");
  CHECK(refusal("examine", json::array({"root"})) == "'examine[0]' must be system, namespaces or session");
  CHECK_THAT(refusal("look_at_cuda", json::array({std::string("a\0b", 3)})),
             Contains("a text without zeros"));
  auto run = wire::write(RunSpec{.experiment = "e"});
  run.erase("mode");
  CHECK(refusal("begin", json::array({run})) == "'begin[0].mode' must be there");
  auto group = wire::write(one_node());
  group["tenants"][0][0]["memory_bytes"] = -1;
  CHECK(refusal("plan_nodes", json::array({group})) ==
        "'plan_nodes[0].tenants[0][0].memory_bytes' must be a whole number that its type holds");
  for (const auto* call : {"begin", "numa_nodes_of", "examine", "look_at_cuda", "plan_nodes"}) {
    INFO(call);
    CHECK(fake.host.calls(call) == 0);
  }
}

TEST_CASE("a coordinator that falls silent is taken for gone, and what it had is undone") {
  Fake fake;
  Liar liar(fake.host, {.beat = 50ms, .silent = 300ms});
  liar.greet();
  liar.call("begin", json::array({wire::write(RunSpec{.experiment = "e"})}));
  liar.hear("answer");
  liar.call("plan_nodes", json::array({wire::write(one_node())}));
  const auto group = liar.hear("answer")["value"]["id"];
  liar.call("make_networks", json::array({group}));
  liar.hear("answer");
  CHECK(fake.host.left() == std::set<std::string>{"network 1", "run"});
  CHECK_THAT(liar.end(), Contains("it was silent for"));
  CHECK(fake.host.left() == std::set<std::string>{"run"});
}

TEST_CASE("each call of a host has a row in the protocol") {
  std::set<std::string> rows;
#define ROW(CALL, ORDER) rows.insert(#CALL);
  VIRTRAIN_HOST_CALLS(ROW)
#undef ROW
  CHECK(rows.size() == 53);
  CHECK(protocol_digest().size() == 16);
}

}  // namespace virtrain::harness
