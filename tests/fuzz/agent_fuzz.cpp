// A whole conversation with an agent that lies: from its announcement to the judgement of its trial. Whatever
// it says, the coordinator ends the job with an Error or keeps only what the database takes.
//
// An input is a list of lies, a line each: "TYPE JSON" answers the next request of this type, "+TYPE JSON"
// comes after the honest answer to it. In the JSON, $ID is the request's id, $NONCE its nonce and $NOW the
// time; a body follows a "|", where "\n" is an end of line. Requests that nothing is said of are answered by
// the book.
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <vector>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/evidence/gpu_facts.h"
#include "harness/job/trainer_job.h"
#include "harness/rules/validity.h"
#include "results/store/store.h"

namespace {

using namespace virtrain;
using namespace virtrain::harness;
using nlohmann::json;
using std::chrono::seconds;

constexpr const char* probe_line =
    R"({"record":"probe","name":"triad","value":1e9,"unit":"B/s","seconds":0.1})";

void check(bool holds) {
  if (!holds) { std::abort(); }
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

std::string with_length(const std::string& text, const std::string& body) {
  auto frame = encode(Frame{{{"type", ""}}, {}});
  frame.resize(frame_header_bytes);
  for (std::size_t i = 0; i < 4; ++i) {
    frame[8 + i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
    frame[12 + i] = static_cast<char>(body.size() >> (8 * i) & 0xff);
  }
  return frame + text + body;
}

/// The other end of the channel. One thread serves both, so it never waits.
class Agent {
 public:
  Agent(UniqueFd channel, std::string_view script) : channel_(std::move(channel)) {
    for (const auto& line : split(script, '\n')) {
      const auto blank = line.find(' ');
      if (blank != std::string::npos) { lies_[line.substr(0, blank)].push_back(line.substr(blank + 1)); }
    }
    say(json{{"type", "announce"}, {"id", 0}});
  }

  /// Whether anything could be read or written.
  bool turn() {
    if (!channel_) { return false; }
    const auto sent = ::send(channel_.get(), outgoing_.data(), outgoing_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) { outgoing_.erase(0, static_cast<std::size_t>(sent)); }
    char chunk[65536];
    const auto got = ::recv(channel_.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (got > 0) {
      decoder_.feed({chunk, static_cast<std::size_t>(got)});
      while (const auto frame = decoder_.next()) { answer(frame->message); }
    }
    return sent > 0 || got > 0;
  }
  void hang_up() { channel_.reset(); }

 private:
  void say(const json& message, const std::string& body = "") {
    outgoing_ += with_length(message.dump(), body);
  }
  void print(std::int64_t process, const std::string& lines) {
    say({{"type", "output"}, {"id", process}, {"stream", "stdout"}, {"t_ns", monotonic_ns()}}, lines);
  }

  bool lie(const std::string& trigger, const json& request) {
    const auto found = lies_.find(trigger);
    if (found == lies_.end() || found->second.empty()) { return false; }
    auto text = found->second.front();
    found->second.erase(found->second.begin());
    replace_all(text, "$ID", request.value("id", json(0)).dump());
    replace_all(text, "$NONCE", request.value("nonce", std::string()));
    replace_all(text, "$NOW", std::to_string(monotonic_ns()));
    const auto bar = text.find('|');
    auto body = bar == std::string::npos ? std::string() : text.substr(bar + 1);
    replace_all(body, "\\n", "\n");
    text.resize(std::min(bar, text.size()));
    if (text.size() <= max_json_bytes && body.size() <= max_body_bytes) {
      outgoing_ += with_length(text, body);
    }
    return true;
  }

  void answer(const json& request) {
    const auto type = request["type"].get<std::string>();
    if (type == "stdin" && request["id"] != trainer_) {
      return;  // the probe's, which is empty
    }
    if (!lie(type, request)) { be_honest(type, request); }
    while (lie("+" + type, request)) {}
  }

  void be_honest(const std::string& type, const json& request) {
    const auto id = request["id"].get<std::int64_t>();
    if (type == "hello") {
      say({{"type", "hello"}, {"id", id}, {"nonce", request["nonce"]}, {"facts", {{"kernel", "6.1"}}}});
    } else if (type == "ping") {
      say({{"type", "pong"}, {"id", id}, {"t_ns", monotonic_ns()}});
    } else if (type == "pci_functions") {
      say({{"type", "pci"}, {"id", id}}, "[]");
    } else if (type == "start") {
      start(id, request["argv"][0]);
    } else if (type == "stdin" && id == trainer_) {
      train();
    } else if (type == "telemetry") {
      say({{"type", "telemetry"}, {"id", 0}, {"t_ns", monotonic_ns()}, {"values", {{"x", 1}}}});
    } else if (type == "sweep") {
      say({{"type", "swept"}, {"id", id}, {"count", 0}});
    }
  }

  void start(std::int64_t id, const std::string& program) {
    say({{"type", "started"}, {"id", id}, {"pid", 1}});
    if (program != "mpirun.openmpi") {
      if (program == "probe") { print(id, std::string(probe_line) + "\n"); }
      return say({{"type", "exit"}, {"id", id}, {"status", 0}});
    }
    trainer_ = id;
    for (const char* rank : {"0", "1"}) {
      print(id,
            fmt::format("[1,{0}]<stdout>:{{\"record\":\"hello\",\"rank\":{0},\"size\":2,\"local_rank\":{0},"
                        "\"hostname\":\"t1n1\"}}\n[1,{0}]<stdout>:{{\"record\":\"ready\",\"rank\":{0},"
                        "\"parameters_hash\":\"before\"}}\n",
                        rank));
    }
  }

  void train() {
    for (const char* rank : {"0", "1"}) {
      print(trainer_,
            fmt::format(
                "[1,{0}]<stdout>:{{\"record\":\"sample\",\"rank\":{0},\"t_ns\":{1},\"step\":1,\"images\":8,"
                "\"seconds\":0.1,\"loss\":7}}\n[1,{0}]<stdout>:{{\"record\":\"result\",\"rank\":{0},"
                "\"scope\":\"rank\",\"images_per_second\":80,\"parameters_hash\":\"after\"}}\n",
                rank, monotonic_ns()));
    }
    say({{"type", "exit"}, {"id", trainer_}, {"status", 0}});
  }

  UniqueFd channel_;
  FrameDecoder decoder_;
  std::string outgoing_;
  std::map<std::string, std::vector<std::string>> lies_;
  std::int64_t trainer_ = -1;
};

/// One node of two ranks, so that mpirun and its remote shells are there.
TenantPlacement placement() {
  TenantPlacement tenant;
  tenant.name = "tenant";
  tenant.ranks_per_node = 2;
  tenant.workload.backend = Backend::cuda;
  tenant.workload.steps = 1;
  tenant.workload.batch_size = 8;
  tenant.nodes.resize(1);
  tenant.nodes[0].hostname = "t1n1";
  return tenant;
}

struct Trial {
  asio::io_context io;
  std::shared_ptr<AgentClient> client;
  std::shared_ptr<TrainerJob> job;
  NodeReport report;
  std::vector<results::Telemetry> telemetry;
  std::vector<results::Probe> probes;
  bool finished = false;
};

asio::awaitable<void> converse(Trial& trial) {
  trial.report = co_await trial.client->handshake(seconds(5));
  co_await trial.client->pci_functions();
  const std::vector<std::string> probe{"probe"};
  const auto lines = co_await run_in_node(trial.io, trial.client, probe, seconds(5));
  try {
    trial.probes = parse_probe_records(lines, "vm", "t1n1", 1);
  } catch (const Error& error) { check(error.code() == ErrorCode::trial_failed); }
  co_await trial.job->launch("trainer", seconds(5));
  co_await trial.job->wait_for_hello(seconds(5));
  co_await trial.job->wait_for_ready(seconds(5));
  co_await trial.client->synchronize_clock(2);
  co_await trial.client->start_telemetry(seconds(1), "");
  co_await trial.job->go();
  co_await trial.job->wait_for_results(seconds(5));
  co_await trial.job->sweep();
  trial.finished = true;
}

/// What the database refuses of a guest's words would end the experiment.
class Database {
 public:
  Database() : store_(":memory:") {
    results::Experiment experiment;
    experiment.id = experiment.scenario = fuzz_name;
    store_.add_experiment(experiment);
    results::Trial trial;
    trial.experiment = trial.case_name = fuzz_name;
    trial.arm = "vm";
    trial_ = store_.begin_trial(trial);
    results::Tenant tenant;
    tenant.nodes = 1;
    tenant_ = store_.save_tenant(trial_, tenant);
  }

  void take(const Trial& trial) {
    struct Undo {};
    try {
      store_.transaction("take what was said", [&] {
        store(trial);
        throw Undo();
      });
    } catch (const Undo&) {}
  }

 private:
  static constexpr const char* fuzz_name = "fuzz";

  void store(const Trial& trial) {
    std::vector<const RankState*> ranks;
    for (const auto& rank : trial.job->ranks()) { ranks.push_back(&rank); }
    results::Node node;
    node.name = "t1n1";
    node.kind = "vm";
    for (const auto& [name, value] : trial.report.facts) { node.fingerprint[name] = value; }
    for (const auto& [name, value] : gpu_facts(ranks)) { node.fingerprint[name] = value; }
    const auto row = store_.save_node(tenant_, node);
    store_.add_telemetry(row, trial.telemetry);
    store_.add_telemetry(row, gpu_telemetry(ranks));
    store_.add_probes(fuzz_name, trial.probes);
    for (std::size_t r = 0; r < ranks.size(); ++r) { store_rank(*ranks[r], static_cast<std::int64_t>(r)); }
    for (const auto& [pair, transport] : trial.job->transports()) {
      store_.save_transport(tenant_, {pair.first, pair.second, transport});
    }
  }

  void store_rank(const RankState& state, std::int64_t index) {
    if (!state.hello) { return; }
    results::Rank rank;
    rank.rank = index;
    rank.size = state.hello->size;
    rank.pid = state.hello->pid;
    if (state.result) { rank.throughput = {state.result->images_per_second}; }
    const auto row = store_.save_rank(tenant_, rank);
    std::vector<results::Sample> samples;
    for (const auto& one : state.samples) {
      samples.push_back({one.t_ns, one.step, one.images, one.seconds, one.loss});
    }
    store_.add_samples(row, samples);
  }

  results::Store store_;
  std::int64_t trial_ = 0, tenant_ = 0;
};

void judge(const Trial& trial, const TenantPlacement& placed) {
  TenantEvidence seen;
  seen.name = placed.name;
  seen.nodes = {{"t1n1", "boot", true}};
  seen.nodes.front().ranks = placed.ranks_per_node;
  seen.ranks = trial.job->ranks();
  seen.images_per_rank = placed.workload.images_per_rank();
  seen.released_ns = trial.job->released_ns();
  const TrialEvidence evidence{.tenants = {seen}, .host_boot_ids = {"host"}};
  for (const auto& reason : invalid_reasons(evidence)) { check(printable(reason) == reason); }
  remarks(evidence);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto placed = placement();
  static Database database;
  Trial trial;
  auto ends = make_socketpair();
  Agent agent(std::move(ends[1]), {reinterpret_cast<const char*>(data), size});
  trial.client = std::make_shared<AgentClient>(trial.io, "t1n1", std::move(ends[0]));
  trial.job = std::make_shared<TrainerJob>(trial.io, placed, std::vector<JobNode>{{"t1n1", trial.client}},
                                           RankNetwork::shared_memory);
  trial.client->on_lost = [&](const std::string& reason) { trial.job->fail(reason); };
  trial.client->on_telemetry = [&](const std::map<std::string, double>& readings, std::int64_t t_ns) {
    for (const auto& [metric, value] : readings) {
      trial.telemetry.push_back({t_ns, "guest", metric, value});
    }
  };
  bool ended = false;
  asio::co_spawn(trial.io, converse(trial), [&](std::exception_ptr failure) {
    ended = true;
    try {
      if (failure) { std::rethrow_exception(failure); }
    } catch (const Error&) {}
  });
  while (!ended) {
    const bool ours = trial.io.poll() > 0, theirs = agent.turn();
    if (!ours && !theirs && trial.io.poll() == 0) {
      agent.hang_up();  // both wait for each other
    }
  }
  trial.client->close();
  trial.io.restart();
  trial.io.poll();
  database.take(trial);
  if (trial.finished) { judge(trial, placed); }
  return 0;
}
