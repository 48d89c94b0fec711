#include "harness/job/trainer_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "common/system/subprocess.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

using std::chrono::milliseconds;

/// From the last result to the trainer's exit.
constexpr milliseconds exit_grace{10'000};
/// With GPUs: whoever closes one last waits for the driver to shut it down, 1 to 4 s for each, one after the
/// other, after tens of GB were freed and NCCL and MPI have ended.
constexpr milliseconds gpu_exit_grace{60'000};

Error refused(const std::string& why) {
  return {"read the trainer's output", ErrorCode::protocol, why};
}

}  // namespace

TrainerJob::TrainerJob(asio::io_context& io, const TenantPlacement& placement, std::vector<JobNode> nodes,
                       RankNetwork network, bool crowded, bool beside_others, const MpiDialect& mpi)
    : TenantJob(io, placement, std::move(nodes), network, crowded, mpi), beside_others_(beside_others) {
  ranks_.resize(static_cast<std::size_t>(placement.ranks()));
}

asio::awaitable<void> TrainerJob::launch(const std::string& program, std::chrono::seconds timeout) {
  if (network_ == RankNetwork::tcp) { co_await check_paths(); }
  auto words = started_by_mpirun(
      trainer_command(program, placement_.workload, placement_.threads_per_rank, beside_others_, fusion),
      timeout);
  co_await start(0, std::move(words));
}

asio::awaitable<void> TrainerJob::go() {
  released_ns_ = monotonic_ns();
  co_await nodes_[0].agent->write_stdin(processes_.front()->id, "go\n", false);
}

std::pair<std::int64_t, std::int64_t> TrainerJob::counted_interval() const {
  std::int64_t begin_ns = std::numeric_limits<std::int64_t>::max();
  std::int64_t end_ns = 0;
  for (const auto& rank : ranks()) {
    for (const auto& window : rank.samples) {
      begin_ns = std::min(begin_ns, window.t_ns - static_cast<std::int64_t>(window.seconds * 1e9));
      end_ns = std::max(end_ns, window.t_ns);
    }
  }
  return {begin_ns, end_ns};
}

// --- output

void TrainerJob::take_line(const Process& /*process*/, OutputStream stream, const RankLine& line,
                           std::int64_t /*t_ns*/) {
  if (stream == OutputStream::standard_output) {
    if (const auto record = decode_record(line)) { return take_record(*record, line.text.size()); }
  }
  take_text(line, max_other_output_bytes);
}

void TrainerJob::take_unfinished(const Process& process, OutputStream stream, const RankLine& line) {
  if (stream == OutputStream::standard_output && is_half_a_record(line.text)) {
    return take_text(line, max_other_output_bytes);
  }
  take_line(process, stream, line, 0);
}

/// A rank may not take back a record that the coordinator has acted on.
template <typename Record>
void TrainerJob::take_once(std::optional<Record>& kept, std::int64_t rank, const Record& said) const {
  if (kept) { throw refused(fmt::format("rank {} sends its {} twice", rank, Record::record)); }
  kept = said;
}

void TrainerJob::take(RankState& state, std::int64_t rank, const protocol::Hello& said) {
  take_once(state.hello, rank, said);
}

void TrainerJob::take(RankState& state, std::int64_t rank, const protocol::Ready& said) {
  take_once(state.ready, rank, said);
}

void TrainerJob::take(RankState& state, std::int64_t rank, const protocol::Result& said) {
  if (said.scope == "rank") { take_once(state.result, rank, said); }
}

void TrainerJob::take(RankState& /*state*/, std::int64_t rank, const protocol::Failure& said) {
  fail(fmt::format("rank {}: {}", rank, printable(said.message)));
}

void TrainerJob::check_planned(const RankState& state, const RankState::Window& sample) const {
  const auto& workload = placement_.workload;
  const std::int64_t last = state.samples.empty() ? 0 : state.samples.back().step;
  if (sample.step <= last || sample.step > workload.steps) {
    throw refused(
        fmt::format("a sample of step {} after one of step {}, of {}", sample.step, last, workload.steps));
  }
  if (sample.images > workload.images_per_rank()) {
    throw refused(fmt::format("a sample of {} images where all steps have {}", sample.images,
                              workload.images_per_rank()));
  }
}

RankState::Window TrainerJob::begin_window(RankState& state, std::int64_t t_ns, double seconds) const {
  RankState::Window window;
  window.t_ns = nodes_[state.node].agent->time_of_message(t_ns);
  window.seconds = seconds;
  window.received_ns = monotonic_ns();
  if (!state.first_start_ns) {
    state.first_start_ns = window.t_ns - static_cast<std::int64_t>(window.seconds * 1e9);
  }
  return window;
}

void TrainerJob::take(RankState& state, std::int64_t rank, const protocol::Warmup& step) {
  const auto window = begin_window(state, step.t_ns, step.seconds.value_or(0));
  if (!state.samples.empty()) {
    throw refused(fmt::format("rank {} sends a warm-up step after a counted one", rank));
  }
  state.warmed_up_ns = window.received_ns;
}

void TrainerJob::take(RankState& state, std::int64_t /*rank*/, const protocol::Later& step) {
  auto window = begin_window(state, step.t_ns, step.seconds);
  window.images = step.images;
  const auto planned = placement_.workload.later_steps.value_or(0);
  if (std::ssize(state.later) >= planned) {
    throw refused(fmt::format("more than {} steps after the counted ones", planned));
  }
  state.later.push_back(window);
}

void TrainerJob::take(RankState& state, std::int64_t /*rank*/, const protocol::Sample& sample) {
  auto window = begin_window(state, sample.t_ns, sample.seconds);
  window.images = sample.images;
  window.step = sample.step;
  window.loss = sample.loss;
  check_planned(state, window);
  state.samples.push_back(window);
}

void TrainerJob::take_record(const RankRecord& record, std::size_t bytes) {
  if (record.rank < 0 || record.rank >= placement_.ranks()) {
    throw refused(fmt::format("rank {} of {}", record.rank, placement_.ranks()));
  }
  auto& state = ranks_[static_cast<std::size_t>(record.rank)];
  state.node = node_of(record.rank);
  using namespace protocol;
  const bool is_planned =
      std::holds_alternative<Sample>(record.said) || std::holds_alternative<Later>(record.said) ||
      (std::holds_alternative<Warmup>(record.said) && ++state.warmups <= placement_.workload.warmup_steps);
  if (!is_planned) { state.unplanned_bytes += bytes + line_bytes; }
  if (state.unplanned_bytes > max_other_output_bytes) {
    throw refused(fmt::format("rank {} wrote more than {} of records other than samples", record.rank,
                              format_size(max_other_output_bytes)));
  }
  std::visit([&](const auto& said) { take(state, record.rank, said); }, record.said);
  if (on_record) { on_record(record.rank, record); }
  wake();
}

// --- waiting

std::string TrainerJob::ended_early() const {
  if (processes_.empty() || !has_ended()) { return {}; }
  const auto status = *processes_.front()->exit_status;
  return fmt::format("the trainer of {} ended with exit status {}{} before that", placement_.name, status,
                     status == killed_status ? killed_hint : "");
}

template <typename Said>
bool TrainerJob::every_rank(std::optional<Said> RankState::*record) const {
  return std::ranges::all_of(ranks_, [&](const RankState& rank) { return (rank.*record).has_value(); });
}

asio::awaitable<void> TrainerJob::wait_for_hello(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::hello); };
  co_await wait_until("wait for every rank's hello", all, FairDeadline(deadline, waiting_time()));
}

asio::awaitable<void> TrainerJob::wait_for_ready(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::ready); };
  co_await wait_until("wait at the start barrier", all, FairDeadline(deadline, {}));
}

asio::awaitable<void> TrainerJob::wait_for_counted_steps(milliseconds deadline) {
  const std::function<bool()> all = [this] {
    return std::ranges::all_of(ranks_, [this](const RankState& rank) {
      return !rank.samples.empty() && rank.samples.back().step >= placement_.workload.steps;
    });
  };
  co_await wait_until("wait for every rank's counted steps", all, FairDeadline(deadline, {}));
}

asio::awaitable<void> TrainerJob::wait_for_results(milliseconds deadline) {
  const std::function<bool()> all = [this] { return every_rank(&RankState::result); };
  const std::function<bool()> ended = [this] { return has_ended(); };
  co_await wait_until("wait for every rank's result", all, FairDeadline(deadline, {}));
  const auto grace = placement_.workload.backend == Backend::cuda ? gpu_exit_grace : exit_grace;
  co_await wait_until("wait for the trainer to end", ended, FairDeadline(grace, waiting_time()));
  const auto status = *processes_.front()->exit_status;
  if (status != 0) {
    throw Error("wait for the trainer to end", ErrorCode::trial_failed,
                fmt::format("exit status {}; its last output:\n{}", status, last_words()));
  }
}

}  // namespace virtrain::harness
