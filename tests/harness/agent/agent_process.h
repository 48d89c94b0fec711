#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "harness/agent/client/agent_client.h"
#include "tests/support/catch.h"

namespace virtrain::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

/// Processes whose environment has the mark, as their pids: what an agent has left behind.
inline std::vector<int> processes_with(const std::string& mark) {
  std::vector<int> found;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const auto environment = read_file(entry.path() / "environ");
    if (environment && environment->find(mark) != std::string::npos) {
      found.push_back(std::stoi(entry.path().filename().string()));
    }
  }
  return found;
}

/// Polls; for conditions outside our own event loop.
inline bool comes_true(const std::function<bool()>& condition, std::chrono::milliseconds within = 10s) {
  const auto end = std::chrono::steady_clock::now() + within;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) { return false; }
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

/// The real virtrain-agent on a socketpair, with a mark in its environment that all its children inherit.
class AgentProcess {
 public:
  AgentProcess() {
    auto ends = make_socketpair();
    const std::string program = std::string(VIRTRAIN_BINARY_DIR) + "/virtrain-agent";
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setenv("VIRTRAIN_TEST_MARK", mark_.c_str(), 1);
      const int fd = ::fcntl(ends[1].get(), F_DUPFD, 100);
      ::execl(program.c_str(), program.c_str(), "--fd", std::to_string(fd).c_str(), nullptr);
      ::_exit(127);
    }
    channel_ = std::move(ends[0]);
  }
  AgentProcess(const AgentProcess&) = delete;
  AgentProcess& operator=(const AgentProcess&) = delete;
  ~AgentProcess() {
    channel_.reset();
    if (!status_) { end(SIGKILL); }
    for (const int pid : leftovers()) { ::kill(pid, SIGKILL); }
  }

  UniqueFd take_channel() { return std::move(channel_); }
  int channel() const { return channel_.get(); }
  void close_channel() { channel_.reset(); }
  pid_t pid() const { return pid_; }
  void end(int signal_number) {
    ::kill(pid_, signal_number);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    status_ = status;
  }
  /// Whether it ends by itself, and with exit status 0.
  bool ends_well() {
    int status = 0;
    if (!comes_true([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; })) { return false; }
    status_ = status;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  /// Its descendants, wherever they have moved to, without itself.
  std::vector<int> leftovers() const {
    auto found = processes_with("VIRTRAIN_TEST_MARK=" + mark_);
    std::erase(found, pid_);
    return found;
  }
  std::int64_t peak_memory_kib() const {
    const auto status = read_file("/proc/" + std::to_string(pid_) + "/status").value_or("");
    const auto at = status.find("VmHWM:");
    return at == std::string::npos ? -1 : std::stol(status.substr(at + 6));
  }

 private:
  std::string mark_ = std::to_string(::getpid()) + "-" + std::to_string(next_mark++);
  static inline int next_mark = 1;
  UniqueFd channel_;
  pid_t pid_ = -1;
  std::optional<int> status_;
};

/// What a started process has said so far.
struct Collected {
  std::string out, err;
  std::vector<std::int64_t> times_ns;
  std::optional<int> status;

  static harness::ProcessEvents events(const std::shared_ptr<Collected>& into) {
    harness::ProcessEvents events;
    events.on_output = [into](harness::OutputStream stream, std::string_view bytes, std::int64_t t_ns) {
      (stream == harness::OutputStream::standard_output ? into->out : into->err) += bytes;
      into->times_ns.push_back(t_ns);
    };
    events.on_exit = [into](int code) { into->status = code; };
    return events;
  }
};

/// An event loop with agents and their clients; bodies of tests run in it as coroutines without captures.
struct Session {
  asio::io_context io;
  std::vector<std::unique_ptr<AgentProcess>> agents;
  std::vector<std::shared_ptr<harness::AgentClient>> clients;
  std::vector<std::string> lost;

  explicit Session(int count = 1) {
    for (int i = 0; i < count; ++i) {
      agents.push_back(std::make_unique<AgentProcess>());
      clients.push_back(std::make_shared<harness::AgentClient>(io, "node-" + std::to_string(i + 1),
                                                               agents.back()->take_channel()));
      clients.back()->on_lost = [this](const std::string& reason) { lost.push_back(reason); };
    }
  }
  harness::AgentClient& client() { return *clients.at(0); }
  AgentProcess& agent() { return *agents.at(0); }

  /// Greets all agents, then runs the body to its end.
  void run(asio::awaitable<void> (*body)(Session&)) {
    run_bare(+[](Session& s) -> asio::awaitable<void> {
      for (auto& each : s.clients) { co_await each->handshake(20s); }
    });
    run_bare(body);
    close();
  }
  void run_bare(asio::awaitable<void> (*body)(Session&)) {
    bool ended = false;
    std::exception_ptr failure;
    asio::co_spawn(io, body(*this), [&](std::exception_ptr error) {
      failure = error;
      ended = true;
    });
    io.restart();
    const auto end = std::chrono::steady_clock::now() + 60s;
    while (!ended && std::chrono::steady_clock::now() < end) { io.run_one_for(100ms); }
    if (failure) { std::rethrow_exception(failure); }
    REQUIRE(ended);
  }
  void close() {
    for (auto& each : clients) { each->close(); }
    io.restart();
    io.run_for(50ms);
  }
  asio::awaitable<void> until(std::function<bool()> condition) {
    asio::steady_timer pause(io);
    for (int i = 0; i < 6000 && !condition(); ++i) {
      pause.expires_after(5ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
    REQUIRE(condition());
  }
  /// Runs a shell line to its end.
  asio::awaitable<Collected> shell(std::string line) {
    auto said = std::make_shared<Collected>();
    harness::ProcessSpec spec;
    spec.argv.push_back("/bin/sh");
    spec.argv.push_back("-c");
    spec.argv.push_back(std::move(line));
    co_await client().start(spec, Collected::events(said));
    const std::function<bool()> ended = [said] { return said->status.has_value(); };
    co_await until(ended);
    co_return *said;
  }
};

}  // namespace virtrain::test
