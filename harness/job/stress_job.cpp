#include "harness/job/stress_job.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;

/// So many intervals in a row have to show the level.
constexpr std::size_t enough_intervals = 2;
constexpr std::size_t most_last_words = 400;

}  // namespace

std::vector<std::string> stressor_command(const std::string& program, const std::string& kind, double level,
                                          std::optional<int> gpu, std::uint64_t node_memory_bytes,
                                          const std::string& load_file) {
  std::vector<std::string> words{program, "--kind", kind, "--rate", fmt::format("{:g}%", level * 100)};
  const auto add = [&](const char* flag, const std::string& value) {
    words.insert(words.end(), {flag, value});
  };
  if (gpu) { add("--gpu", std::to_string(*gpu)); }
  // Four times the last-level cache, its own choice, may be more than a small guest has.
  if (kind == "membw" && !gpu) { add("--bytes", format_size(node_memory_bytes / 4 >> 20U << 20U)); }
  if (kind == "llc") {
    add("--bytes", format_size(std::min<std::uint64_t>(node_memory_bytes / 4 >> 20U << 20U, 64U << 20U)));
  }
  if (kind == "allreduce") { add("--bytes", "4MiB"); }
  if (kind == "disk") {
    load_file.empty() ? add("--serial", vmctl::scratch_serial) : add("--file", load_file);
  }
  return words;
}

StressJob::StressJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
                     const MpiDialect& mpi)
    : placement_(placement), nodes_(std::move(nodes)), mpi_(mpi), waiter_(io) {}

void StressJob::fail(const std::string& words) {
  if (failure_) { return; }
  failure_ = fmt::format("the aggressor {} failed: {}", placement_.neighbour->condition(), words);
  waiter_.wake();
  if (on_failure) { on_failure(*failure_); }
}

asio::awaitable<void> StressJob::launch(const std::string& program, milliseconds deadline) {
  const auto& neighbour = *placement_.neighbour;
  const auto& kind = aggressor_kind(neighbour.aggressor);
  const auto gpu = kind.needs_gpu ? std::optional(0) : std::nullopt;
  std::string peer;
  if (neighbour.aggressor == "net") {  // who receives comes first, for its port
    const std::vector<std::string> receiver{program, "--kind", "net", "--listen", "0"};
    stressors_.push_back(std::make_unique<Stressor>(Stressor{"net", nodes_.back().agent, false}));
    co_await start(0, receiver, deadline);
    peer = fmt::format("{}:{}", split(placement_.nodes.back().address, '/')[0], stressors_[0]->port);
  }
  for (const auto& stressor : kind.stressors) {
    auto argv = stressor_command(program, stressor, neighbour.level, gpu, placement_.nodes[0].memory_bytes,
                                 nodes_[0].load_file);
    if (!peer.empty()) { argv.insert(argv.end(), {"--peer", peer}); }
    if (stressor == "allreduce") {
      constexpr std::int64_t ranks = 2;
      constexpr std::int64_t longest_seconds = 7L * 24 * 3600;
      const MpiNode here{"localhost", ranks, "", nodes_[0].temporary_folder};
      argv = mpirun_command(mpi_, {here}, RankNetwork::shared_memory, true, longest_seconds, argv);
    }
    stressors_.push_back(std::make_unique<Stressor>(Stressor{stressor, nodes_[0].agent}));
    co_await start(stressors_.size() - 1, std::move(argv), deadline);
  }
}

asio::awaitable<void> StressJob::start(std::size_t index, std::vector<std::string> argv,
                                       milliseconds deadline) {
  auto& stressor = *stressors_[index];
  stressor.out = RankOutputSplitter(mpi_.tag_end);
  const auto self = shared_from_this();
  ProcessSpec spec;
  spec.argv = std::move(argv);
  spec.environment = rank_environment(placement_, nodes_[0].environment, RankNetwork::shared_memory, true,
                                      nodes_[0].interface);
  ProcessEvents events;
  events.on_output = [self, &stressor](OutputStream stream, std::string_view bytes, std::int64_t) {
    self->take_output(stressor, stream, bytes);
  };
  events.on_exit = [self, &stressor](int status) {
    stressor.exit_status = status;
    if (!self->stopping_) {
      self->fail(
          fmt::format("{} ended with exit status {} before the trainers{}", stressor.kind, status,
                      stressor.last_words.empty() ? "" : "; its error output: " + stressor.last_words));
    }
    self->waiter_.wake();
  };
  events.on_lost = [self](const std::string& reason) { self->fail(reason); };
  stressor.began_ns = monotonic_ns();
  stressor.process = co_await stressor.agent->start(spec, std::move(events));
  const std::function<bool()> is_ready = [&stressor] { return stressor.ready; };
  co_await wait_until("wait until the aggressor is ready", is_ready, deadline);
}

void StressJob::take_output(Stressor& stressor, OutputStream stream, std::string_view bytes) {
  stressor.bytes += bytes.size() + line_bytes;
  if (failure_) { return; }
  if (stressor.bytes > max_other_output_bytes) {
    return fail(
        fmt::format("{} wrote more than {} of output", stressor.kind, format_size(max_other_output_bytes)));
  }
  if (stream == OutputStream::standard_error) {
    stressor.last_words = printable(trim(bytes.substr(0, most_last_words)));
    return;
  }
  try {
    stressor.out.feed(bytes, [&](const RankLine& line) { take_line(stressor, line); });
  } catch (const std::exception& error) { fail(error.what()); }
}

void StressJob::take_line(Stressor& stressor, const RankLine& line) {
  const auto said = decode_stressor_record(line);
  if (!said) { return; }
  if (const auto* ready = std::get_if<protocol::StressorReady>(&*said)) {
    stressor.ready = true;
    stressor.port = ready->port.value_or(stressor.port);
  }
  if (const auto* failure = std::get_if<protocol::Failure>(&*said)) {
    fail(stressor.kind + ": " + printable(failure->message));
  }
  if (const auto* progress = std::get_if<protocol::Progress>(&*said)) {
    take_progress(stressor, *progress, line.text.size() + 1 + line_bytes);
  }
  waiter_.wake();
}

void StressJob::take_progress(Stressor& stressor, const protocol::Progress& said, std::size_t bytes) {
  if (said.unit) { stressor.unit = printable(said.unit->substr(0, 32)); }
  stressor.progress.push_back(
      {stressor.agent->time_of_message(said.t_ns), said.seconds, said.busy, said.rate});
  // A record a second is asked for, for days where need be; only what comes beside them is a flood.
  constexpr double most_a_second = 4;
  const auto seconds = static_cast<double>(monotonic_ns() - stressor.began_ns) * 1e-9;
  if (static_cast<double>(stressor.progress.size()) <= most_a_second * (seconds + 1)) {
    stressor.bytes -= std::min(stressor.bytes, bytes);
  }
}

asio::awaitable<void> StressJob::wait_until(const char* what, std::function<bool()> reached,
                                            milliseconds deadline) {
  const std::function<bool()> done = [&] {
    if (reached()) { return true; }
    if (failure_) { throw Error(what, ErrorCode::trial_failed, *failure_); }
    return false;
  };
  const FairDeadline fair(deadline, nodes_[0].agent->waiting_time);
  const bool in_time = co_await waiter_.until(done, fair);
  if (!in_time) {
    throw Error(
        what, ErrorCode::timeout,
        fmt::format("not within {} s", std::chrono::duration_cast<std::chrono::seconds>(deadline).count()));
  }
}

asio::awaitable<void> StressJob::tell(std::string word, Which which) {
  for (const auto& stressor : stressors_) {
    if (which(*stressor) && !stressor->exit_status) {
      co_await stressor->agent->write_stdin(stressor->process, word, false);
    }
  }
}

bool StressJob::has_reached_level(const Stressor& stressor) const {
  const auto& all = stressor.progress;
  return !stressor.judged || (all.size() >= enough_intervals &&
                              std::all_of(all.end() - enough_intervals, all.end(), [&](const auto& one) {
                                return is_at_level(one.busy, placement_.neighbour->level);
                              }));
}

asio::awaitable<void> StressJob::reach_level(milliseconds deadline) {
  co_await tell("go\n", [](const Stressor&) { return true; });
  const std::function<bool()> all = [this] {
    return std::all_of(stressors_.begin(), stressors_.end(),
                       [this](const auto& one) { return has_reached_level(*one); });
  };
  std::string failure;
  try {
    co_await wait_until("wait until the aggressor works at its level", all, deadline);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::timeout) { throw; }
    failure = error.message();
  }
  if (!failure.empty()) {
    std::vector<std::string> words;
    for (const auto& one : stressors_) {
      if (!has_reached_level(*one)) {
        words.push_back(fmt::format("{} {}", one->kind,
                                    one->progress.empty()
                                        ? "reported nothing"
                                        : fmt::format("reached {:.0f} %", one->progress.back().busy * 100)));
      }
    }
    throw Error(
        "wait until the aggressor works at its level", ErrorCode::trial_failed,
        fmt::format("{}: {} of {:g} %", failure, join(words, ", "), placement_.neighbour->level * 100));
  }
  level_until_ns_ = monotonic_ns();
  level_since_ns_ = level_until_ns_;
  for (const auto& one : stressors_) {
    if (!one->judged) { continue; }
    const auto& first = one->progress[one->progress.size() - enough_intervals];
    level_since_ns_ =
        std::min(level_since_ns_, first.end_ns - static_cast<std::int64_t>(first.seconds * 1e9));
  }
}

asio::awaitable<void> StressJob::end(Which which, milliseconds deadline) {
  co_await tell("stop\n", which);
  const std::function<bool()> ended = [this, &which] {
    return std::all_of(stressors_.begin(), stressors_.end(),
                       [&](const auto& one) { return !which(*one) || one->exit_status.has_value(); });
  };
  co_await wait_until("wait until the aggressor has ended", ended, deadline);
}

asio::awaitable<void> StressJob::stop(milliseconds deadline) {
  stopping_ = true;
  // Who sends ends first: a receiver that is gone is a failure to it.
  co_await end([](const Stressor& one) { return one.judged; }, deadline);
  co_await end([](const Stressor& one) { return !one.judged; }, deadline);
}

std::vector<AggressorEvidence> StressJob::evidence(std::int64_t begin_ns, std::int64_t end_ns) const {
  std::vector<AggressorEvidence> all;
  for (const auto& one : stressors_) {
    if (!one->judged) { continue; }
    const auto [busy, rate, covered] = level_between(one->progress, begin_ns, end_ns);
    const auto before = level_between(one->progress, level_since_ns_, level_until_ns_).rate;
    all.push_back({one->kind, placement_.neighbour->level, busy, rate, covered, before, one->unit});
  }
  return all;
}

}  // namespace virtrain::harness
