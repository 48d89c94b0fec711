#include "workloads/canary/read_in_child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"

namespace virtrain::canary {
namespace {

using std::chrono::milliseconds;
using Deadline = std::chrono::steady_clock::time_point;

/// The first letter of an answer says what follows. A pipe takes an answer in one piece.
constexpr char page_follows = 'p', refusal_follows = 'r', failure_follows = 'f';
constexpr std::size_t most_answer_bytes = 2 * LockedPage::size;

std::string answer_of(const std::function<PageRead()>& read) {
  try {
    const auto page = read();
    return page.refused.empty() ? page_follows + page.bytes : refusal_follows + page.refused;
  } catch (const std::exception& error) { return failure_follows + std::string(error.what()); }
}

/// Without our streams: who reads them waits for their end, and this child may be held by a driver.
[[noreturn]] void answer_and_end(int to, const std::function<PageRead()>& read) {
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) { ::dup2(nothing, stream); }
  const auto answer = answer_of(read).substr(0, most_answer_bytes);
  ::_exit(::write(to, answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
}

milliseconds left_until(Deadline end) {
  return std::chrono::ceil<milliseconds>(end - std::chrono::steady_clock::now());
}

/// All that comes until the child closes its end; nothing where that takes longer.
std::optional<std::string> answer_from(int from, Deadline end) {
  std::string answer;
  std::array<char, LockedPage::size> piece{};
  while (answer.size() <= most_answer_bytes && becomes_readable(from, left_until(end))) {
    const ssize_t got = ::read(from, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) { continue; }
    if (got <= 0) { return answer; }
    answer.append(piece.data(), static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

/// How it ended. A driver may hold it longer than its answer: then it is told to end and left behind.
int status_of(pid_t child, Deadline end) {
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() >= end) {
      ::kill(child, SIGKILL);
      return 0;
    }
    std::this_thread::sleep_for(milliseconds{1});
  }
  return status;
}

PageRead page_of(const std::string& operation, const std::string& answer, int status) {
  if (answer.empty()) {
    throw Error(operation, ErrorCode::io,
                WIFSIGNALED(status) ? fmt::format("signal {} ended the child that reads", WTERMSIG(status))
                                    : "the child that reads ended without an answer");
  }
  auto text = answer.substr(1);
  if (answer[0] == page_follows) { return {std::move(text), ""}; }
  if (answer[0] == refusal_follows) { return {"", std::move(text)}; }
  throw Error(operation, ErrorCode::io, std::move(text));
}

}  // namespace

PageRead read_in_child(const std::string& operation, milliseconds limit, const std::string& hang,
                       const std::function<PageRead()>& read) {
  const auto end = std::chrono::steady_clock::now() + limit;
  auto [from, to] = make_pipe();
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error(operation, errno); }
  if (child == 0) { answer_and_end(to.get(), read); }
  to.reset();
  const auto answer = answer_from(from.get(), end);
  if (!answer) {
    ::kill(child, SIGKILL);
    throw Error(operation, ErrorCode::timeout, hang);
  }
  return page_of(operation, *answer, status_of(child, end));
}

}  // namespace virtrain::canary
