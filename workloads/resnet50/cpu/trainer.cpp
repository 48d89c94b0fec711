#include "workloads/resnet50/cpu/trainer.h"

#include "common/error.h"
#include "common/memory_limit.h"
#include "common/time.h"
#include "workloads/common/affinity.h"
#include "workloads/common/program.h"
#include "workloads/common/protocol.h"
#include "workloads/resnet50/cpu/device.h"
#include "workloads/resnet50/cpu/dump.h"
#include "workloads/resnet50/cpu/elementwise.h"
#include "workloads/resnet50/cpu/gradient_reducer.h"
#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/initialize.h"
#include "workloads/resnet50/model.h"
#include "workloads/resnet50/step_statistics.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

namespace virtrain::resnet50::cpu {
namespace {

double seconds_since(std::int64_t start_ns) {
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

std::string hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

/// Ranks on one host with the same mask (mpirun --bind-to none) divide its cores among themselves.
ThreadPlacement place_this_rank(Communicator& communicator, int requested) {
  const std::size_t key = std::hash<std::string>{}(host_name() + "/" + allowed_cpus_text());
  const std::vector<std::uint64_t> keys = communicator.gather(key);
  const auto self = keys.begin() + communicator.rank();
  return place_threads(allowed_cpus(), static_cast<int>(std::count(keys.begin(), keys.end(), key)),
                       static_cast<int>(std::count(keys.begin(), self, key)), requested);
}

struct StepResult {
  double seconds = 0;
  double loss = 0;
  double exposed_seconds = 0;
  bool stop = false;  ///< some rank was told to stop; all ranks agree on it
};

class Trainer {
 public:
  Trainer(const Flags& flags, Communicator& communicator);
  void run();

 private:
  void say_hello(const ThreadPlacement& placement, const std::string& cpuset) const;
  void set_up();
  void say_ready(std::int64_t start_ns);
  void wait_for_go();
  bool stop_requested();
  StepResult step();
  double forward_backward_all(GradientReducer& reducer);
  void warm_up();
  void count_steps();
  void report();
  void check_same_on_all_ranks(std::uint64_t value, const std::string& what, const std::string& advice);
  bool json() const { return flags_.format == OutputFormat::json; }
  void record(const std::string& name, nlohmann::json fields) const {
    if (json()) write_record(name, communicator_.rank(), std::move(fields));
  }

  const Flags& flags_;
  Communicator& communicator_;
  Device device_;
  Model model_;
  std::optional<Network> network_;
  std::optional<ParameterStore> store_;
  std::vector<Tensor> images_;
  std::vector<std::vector<std::int64_t>> labels_;
  std::vector<float> earlier_micro_batches_;
  std::optional<StepDump> dump_;
  CommandReader commands_{STDIN_FILENO};

  int warmup_done_ = 0;
  std::vector<double> step_seconds_;
  double counted_seconds_ = 0;
  double exposed_seconds_ = 0;
  double loss_first_ = 0;
  double loss_last_ = 0;
  bool stopped_ = false;
};

Trainer::Trainer(const Flags& flags, Communicator& communicator)
    : flags_(flags),
      communicator_(communicator),
      device_(flags.precision),
      model_(build_model(flags.image_size, flags.num_classes)) {}

void Trainer::say_hello(const ThreadPlacement& placement, const std::string& cpuset) const {
  const std::optional<std::string> mpi = communicator_.library();
  const std::optional<std::uint64_t> memory_limit = own_memory_limit();
  record("hello",
         {{"size", communicator_.size()},
          {"local_rank", communicator_.local_rank()},
          {"local_size", communicator_.local_size()},
          {"hostname", host_name()},
          {"pid", getpid()},
          {"cpuset", cpuset},
          {"memory_limit_bytes", memory_limit ? nlohmann::json(*memory_limit) : nlohmann::json(nullptr)},
          {"threads", placement.threads},
          {"thread_cpus", placement.cpus},
          {"device", cpu_model()},
          {"isa", effective_isa()},
          {"onednn", onednn_version()},
          {"mpi", mpi ? nlohmann::json(*mpi) : nlohmann::json(nullptr)},
          {"build", build_text()},
          {"configuration", to_json(flags_)}});
}

void Trainer::check_same_on_all_ranks(std::uint64_t value, const std::string& what,
                                      const std::string& advice) {
  const std::vector<std::uint64_t> values = communicator_.gather(value);
  const auto other = std::find_if(values.begin(), values.end(), [&](auto v) { return v != values.front(); });
  if (other == values.end()) return;
  throw Error("compare " + what + " of all ranks", ErrorCode::trial_failed,
              fmt::format("rank 0 has {}, rank {} has {}; {}", hex(values.front()), other - values.begin(),
                          hex(*other), advice));
}

void Trainer::set_up() {
  network_.emplace(device_, model_, flags_.batch_size);
  store_.emplace(device_, parameters(model_), network_->parameter_layouts());
  network_->attach(*store_);
  for (std::size_t i = 0; i < store_->parameters().size(); ++i) {
    store_->set(i, initial_value(store_->parameters()[i], i, flags_.seed, flags_.residual_gamma));
  }
  if (!flags_.dump.empty() && communicator_.rank() == 0) dump_.emplace(model_);
  for (int micro = 0; micro < flags_.accumulate_steps; ++micro) {
    const int shard = communicator_.rank() * flags_.accumulate_steps + micro;
    Batch batch = synthetic_batch(model_, flags_.batch_size, static_cast<std::uint64_t>(shard), flags_.seed);
    images_.push_back(network_->prepare_images(batch.images));
    if (dump_) dump_->before_step(*store_, *network_, batch);
    labels_.push_back(std::move(batch.labels));
  }
  if (flags_.accumulate_steps > 1) earlier_micro_batches_.resize(store_->all_gradients().size());
}

void Trainer::say_ready(std::int64_t start_ns) {
  check_same_on_all_ranks(store_->layout_hash(), "weight layouts",
                          "ranks on processors with different instruction sets cannot add up gradients "
                          "(set ONEDNN_MAX_CPU_ISA to the smallest one on all)");
  const std::uint64_t hash = store_->hash();
  check_same_on_all_ranks(hash, "initial parameters",
                          "start all ranks with the same flags and the same build");
  record("ready", {{"t_ns", monotonic_ns()},
                   {"parameters", parameter_count(model_)},
                   {"parameters_hash", hex(hash)},
                   {"setup_seconds", seconds_since(start_ns)}});
}

void Trainer::wait_for_go() {
  if (!json()) return;
  int go = 1;
  if (communicator_.rank() == 0) {
    const std::optional<Command> command = commands_.next(-1);
    go = command == Command::go ? 1 : (command == Command::stop ? 2 : 0);
  }
  go = communicator_.broadcast(go);
  if (go == 0) {
    throw Error("wait for 'go'", ErrorCode::usage,
                "standard input ended before it (write the line 'go' to start, or use --format "
                "tf_cnn_benchmarks, which does not wait)");
  }
  stopped_ = go == 2;
}

bool Trainer::stop_requested() {
  if (!json() || communicator_.rank() != 0) return false;
  while (const std::optional<Command> command = commands_.next(0)) {
    if (command == Command::stop) return true;
    if (command == Command::end_of_file) return false;  // our coordinator decides our end, not a closed pipe
  }
  return false;
}

double Trainer::forward_backward_all(GradientReducer& reducer) {
  const std::span<float> gradients = store_->all_gradients();
  std::fill(earlier_micro_batches_.begin(), earlier_micro_batches_.end(), 0.0F);
  double loss = 0;
  for (std::size_t micro = 0; micro + 1 < images_.size(); ++micro) {
    loss += network_->forward(images_[micro], labels_[micro]);
    network_->backward([](std::size_t) {});
    accumulate(earlier_micro_batches_, gradients);
  }
  loss += network_->forward(images_.back(), labels_.back());
  std::size_t complete = 0;
  network_->backward([&](std::size_t end) {
    if (!earlier_micro_batches_.empty()) {
      accumulate(gradients.subspan(complete, end - complete),
                 std::span<const float>(earlier_micro_batches_).subspan(complete, end - complete));
    }
    complete = end;
    reducer.ready(end);
  });
  return loss / static_cast<double>(images_.size());
}

StepResult Trainer::step() {
  StepResult result;
  const std::int64_t start_ns = monotonic_ns();
  const std::span<float> wire = store_->gradients_and_control();
  wire.back() = stop_requested() ? 1.0F : 0.0F;
  GradientReducer reducer(communicator_, wire,
                          static_cast<std::size_t>(flags_.bucket_mib) * (1U << 20) / sizeof(float));
  result.loss = forward_backward_all(reducer);
  result.exposed_seconds = reducer.finish();
  result.stop = wire.back() > 0;
  SgdStep rule;
  rule.learning_rate = static_cast<float>(flags_.learning_rate);
  rule.momentum = static_cast<float>(sgd_momentum);
  rule.weight_decay = static_cast<float>(weight_decay);
  rule.gradient_scale = 1.0F / static_cast<float>(communicator_.size() * flags_.accumulate_steps);
  sgd(store_->all_masters(), store_->all_velocities(), store_->all_gradients(), rule);
  result.seconds = seconds_since(start_ns);
  if (dump_) dump_->after_step(*store_, *network_, result.loss, rule.gradient_scale);
  if (!std::isfinite(result.loss)) {
    throw Error(
        "train", ErrorCode::trial_failed,
        fmt::format("the loss is {} (a smaller --learning_rate or --residual_gamma may help)", result.loss));
  }
  return result;
}

void Trainer::warm_up() {
  while (warmup_done_ < flags_.num_warmup_batches && !stopped_) {
    const StepResult result = step();
    ++warmup_done_;
    record("warmup", {{"t_ns", monotonic_ns()},
                      {"step", warmup_done_},
                      {"seconds", result.seconds},
                      {"loss", result.loss}});
    stopped_ = result.stop;
  }
}

void Trainer::count_steps() {
  const int images_per_step = flags_.batch_size * flags_.accumulate_steps;
  std::int64_t window_start_ns = monotonic_ns();
  const std::int64_t start_ns = window_start_ns;
  int window_steps = 0;
  for (int k = 1; k <= flags_.num_batches && !stopped_; ++k) {
    const StepResult result = step();
    step_seconds_.push_back(result.seconds);
    exposed_seconds_ += result.exposed_seconds;
    if (k == 1) loss_first_ = result.loss;
    loss_last_ = result.loss;
    stopped_ = result.stop;
    ++window_steps;
    const bool last = k == flags_.num_batches || stopped_;
    if (json() && (k % flags_.display_every == 0 || last)) {
      const std::int64_t now_ns = monotonic_ns();
      record("sample", {{"t_ns", now_ns},
                        {"step", k},
                        {"images", window_steps * images_per_step},
                        {"seconds", static_cast<double>(now_ns - window_start_ns) * 1e-9},
                        {"loss", result.loss}});
      window_start_ns = now_ns;
      window_steps = 0;
    } else if (!json() && communicator_.rank() == 0 && (k == 1 || k % flags_.display_every == 0)) {
      write_out(tf_cnn_line(step_seconds_, images_per_step, result.loss));
    }
  }
  counted_seconds_ = seconds_since(start_ns);
}

void Trainer::report() {
  const auto steps = static_cast<int>(step_seconds_.size());
  const int images = steps * flags_.batch_size * flags_.accumulate_steps;
  const double speed = steps == 0 ? 0 : images / counted_seconds_;
  const double total = communicator_.sum(speed);
  if (!json()) {
    if (communicator_.rank() == 0) write_out(tf_cnn_total(total));
    return;
  }
  const std::uint64_t hash = store_->hash();
  check_same_on_all_ranks(hash, "parameters", "the gradients' sums differed between ranks");
  const auto percentile = [&](double share) {
    return steps == 0 ? nlohmann::json(nullptr) : nlohmann::json(quantile(step_seconds_, share));
  };
  nlohmann::json fields{{"images_per_second", speed},
                        {"images", images},
                        {"seconds", counted_seconds_},
                        {"steps", steps},
                        {"warmup_steps", warmup_done_},
                        {"step_seconds_p50", percentile(0.5)},
                        {"step_seconds_p90", percentile(0.9)},
                        {"step_seconds_p95", percentile(0.95)},
                        {"step_seconds_p99", percentile(0.99)},
                        {"loss_first", steps == 0 ? nlohmann::json(nullptr) : nlohmann::json(loss_first_)},
                        {"loss_last", steps == 0 ? nlohmann::json(nullptr) : nlohmann::json(loss_last_)},
                        {"parameters_hash", hex(hash)},
                        {"peak_rss_bytes", peak_rss_bytes()},
                        {"allreduce_seconds_exposed", exposed_seconds_},
                        {"bytes_allreduced_per_step",
                         communicator_.size() > 1 ? store_->gradients_and_control().size_bytes() : 0},
                        {"activation_reorders", device_.activation_reorders()},
                        {"stopped", stopped_}};
  fields["scope"] = "rank";
  record("result", fields);
  if (communicator_.rank() != 0) return;
  const int size = communicator_.size();
  record("result", {{"scope", "tenant"},
                    {"images_per_second", total},
                    {"images", static_cast<std::int64_t>(images) * size},
                    {"seconds", counted_seconds_},
                    {"steps", steps},
                    {"ranks", size},
                    {"stopped", stopped_}});
}

void Trainer::run() {
  const std::int64_t start_ns = monotonic_ns();
  const std::string cpuset = allowed_cpus_text();  // before our threads are pinned to parts of it
  const ThreadPlacement placement = place_this_rank(communicator_, flags_.num_threads);
  say_hello(placement, cpuset);
  apply(placement);
  set_up();
  say_ready(start_ns);
  wait_for_go();
  if (!json() && communicator_.rank() == 0) write_out(tf_cnn_header());
  warm_up();
  count_steps();
  if (dump_) dump_->write(flags_.dump);
  report();
}

}  // namespace

void train(const Flags& flags, Communicator& communicator) {
  Trainer(flags, communicator).run();
}

}  // namespace virtrain::resnet50::cpu
