#include "tests/support/fake_node.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "common/error.h"
#include "common/text/cpu_list.h"

namespace virtrain::test {
namespace {

constexpr int agents_fd = 100;

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) { return false; }
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

FakeNode::FakeNode(const std::filesystem::path& agent, const vmctl::NodeFacts& facts,
                   const std::string& hostname, std::vector<StreamFaultAt> faults)
    : facts_(facts), hostname_(hostname), faults_(std::move(faults)) {
  auto to_agent = make_socketpair(), to_coordinator = make_socketpair();
  agent_ = std::move(to_agent[0]);
  coordinator_ = std::move(to_coordinator[0]);
  outer_ = std::move(to_coordinator[1]);
  spawn(agent, to_agent[1].get());
  relay_ = std::thread([this] { relay(); });
}

FakeNode::~FakeNode() {
  // An agent whose stream ends takes what it started with it.
  ::shutdown(agent_.get(), SHUT_RDWR);
  ::shutdown(coordinator_.get(), SHUT_RDWR);
  relay_.join();
  constexpr std::chrono::seconds patience{1};
  const auto end = std::chrono::steady_clock::now() + patience;
  while (::waitpid(pid_, nullptr, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) { kill(); }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

void FakeNode::kill() const {
  ::kill(pid_, SIGKILL);
}

void FakeNode::spawn(const std::filesystem::path& program, int fd) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, fd, agents_fd);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, facts_.log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND, 0600);
  std::vector<std::string> words{program, "--fd", std::to_string(agents_fd)};
  std::vector<std::string> variables{"FAKE_HOSTNAME=" + hostname_, "FAKE_NODE=" + facts_.name};
  for (char** one = environ; *one != nullptr; ++one) { variables.emplace_back(*one); }
  const auto pointers = [](std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (auto& text : texts) { all.push_back(text.data()); }
    all.push_back(nullptr);
    return all;
  };
  const int error = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, pointers(words).data(),
                                  pointers(variables).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) { throw errno_error("start " + program.string(), error); }
}

void FakeNode::relay() {
  bool coordinator_speaks = true;
  while (true) {
    pollfd ready[] = {{agent_.get(), POLLIN, 0}, {coordinator_speaks ? coordinator_.get() : -1, POLLIN, 0}};
    if (::poll(ready, 2, -1) < 0) { continue; }
    if (ready[1].revents != 0 && !from_coordinator()) {
      coordinator_speaks = false;
      ::shutdown(agent_.get(), SHUT_WR);  // the agent ends, and so does its side
    }
    if (ready[0].revents != 0 && !from_agent()) { break; }
  }
  ::shutdown(coordinator_.get(), SHUT_RDWR);
}

bool FakeNode::from_coordinator() {
  char bytes[65536];
  const auto got = ::read(coordinator_.get(), bytes, sizeof bytes);
  return got > 0 && write_all(agent_.get(), {bytes, static_cast<std::size_t>(got)});
}

bool FakeNode::from_agent() {
  char bytes[65536];
  const auto got = ::read(agent_.get(), bytes, sizeof bytes);
  if (got <= 0) { return false; }
  const std::string_view chunk(bytes, static_cast<std::size_t>(got));
  if (breaks_protocol_) { return write_all(coordinator_.get(), chunk); }
  raw_ += chunk;
  try {
    decoder_.feed(chunk);
    while (auto frame = decoder_.next()) {
      const auto size = frame->wire_bytes;
      if (!pass_on(std::move(*frame), raw_.substr(0, size))) { return false; }
      raw_.erase(0, size);
    }
  } catch (const Error&) {  // that is for the coordinator to judge
    breaks_protocol_ = true;
    return write_all(coordinator_.get(), raw_);
  }
  return true;
}

bool FakeNode::pass_on(Frame frame, std::string raw) {
  const auto type = frame.message.value("type", "");
  if (type == "hello" && frame.message.contains("facts")) {
    replace_facts(frame.message["facts"]);
    raw = encode(frame);
  }
  const int nth = ++seen_[type];
  for (const auto& fault : faults_) {
    if (fault.type != type || fault.nth != nth) { continue; }
    switch (fault.fault) {
      case StreamFault::closes:
        kill();
        return false;
      case StreamFault::goes_silent:
        is_silent_ = true;
        break;
      case StreamFault::floods:
        while (write_all(coordinator_.get(), raw)) {}
        return false;
      case StreamFault::sends_no_frame:
        return write_all(coordinator_.get(), std::string(1000, 'x'));
    }
  }
  // A coordinator that hears no more may still speak.
  if (!is_silent_) { write_all(coordinator_.get(), raw); }
  return true;
}

void FakeNode::replace_facts(nlohmann::json& facts) const {
  if (facts.contains("hostname")) { facts["hostname"] = hostname_; }
  facts["cpus"] = format_cpu_list(facts_.cores);
  facts["memory_limit_bytes"] = facts_.memory_bytes;
  if (facts_.has_own_kernel) { facts["boot_id"] = facts_.uuid; }
}

}  // namespace virtrain::test
