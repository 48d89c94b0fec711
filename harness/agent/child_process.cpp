#include "harness/agent/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/system/process_info.h"

namespace virtrain::harness {
namespace {

void set_non_blocking(const UniqueFd& fd) {
  ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) | O_NONBLOCK);
}

/// Runs in the child, between fork and exec; reports errno through `failure` if exec does not happen.
[[noreturn]] void become(const ProcessSpec& spec, int in, int out, int err, int failure) {
  ::setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int signal_number : {SIGPIPE, SIGCHLD, SIGTERM, SIGINT, SIGHUP}) {
    ::signal(signal_number, SIG_DFL);
  }
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (const auto& [name, value] : spec.environment) { ::setenv(name.c_str(), value.c_str(), 1); }
  std::vector<char*> argv;
  for (const auto& word : spec.argv) { argv.push_back(const_cast<char*>(word.c_str())); }
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int reason = errno;
  [[maybe_unused]] const auto written = ::write(failure, &reason, sizeof reason);
  ::_exit(127);
}

}  // namespace

ChildProcess start_process(const ProcessSpec& spec) {
  if (spec.argv.empty()) { throw Error("start process", ErrorCode::protocol, "no program named"); }
  auto in = make_pipe(), out = make_pipe(), err = make_pipe(), failure = make_pipe();
  const pid_t pid = ::fork();
  if (pid < 0) { throw errno_error("fork", errno); }
  if (pid == 0) { become(spec, in.read.get(), out.write.get(), err.write.get(), failure.write.get()); }
  failure.write.reset();
  int reason = 0;
  ssize_t got = 0;
  do { got = ::read(failure.read.get(), &reason, sizeof reason); } while (got < 0 && errno == EINTR);
  if (got == sizeof reason) {
    ::waitpid(pid, nullptr, 0);
    throw errno_error("start " + spec.argv[0], reason);
  }
  ChildProcess child{pid, std::move(in.write), std::move(out.read), std::move(err.read)};
  for (const auto* fd : {&child.standard_input, &child.standard_output, &child.standard_error}) {
    set_non_blocking(*fd);
  }
  return child;
}

bool is_descendant(pid_t pid) {
  const pid_t self = ::getpid();
  constexpr int most_depth = 1000;  // of a tree that changes while we look
  for (int depth = 0; pid > 0 && pid != self && depth < most_depth; ++depth) {
    const auto process = process_info(pid);
    pid = process ? process->parent : 0;
  }
  return pid == self;
}

int kill_descendants() {
  int killed = 0;
  // A process may fork between the look and the kill, so look until nobody is left.
  for (int round = 0; round < 200; ++round) {
    const auto tree = process_tree(::getpid());
    if (tree.size() == 1) { break; }
    if (round == 0) { killed = static_cast<int>(tree.size()) - 1; }
    for (std::size_t i = 1; i < tree.size(); ++i) { ::kill(tree[i], SIGKILL); }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return killed;
}

}  // namespace virtrain::harness
