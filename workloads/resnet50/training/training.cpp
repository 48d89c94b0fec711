#include "workloads/resnet50/training/training.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <vector>

#include "common/error.h"
#include "common/model/protocol.h"
#include "common/system/cgroups.h"
#include "common/system/time.h"
#include "common/text/described_json.h"
#include "common/text/json.h"
#include "workloads/common/processor.h"
#include "workloads/common/program.h"
#include "workloads/common/protocol.h"
#include "workloads/resnet50/model.h"
#include "workloads/resnet50/training/step_statistics.h"

namespace virtrain::resnet50 {
namespace {

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

class Run {
 public:
  Run(const Flags& flags, Peers& peers, Watchdog& watchdog)
      : flags_(flags), peers_(peers), watchdog_(watchdog), timeline_(!flags.trace.empty()) {}
  void run(const MakeBackend& make_backend);

 private:
  void check_dump() const;
  void say_hello(const std::string& cpuset) const;
  void say_ready(std::int64_t start_ns);
  void wait_for_go();
  bool stop_requested();
  StepResult step(bool more_follow);
  void warm_up();
  StepResult warm_up_step(bool more_follow);
  void count_steps();
  void go_on();
  void report(std::uint64_t parameters_hash);
  nlohmann::json rank_result(std::uint64_t parameters_hash, std::int64_t images, double speed);
  std::string trace_file() const { return trace_path(flags_.trace, peers_.rank(), peers_.size()); }
  bool json() const { return flags_.format == OutputFormat::json; }
  void record(const std::string& name, nlohmann::json fields) const {
    if (json()) { write_record(name, peers_.rank(), std::move(fields)); }
  }
  template <DescribedRecord Record>
  void record(const Record& said) const {
    record(Record::record, record_json(said));
  }

  const Flags& flags_;
  Peers& peers_;
  Watchdog& watchdog_;
  std::unique_ptr<TrainingBackend> backend_;
  CommandReader commands_{STDIN_FILENO};
  Timeline timeline_;

  int warmup_done_ = 0;
  std::optional<SteadyState> steady_state_;
  std::vector<double> step_seconds_;
  double counted_seconds_ = 0;
  std::optional<double> exposed_seconds_;
  std::optional<double> loss_first_, loss_last_;
  bool stop_asked_ = false;
  bool stopped_ = false;
};

void Run::say_hello(const std::string& cpuset) const {
  const LocalRank local = environment_local_rank();
  nlohmann::json fields = backend_->hello();
  fields.update({described(&protocol::Hello::size, peers_.size()),
                 described(&protocol::Hello::local_rank, local.rank),
                 {"local_size", local.size},
                 described(&protocol::Hello::hostname, host_name()),
                 described(&protocol::Hello::pid, getpid()),
                 described(&protocol::Hello::cpuset, cpuset),
                 described(&protocol::Hello::memory_limit_bytes, own_memory_limit()),
                 {"mpi", or_null(peers_.library())},
                 described(&protocol::Hello::build, build_text()),
                 {"configuration", to_json(flags_)}});
  record(protocol::Hello::record, std::move(fields));
}

void Run::say_ready(std::int64_t start_ns) {
  backend_->check_ranks();
  const std::uint64_t hash = backend_->parameters_hash();
  check_same_on_all_ranks(peers_, hash, "initial parameters",
                          "start all ranks with the same flags and the same build");
  nlohmann::json fields = backend_->ready();
  fields.update({{"t_ns", monotonic_ns()},
                 {"parameters", parameter_count(build_model(flags_.image_size, flags_.num_classes))},
                 described(&protocol::Ready::parameters_hash, hex(hash)),
                 {"setup_seconds", seconds_since(start_ns)}});
  record(protocol::Ready::record, std::move(fields));
}

void Run::wait_for_go() {
  if (!json()) { return; }
  int go = 1;
  if (peers_.rank() == 0) {
    const std::optional<Command> command = commands_.next(-1);
    go = command == Command::go ? 1 : (command == Command::stop ? 2 : 0);
  }
  go = peers_.announce(go);
  if (go == 0) {
    throw Error("wait for 'go'", ErrorCode::usage,
                "standard input ended before it (write the line 'go' to start, or use --format "
                "tf_cnn_benchmarks, which does not wait)");
  }
  stopped_ = go == 2;
}

/// Once it was, for good: a step that is under way already takes no order any more.
bool Run::stop_requested() {
  if (!json() || peers_.rank() != 0) { return false; }
  while (!stop_asked_) {
    const std::optional<Command> command = commands_.next(0);
    // Our coordinator decides our end, not a closed pipe.
    if (!command || command == Command::end_of_file) { break; }
    stop_asked_ = command == Command::stop;
  }
  return stop_asked_;
}

StepResult Run::step(bool more_follow) {
  watchdog_.expect("train a step");
  const StepResult result = backend_->step({stop_requested(), more_follow}, timeline_);
  stopped_ = result.stop;
  return result;
}

StepResult Run::warm_up_step(bool more_follow) {
  const StepResult result = step(more_follow);
  ++warmup_done_;
  record(protocol::Warmup{
      .t_ns = monotonic_ns(), .step = warmup_done_, .seconds = result.seconds, .loss = result.loss});
  return result;
}

void Run::warm_up() {
  while (warmup_done_ < flags_.warmup_steps && !stopped_) {
    warm_up_step(warmup_done_ + 1 < flags_.warmup_steps);
  }
  if (flags_.steady_seconds == 0) { return; }
  steady_state_.emplace(flags_.steady_seconds);
  bool all_are_ready = false;
  while (!stopped_ && !all_are_ready) {
    const StepResult result = warm_up_step(true);  // without gaps, as what is counted will be
    WarmupStep known{static_cast<double>(monotonic_ns()) * 1e-9, result.seconds, std::nullopt, std::nullopt};
    backend_->observe(known);
    steady_state_->add(known);
    all_are_ready = peers_.total(std::int64_t{steady_state_->is_over() ? 0 : 1}) == 0;
  }
  if (!stopped_) {
    warm_up_step(false);  // the one that may have been started already
  }
}

void Run::count_steps() {
  backend_->begin_counting();
  const std::int64_t images_per_step = flags_.batch_size * flags_.accumulate_steps;
  std::int64_t window_start_ns = monotonic_ns();
  const std::int64_t start_ns = window_start_ns;
  int window_steps = 0;
  for (int k = 1; k <= flags_.steps && !stopped_; ++k) {
    timeline_.begin_step(k);
    const StepResult result = step(k < flags_.steps);
    step_seconds_.push_back(result.seconds);
    if (result.exposed_seconds) { exposed_seconds_ = exposed_seconds_.value_or(0) + *result.exposed_seconds; }
    if (k == 1) { loss_first_ = result.loss; }
    loss_last_ = result.loss;
    ++window_steps;
    const bool last = k == flags_.steps || stopped_;
    if (json() && (k % flags_.display_every == 0 || last)) {
      const std::int64_t now_ns = monotonic_ns();
      record(protocol::Sample{.t_ns = now_ns,
                              .step = k,
                              .images = window_steps * images_per_step,
                              .seconds = static_cast<double>(now_ns - window_start_ns) * 1e-9,
                              .loss = result.loss});
      window_start_ns = now_ns;
      window_steps = 0;
    } else if (!json() && peers_.rank() == 0 && (k == 1 || k % flags_.display_every == 0)) {
      write_out(tf_cnn_line(step_seconds_, static_cast<int>(images_per_step), result.loss));
    }
  }
  counted_seconds_ = seconds_since(start_ns);
  backend_->end_counting();
}

/// For what others do meanwhile: none of these steps counts.
void Run::go_on() {
  for (int k = 1; k <= *flags_.later_steps && !stopped_; ++k) {
    const StepResult result = step(k < *flags_.later_steps);
    record(protocol::Later{.t_ns = monotonic_ns(),
                           .step = k,
                           .images = flags_.batch_size * flags_.accumulate_steps,
                           .seconds = result.seconds});
  }
}

nlohmann::json Run::rank_result(std::uint64_t parameters_hash, std::int64_t images, double speed) {
  const auto percentile = [&](double share) {
    return step_seconds_.empty() ? std::nullopt : std::optional(quantile(step_seconds_, share));
  };
  nlohmann::json fields = backend_->result(images);
  fields.update({described(&protocol::Result::scope, "rank"),
                 described(&protocol::Result::images_per_second, speed),
                 described(&protocol::Result::images, images),
                 {"seconds", counted_seconds_},
                 described(&protocol::Result::steps, step_seconds_.size()),
                 described(&protocol::Result::warmup_steps, warmup_done_),
                 {"steady_state", steady_state_ ? steady_state_->to_json() : nlohmann::json(nullptr)},
                 described(&protocol::Result::step_seconds_p50, percentile(0.5)),
                 {"step_seconds_p90", or_null(percentile(0.9))},
                 described(&protocol::Result::step_seconds_p95, percentile(0.95)),
                 described(&protocol::Result::step_seconds_p99, percentile(0.99)),
                 described(&protocol::Result::loss_first, loss_first_),
                 described(&protocol::Result::loss_last, loss_last_),
                 described(&protocol::Result::parameters_hash, hex(parameters_hash)),
                 described(&protocol::Result::peak_rss_bytes, peak_rss_bytes()),
                 described(&protocol::Result::allreduce_seconds_exposed, exposed_seconds_),
                 {"stopped", stopped_}});
  return fields;
}

void Run::report(std::uint64_t hash) {
  const auto steps = static_cast<std::int64_t>(step_seconds_.size());
  const std::int64_t images = steps * flags_.batch_size * flags_.accumulate_steps;
  const double speed = steps == 0 ? 0 : static_cast<double>(images) / counted_seconds_;
  const double total = peers_.total(speed);
  if (!json()) {
    if (peers_.rank() == 0) { write_out(tf_cnn_total(total)); }
    return;
  }
  record(protocol::Result::record, rank_result(hash, images, speed));
  if (peers_.rank() != 0) { return; }
  const int size = peers_.size();
  record(protocol::Result::record, {described(&protocol::Result::scope, "tenant"),
                                    described(&protocol::Result::images_per_second, total),
                                    described(&protocol::Result::images, images * size),
                                    {"seconds", counted_seconds_},
                                    described(&protocol::Result::steps, steps),
                                    {"ranks", size},
                                    {"stopped", stopped_}});
}

/// Its gradients are the means over all ranks, beside the batch of one of them: no reference could repeat
/// them.
void Run::check_dump() const {
  if (flags_.dump.empty() || peers_.size() == 1) { return; }
  throw Error("parse flags", ErrorCode::usage,
              fmt::format("`--dump` needs exactly one rank; this job has {}", peers_.size()));
}

void Run::run(const MakeBackend& make_backend) {
  check_dump();
  const std::int64_t start_ns = monotonic_ns();
  const std::string cpuset = allowed_cpus_text();  // before our threads are pinned to parts of it
  watchdog_.expect("set up");
  backend_ = make_backend(flags_, peers_);
  say_hello(cpuset);
  backend_->set_up(watchdog_);
  if (!flags_.trace.empty()) {
    write_trace(trace_file(), {}, peers_.rank());  // can it be written?
  }
  say_ready(start_ns);
  watchdog_.pause();
  wait_for_go();
  if (!json() && peers_.rank() == 0) { write_out(tf_cnn_header()); }
  warm_up();
  count_steps();
  watchdog_.expect("read back");
  if (!flags_.dump.empty()) {
    if (step_seconds_.empty()) {
      throw Error("write " + flags_.dump, ErrorCode::usage, "stopped before a step");
    }
    backend_->write_dump();
  }
  if (!flags_.trace.empty()) { write_trace(trace_file(), timeline_.spans(), peers_.rank()); }
  const std::uint64_t hash = json() ? backend_->parameters_hash() : 0;
  if (json()) {
    check_same_on_all_ranks(peers_, hash, "parameters", "the gradients' sums differed between ranks");
  }
  go_on();
  watchdog_.expect("report");
  report(hash);
}

}  // namespace

int run_training(const std::string& executable, const Flags& flags, const MakeBackend& make_backend) {
  Watchdog watchdog(std::chrono::seconds(flags.stall_seconds), [&](const std::string& doing) {
    report_failure(executable, doing, stall_words(flags.stall_seconds));
  });
  watchdog.expect("join the other ranks");
  const std::unique_ptr<Peers> peers = join_peers();
  Run run(flags, *peers, watchdog);
  try {
    run.run(make_backend);
    watchdog.expect("leave the other ranks");
    return 0;
  } catch (const std::exception&) {
    // While the backend still stands: its destructors free the GPU's memory, which waits for kernels that
    // wait for ranks that may be gone. The failure is told first, and the process ends without them.
    peers->abort(report_current_failure(executable, "train"));
  }
}

void require_finite(double loss) {
  if (std::isfinite(loss)) { return; }
  throw Error("train", ErrorCode::trial_failed,
              fmt::format("the loss is {} (a smaller --learning_rate or --residual_gamma may help)", loss));
}

ThreadPlacement place_this_rank(Peers& peers, int requested_threads) {
  const std::string cores = host_name() + "/" + allowed_cpus_text();
  const std::vector<std::string> all = peers.gather(cores);
  const auto self = all.begin() + peers.rank();
  return place_threads(allowed_cpus(), static_cast<int>(std::count(all.begin(), all.end(), cores)),
                       static_cast<int>(std::count(all.begin(), self, cores)), requested_threads);
}

void check_same_on_all_ranks(Peers& peers, std::uint64_t value, const std::string& what,
                             const std::string& advice) {
  const std::vector<std::string> values = peers.gather(hex(value));
  const auto other =
      std::find_if(values.begin(), values.end(), [&](const auto& v) { return v != values.front(); });
  if (other == values.end()) { return; }
  throw Error("compare " + what + " of all ranks", ErrorCode::trial_failed,
              fmt::format("rank 0 has {}, rank {} has {}; {}", values.front(), other - values.begin(), *other,
                          advice));
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

}  // namespace virtrain::resnet50
