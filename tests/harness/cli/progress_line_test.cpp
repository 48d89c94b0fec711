#include "harness/cli/progress_line.h"

#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>

#include "common/files/unique_fd.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace std::chrono_literals;

namespace {

/// Standard error as a terminal has it after Ctrl-S: a pipe that is full and that nobody reads.
class StoppedTerminal {
 public:
  StoppedTerminal() : before_(::dup(STDERR_FILENO)) {
    const int flags = ::fcntl(pipe_.write.get(), F_GETFL);
    ::fcntl(pipe_.write.get(), F_SETFL, flags | O_NONBLOCK);
    while (::write(pipe_.write.get(), "x", 1) == 1) {}
    ::fcntl(pipe_.write.get(), F_SETFL, flags);
    ::dup2(pipe_.write.get(), STDERR_FILENO);
  }
  StoppedTerminal(const StoppedTerminal&) = delete;
  StoppedTerminal& operator=(const StoppedTerminal&) = delete;
  ~StoppedTerminal() {
    ::dup2(before_.get(), STDERR_FILENO);
    pipe_.write.reset();
    if (reader_.joinable()) { reader_.join(); }
  }

  /// Ctrl-Q.
  void go_on() {
    reader_ = std::thread([this] {
      char chunk[4096];
      while (::read(pipe_.read.get(), chunk, sizeof chunk) > 0) {}
    });
  }

 private:
  Pipe pipe_ = make_pipe();
  UniqueFd before_;
  std::thread reader_;
};

}  // namespace

TEST_CASE("a terminal that takes nothing does not hold up who shows progress on it") {
  StoppedTerminal terminal;
  std::chrono::steady_clock::duration took{};
  {
    ProgressLine line;
    Progress progress;
    progress.trial = "[1/1] one vm, pair 1";
    line.show(progress);
    std::this_thread::sleep_for(300ms);  // the line's thread now waits for the terminal
    const auto began = std::chrono::steady_clock::now();
    line.show(progress);
    took = std::chrono::steady_clock::now() - began;
    terminal.go_on();
  }
  CHECK(took < 5s);
}
