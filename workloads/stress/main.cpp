#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/model/protocol.h"
#include "common/system/time.h"
#include "common/text/described_json.h"
#include "common/text/json.h"
#include "workloads/common/processor.h"
#include "workloads/common/program.h"
#include "workloads/common/protocol.h"
#include "workloads/stress/crew.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {
namespace {

constexpr const char* executable = "virtrain-stress";
constexpr std::int64_t second_ns = 1'000'000'000;

/// SIGTERM and SIGINT as something to read; made before any thread starts, so that none of them gets them.
UniqueFd watch_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  if (::pthread_sigmask(SIG_BLOCK, &ends, nullptr) != 0) { throw errno_error("block signals", errno); }
  UniqueFd fd(::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) { throw errno_error("watch signals", errno); }
  return fd;
}

class Run {
 public:
  Run(const Flags& flags, UniqueFd signals, Load& load)
      : flags_(flags), signals_(std::move(signals)), load_(load) {}

  void run_all() {
    say_hello();
    if (load_.follow()) { return; }
    write_record(protocol::StressorReady::record, environment_rank(),
                 {{"t_ns", monotonic_ns()}, described(&protocol::StressorReady::port, load_.port())});
    wait_for_go();
    start_ns_ = last_ns_ = monotonic_ns();
    if (ended_by_.empty()) { work_until_the_end(); }
    load_.finish();
    report_result();
  }

 private:
  /// Rank 0 writes for all: mpirun may cut a rank's output within a line and put another's between.
  void say_hello() {
    const Device device = load_.device();
    const nlohmann::json own = {described(&protocol::Hello::hostname, host_name()),
                                described(&protocol::Hello::pid, getpid()),
                                described(&protocol::Hello::cpuset, allowed_cpus_text()),
                                described(&protocol::Hello::threads, load_.threads()),
                                described(&protocol::Hello::device, device.name),
                                described(&protocol::Hello::pci_address, device.pci_address),
                                described(&protocol::Hello::build, build_text()),
                                {"configuration", to_json(flags_)}};
    const std::vector<std::string> all =
        load_.meet(own.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    ranks_ = static_cast<int>(all.size());
    if (ranks_ > 1 && environment_rank() > 0) { return; }
    for (int rank = 0; rank < ranks_; ++rank) {
      nlohmann::json fields =
          parse_json(all[static_cast<std::size_t>(rank)], "read a rank's hello", ErrorCode::protocol);
      fields["size"] = ranks_;
      write_record(protocol::Hello::record, ranks_ > 1 ? rank : environment_rank(), fields);
    }
  }

  void wait_for_go() {
    while (ended_by_.empty() && !went_) { wait_until(INT64_MAX); }
  }

  void work_until_the_end() {
    Crew crew(load_, flags_.share, flags_.bytes_per_second);
    while (ended_by_.empty()) {
      wait_until(next_moment());
      crew.rethrow_failure();
      if (monotonic_ns() >= last_ns_ + second_ns) { report_progress(crew); }
      if (ended_by_.empty() && is_time_over()) { ended_by_ = "seconds"; }
    }
    if (ranks_ > 1) { stop_before_mpirun_kills(crew); }
    crew.stop();
    crew.rethrow_failure();
    if (crew.work() > last_work_) { report_progress(crew); }
  }

  /// Without a rank that was lost, the sum under way has no end. mpirun tells it by closing standard input,
  /// SIGTERM and, a second later or two, SIGKILL: this makes it an error in between.
  void stop_before_mpirun_kills(Crew& crew) const {
    int looks_left = 12;
    while (!crew.ends_within(std::chrono::milliseconds(50))) {
      pollfd watched{signals_.get(), POLLIN, 0};
      if (::poll(&watched, 1, 0) != 1 || --looks_left > 0) { continue; }
      report_failure(executable, "end the load of all ranks",
                     "another rank is gone, or so slow that a signal did not wait for it");
      ::_exit(1);  // no destructors: they would wait for what hangs
    }
  }

  bool is_time_over() const {
    return flags_.seconds > 0 && static_cast<double>(monotonic_ns() - start_ns_) >= flags_.seconds * 1e9;
  }

  /// When something is to be done that nobody tells us.
  std::int64_t next_moment() const {
    std::int64_t next = last_ns_ + second_ns;
    if (flags_.seconds > 0) {
      next = std::min(next, start_ns_ + static_cast<std::int64_t>(flags_.seconds * 1e9));
    }
    return next;
  }

  /// Waits for a command, a signal or the moment; looks up now and then for a worker that failed.
  void wait_until(std::int64_t moment_ns) {
    constexpr std::int64_t longest_ms = 100;
    const std::int64_t left_ms = (moment_ns - monotonic_ns() + 999'999) / 1'000'000;
    std::array<pollfd, 2> watched{pollfd{signals_.get(), POLLIN, 0},
                                  pollfd{input_ended_ ? -1 : STDIN_FILENO, POLLIN, 0}};
    const auto timeout = static_cast<int>(std::clamp<std::int64_t>(left_ms, 0, longest_ms));
    if (::poll(watched.data(), watched.size(), timeout) < 0 && errno != EINTR) {
      throw errno_error("wait", errno);
    }
    if (watched[0].revents != 0) { ended_by_ = "signal"; }
    while (ended_by_.empty() && !input_ended_) {
      const std::optional<Command> command = commands_.next(0);
      if (!command) { break; }
      obey(*command);
    }
  }

  void obey(Command command) {
    if (command == Command::go) { went_ = true; }
    if (command == Command::stop) { ended_by_ = "stop"; }
    if (command != Command::end_of_file) { return; }
    input_ended_ = true;
    if (!went_) {
      throw Error("wait for 'go'", ErrorCode::usage,
                  "standard input ended before it (write the line 'go' to start)");
    }
    if (flags_.seconds == 0) { ended_by_ = "end of input"; }
  }

  void report_progress(const Crew& crew) {
    const std::int64_t now_ns = monotonic_ns();
    const double seconds = static_cast<double>(now_ns - last_ns_) * 1e-9;
    const std::uint64_t work = crew.work();
    const std::uint64_t done = work - last_work_;
    const double busy_seconds = crew.busy_seconds();
    write_record(protocol::Progress::record, environment_rank(),
                 {described(&protocol::Progress::t_ns, now_ns),
                  described(&protocol::Progress::seconds, seconds),
                  {"work", done},
                  described(&protocol::Progress::unit, load_.unit()),
                  described(&protocol::Progress::rate, static_cast<double>(done) / seconds),
                  described(&protocol::Progress::busy, (busy_seconds - last_busy_seconds_) / seconds)});
    last_ns_ = now_ns;
    last_work_ = work;
    last_busy_seconds_ = busy_seconds;
  }

  void report_result() const {
    const double seconds = static_cast<double>(monotonic_ns() - start_ns_) * 1e-9;
    write_record("result", environment_rank(),
                 {{"scope", "rank"},
                  {"kind", to_string(flags_.kind)},
                  {"seconds", seconds},
                  {"work", last_work_},
                  {"unit", load_.unit()},
                  {"rate", seconds > 0 ? static_cast<double>(last_work_) / seconds : 0},
                  {"stopped", ended_by_ != "seconds"},
                  {"ended_by", ended_by_}});
  }

  const Flags& flags_;
  UniqueFd signals_;
  Load& load_;
  int ranks_ = 1;
  CommandReader commands_{STDIN_FILENO};
  bool went_ = false;
  bool input_ended_ = false;
  std::string ended_by_;
  std::int64_t start_ns_ = 0;
  std::int64_t last_ns_ = 0;
  std::uint64_t last_work_ = 0;
  double last_busy_seconds_ = 0;
};

/// hello, ready, "go", then the load with a record "progress" every second, until its time is over, "stop",
/// the end of standard input (only without --seconds), SIGTERM or SIGINT; then "result". Of several ranks,
/// rank 0 reads and writes for all. Returns the exit status; throws Error where there is no load to begin
/// with.
int run(const Flags& flags) {
  UniqueFd signals = watch_signals();
  const std::unique_ptr<Load> load = make_load(flags);
  int status = 0;
  try {
    Run(flags, std::move(signals), *load).run_all();
  } catch (const std::exception&) {
    status = report_current_failure(executable, "stress");
    load->abort(status);  // the others may wait for us
  }
  return status;
}

}  // namespace
}  // namespace virtrain::stress

int main(int argc, char** argv) {
  using namespace virtrain;
  return run_program(
      "virtrain-stress", "stress", [&] { return stress::parse_flags(argc, argv); },
      [](const stress::Flags& flags) { return stress::run(flags); });
}
