#include "workloads/resnet50/training/training.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "tests/support/catch.h"

// How a run ends when what trains fails or hangs, as a lost peer or a broken GPU makes it.
using namespace virtrain;
using namespace virtrain::resnet50;

namespace {

[[noreturn]] void hang() {
  while (true) { pause(); }
}

/// Like a GPU whose kernels wait for a rank that is gone: freeing its memory waits for them.
class StuckBackend : public TrainingBackend {
 public:
  explicit StuckBackend(bool step_hangs) : step_hangs_(step_hangs) {}
  ~StuckBackend() override { hang(); }
  nlohmann::json hello() const override { return nlohmann::json::object(); }
  void set_up(Watchdog&) override {}
  StepResult step(const StepOrder&, Timeline&) override {
    if (step_hangs_) { hang(); }
    throw Error("reduce gradients", ErrorCode::io, "NCCL: remote process exited");
  }
  nlohmann::json result(std::int64_t) override { return nlohmann::json::object(); }
  std::uint64_t parameters_hash() override { return 0; }
  void write_dump() const override {}

 private:
  const bool step_hangs_;
};

/// Notes in which order it is called.
class NotingBackend : public TrainingBackend {
 public:
  nlohmann::json hello() const override { return nlohmann::json::object(); }
  void set_up(Watchdog&) override {}
  StepResult step(const StepOrder&, Timeline&) override {
    calls_ += "step ";
    return {};
  }
  void begin_counting() override { calls_ += "begin "; }
  void end_counting() override { calls_ += "end "; }
  nlohmann::json result(std::int64_t) override { return {{"calls", calls_ + "result"}}; }
  std::uint64_t parameters_hash() override {
    calls_ += "hash ";
    return 0;
  }
  void write_dump() const override { calls_ += "dump "; }

 private:
  mutable std::string calls_;
};

/// Sets up in parts, all together longer than a run may stall, and then hangs or not.
class SlowBackend : public NotingBackend {
 public:
  explicit SlowBackend(bool hangs) : hangs_(hangs) {}
  void set_up(Watchdog& watchdog) override {
    for (int part = 1; part <= 5; ++part) {
      watchdog.expect("set up part " + std::to_string(part));
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    if (hangs_) { hang(); }
  }

 private:
  const bool hangs_;
};

/// Starts the next step before it answers for one, as a GPU does; counting must begin with none under way.
class QueueingBackend : public NotingBackend {
 public:
  StepResult step(const StepOrder& order, Timeline&) override {
    gaps_ += started_ ? 0 : 1;
    started_ = order.more_follow;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return {};
  }
  void begin_counting() override {
    if (started_) { throw Error("begin to count", ErrorCode::trial_failed, "a step is under way"); }
  }
  nlohmann::json result(std::int64_t) override { return {{"gaps", gaps_}}; }

 private:
  bool started_ = false;
  int gaps_ = 0;
};

struct Ended {
  int status = 0;  ///< as wait(2) gives it
  std::vector<nlohmann::json> records;
};

Ended train_in_child(const MakeBackend& make, const Flags& wanted = {}) {
  auto ends = make_socketpair();
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    alarm(60);  // the test's own end, should the run hang
    if (dup2(ends[1].get(), STDOUT_FILENO) < 0) { _exit(99); }
    if (dup2(open("/dev/null", O_RDWR | O_CLOEXEC), STDERR_FILENO) < 0) { _exit(99); }
    ends[0].reset();
    ends[1].reset();
    Flags flags = wanted;
    flags.format = OutputFormat::json;
    flags.stall_seconds = 1;
    std::array<int, 2> input{};
    if (pipe(input.data()) != 0 || write(input[1], "go\n", 3) != 3 || dup2(input[0], STDIN_FILENO) < 0) {
      _exit(99);
    }
    _exit(run_training("test", flags, make));
  }
  ends[1].reset();
  std::string said;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(ends[0].get(), buffer.data(), buffer.size())) > 0;) {
    said.append(buffer.data(), static_cast<std::size_t>(count));
  }
  Ended ended;
  REQUIRE(waitpid(child, &ended.status, 0) == child);
  for (std::size_t begin = 0, end = 0; (end = said.find('\n', begin)) != std::string::npos; begin = end + 1) {
    ended.records.push_back(nlohmann::json::parse(said.substr(begin, end - begin)));
  }
  return ended;
}

MakeBackend stuck(bool step_hangs) {
  return [step_hangs](const Flags&, Peers&) { return std::make_unique<StuckBackend>(step_hangs); };
}

}  // namespace

TEST_CASE("what is counted ends with the last step, before anything is read back") {
  Flags flags;
  flags.warmup_steps = 1;
  flags.steps = 2;
  flags.dump = "wanted";
  const Ended ended =
      train_in_child([](const Flags&, Peers&) { return std::make_unique<NotingBackend>(); }, flags);
  REQUIRE(ended.status == 0);
  REQUIRE(ended.records.size() >= 2);
  const nlohmann::json& result = ended.records.at(ended.records.size() - 2);
  REQUIRE(result["scope"] == "rank");
  CHECK(result["calls"] == "hash step begin step step end dump hash result");
}

TEST_CASE("the warm-up runs without gaps, as what is counted, and leaves no step under way") {
  Flags flags;
  flags.warmup_steps = 3;
  flags.steps = 4;
  flags.steady_seconds = 1;
  const Ended ended =
      train_in_child([](const Flags&, Peers&) { return std::make_unique<QueueingBackend>(); }, flags);
  REQUIRE(ended.status == 0);
  const nlohmann::json& result = ended.records.at(ended.records.size() - 2);
  CHECK(result["warmup_steps"] > 10);
  CHECK(result["gaps"] == 3);  // the first of each: warm-up by number, by what is level, counting
}

TEST_CASE("a set-up may last as long as its parts go on, and the one that hangs is named") {
  for (const bool hangs : {false, true}) {
    const Ended ended =
        train_in_child([hangs](const Flags&, Peers&) { return std::make_unique<SlowBackend>(hangs); });
    REQUIRE(WIFEXITED(ended.status));
    CHECK(WEXITSTATUS(ended.status) == (hangs ? 1 : 0));
    REQUIRE(ended.records.back()["record"] == (hangs ? "error" : "result"));
    if (hangs) { CHECK(ended.records.back()["operation"] == "set up part 5"); }
  }
}

TEST_CASE("a failure is told before anything is torn down that may hang") {
  const Ended ended = train_in_child(stuck(/*step_hangs=*/false));
  REQUIRE(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 1);
  REQUIRE(ended.records.back()["record"] == "error");
  CHECK(ended.records.back()["operation"] == "reduce gradients");
  CHECK(ended.records.back()["message"] == "NCCL: remote process exited");
}

TEST_CASE("a step that never ends is told by the watchdog and nothing that hangs is waited for") {
  const Ended ended = train_in_child(stuck(/*step_hangs=*/true));
  REQUIRE(WIFEXITED(ended.status));
  CHECK(WEXITSTATUS(ended.status) == 1);
  REQUIRE(ended.records.back()["record"] == "error");
  CHECK(ended.records.back()["operation"] == "train a step");
}
