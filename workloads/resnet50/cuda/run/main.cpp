#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "common/error.h"
#include "common/model/protocol.h"
#include "common/system/time.h"
#include "common/text/described_json.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/gpu/gpu_choice.h"
#include "workloads/common/program.h"
#include "workloads/resnet50/cuda/engine/cudnn_plan.h"
#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/run/gpu.h"
#include "workloads/resnet50/cuda/run/parameter_transfer.h"
#include "workloads/resnet50/cuda/run/step_executor.h"
#include "workloads/resnet50/cuda/run/step_profile.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"
#include "workloads/resnet50/flags.h"
#include "workloads/resnet50/training/training.h"

namespace virtrain::resnet50::cuda {
namespace {

StepSettings settings_of(const Flags& flags, const Gpu& gpu, int ranks) {
  if (!is_possible(flags.precision, gpu.compute_capability)) {
    throw Error("take a GPU", ErrorCode::host_unable,
                fmt::format("{} has no arithmetic for --precision {} (it has fp32 and fp16)", gpu.name,
                            to_string(flags.precision)));
  }
  StepSettings settings;
  settings.batch = static_cast<int>(flags.batch_size);
  settings.numeric = flags.precision;
  settings.accumulate_steps = static_cast<int>(flags.accumulate_steps);
  settings.ranks = ranks;
  settings.stamps = ranks > 1 || !flags.trace.empty();
  settings.bucket_bytes = *flags.bucket_mib << 20;
  return settings;
}

Progress progress_to(Watchdog& watchdog) {
  return [&watchdog](const std::string& doing) { watchdog.expect(doing); };
}

class Trainer : public TrainingBackend {
 public:
  Trainer(const Flags& flags, Peers& peers)
      : flags_(flags),
        peers_(peers),
        model_(build_model(flags.image_size, flags.num_classes)),
        gpu_(take_gpu(peers)),
        settings_(settings_of(flags, gpu_, peers.size())),
        fusions_(fusion_candidates(flags.fusion, settings_.numeric, gpu_.compute_capability)),
        telemetry_(gpu_.pci_address) {}

  nlohmann::json hello() const override;
  void set_up(Watchdog& watchdog) override;
  nlohmann::json ready() const override;
  StepResult step(const StepOrder& order, Timeline& timeline) override;
  void observe(WarmupStep& step) const override { telemetry_.observe(step); }
  void begin_counting() override;
  void end_counting() override { telemetry_.end_counting(); }
  nlohmann::json result(std::int64_t images) override;
  std::uint64_t parameters_hash() override;
  void write_dump() const override { dump_->write(flags_.dump); }

 private:
  void prepare(Watchdog& watchdog);
  PlanCache read_plan_cache() const;
  void choose_fusion(PlanCache& cache, Watchdog& watchdog);
  TimedMix time_mix(const FusionMix& mix, TimingOf what, PlanCache& cache, const Progress& progress) const;
  double step_seconds(StepExecutor& executor) const;
  StepSettings alone(const FusionMix& mix) const;
  void share_fusion();
  void write_start(StepExecutor& executor) const;
  Batch batch(int micro) const;
  void launch(bool stop_requested);
  StepDump::State state() const;
  float gradient_scale() const { return 1.0F / static_cast<float>(flags_.accumulate_steps); }
  void add_spans(const StepExecutor::Finished& finished, Timeline& timeline) const;
  void dump_step(double loss, float loss_scale);

  const Flags& flags_;
  Peers& peers_;
  Model model_;
  Gpu gpu_;
  StepSettings settings_;
  std::vector<Fusion> fusions_;  ///< that this run may take
  FusionChoice fusion_;
  GpuTelemetry telemetry_;
  std::unique_ptr<GradientExchange> exchange_;
  std::unique_ptr<ComputeStream> compute_;  ///< for all executors, one after the other
  std::optional<StepExecutor> executor_;
  std::optional<StepDump> dump_;
  std::deque<bool> stops_;  ///< of the steps under way: all ranks agreed to stop after it
  LossScale loss_scale_;
  std::int64_t clock_offset_ns_ = 0;
};

nlohmann::json Trainer::hello() const {
  return {described(&protocol::Hello::device, gpu_.name),
          described(&protocol::Hello::pci_address, gpu_.pci_address),
          {"compute_capability", gpu_.compute_capability},
          {"cuda_driver", gpu_.driver_version},
          described(&protocol::Hello::cuda_runtime, gpu_.runtime_version),
          described(&protocol::Hello::cudnn, cudnn_version()),
          described(&protocol::Hello::nccl, exchange_version()),
          {"gpu", telemetry_.now()}};
}

// Others on the GPU are no reason to refuse it before they compute; where they leave too little memory, they
// are named. Each rank looks before any of them works: two may share a GPU.
void Trainer::set_up(Watchdog& watchdog) {
  if (flags_.register_gradients && peers_.size() == 1) {
    throw Error("parse flags", ErrorCode::usage,
                "`--register_gradients` needs several ranks; this job has one");
  }
  if (!flags_.shared_gpu) { refuse_occupied_gpu(gpu_.pci_address); }
  peers_.barrier();
  try {
    prepare(watchdog);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::usage) {
      throw;  // usage: the batch does not fit
    }
    throw Error(error.operation(), error.code(), error.message() + telemetry_.sharing_words());
  }
}

void Trainer::prepare(Watchdog& watchdog) {
  PlanCache cache = read_plan_cache();
  // First of all, so that no level of fusion is timed in memory that NCCL takes later. What is reduced is the
  // same at each of them.
  exchange_ = join_exchange(peers_, flags_.register_gradients);
  if (exchange_) { connect(*exchange_, build_step(model_, settings_)); }
  compute_ = std::make_unique<ComputeStream>();
  choose_fusion(cache, watchdog);
  if (peers_.rank() != 0) {
    cache = read_plan_cache();  // with the engines that rank 0 has chosen meanwhile
  }
  executor_.emplace(*compute_, model_, settings_, exchange_.get(), cache, progress_to(watchdog));
  fusion_.unfused = executor_->program().settings.unfused;  // where nothing was timed: what cuDNN lacks
  // Ranks of other hosts may have had to find their engines; each one's own watchdog looks after that.
  watchdog.pause();
  peers_.barrier();
  watchdog.expect("set up");
  executor_->warm_up();
  if (!flags_.profile_step.empty() && peers_.rank() == 0) {
    write_start(*executor_);
    write_profile(flags_.profile_step, *executor_, time_operations(*executor_));
    executor_->clear();
  }
  write_start(*executor_);
  if (!flags_.dump.empty()) {
    dump_.emplace(model_);
    dump_->before_step(state(), batch(0));
  }
  executor_->capture();
}

PlanCache Trainer::read_plan_cache() const {
  return {plan_cache_file(), machine_key(gpu_.name, gpu_.compute_capability, telemetry_.driver(),
                                         gpu_.driver_version, cudnn_version())};
}

/// Rank 0 times the levels, alone, while the others wait: all ranks must take the same one. For as long as it
/// takes: rank 0's own watchdog ends them all.
void Trainer::choose_fusion(PlanCache& cache, Watchdog& watchdog) {
  const std::string key = fusion_key(flags_.image_size, flags_.num_classes, settings_.numeric,
                                     flags_.batch_size, flags_.accumulate_steps);
  if (peers_.rank() != 0) {
    watchdog.pause();
  } else {
    const Progress progress = progress_to(watchdog);
    const FusionRule rule = fusion_rule(flags_.fusion);
    // A choice that was made elsewhere decides only for a run that is to choose nothing itself.
    const auto text = rule == FusionRule::remembered ? cache.find_alike(key) : cache.find(key);
    const std::optional<FusionMix> known = parse_fusion_mix(text.value_or(""));
    fusion_ = cuda::choose_fusion(
        model_, {rule, fusions_, settings_.numeric, known},
        [&](const FusionMix& mix, TimingOf what) { return time_mix(mix, what, cache, progress); });
    if (rule == FusionRule::auto_ && !fusion_.tried.empty()) {
      cache.set(key, to_text({fusion_.fusion, fusion_.unfused}));
    }
    cache.save();
  }
  share_fusion();
  watchdog.expect("set up");
}

/// Rank 0's choice to all.
void Trainer::share_fusion() {
  std::string text = to_text({fusion_.fusion, fusion_.unfused});
  text.resize(static_cast<std::size_t>(peers_.announce(static_cast<int>(text.size()))));
  peers_.broadcast(std::as_writable_bytes(std::span(text)));
  const FusionMix mix = parse_fusion_mix(text).value_or(FusionMix{});
  settings_.fusion = fusion_.fusion = mix.level;
  settings_.unfused = fusion_.unfused = mix.unfused;
}

StepSettings Trainer::alone(const FusionMix& mix) const {
  StepSettings settings = settings_;
  settings.fusion = mix.level;
  settings.unfused = mix.unfused;
  settings.ranks = 1;
  settings.stamps = false;
  return settings;
}

/// All memory is free again afterwards.
TimedMix Trainer::time_mix(const FusionMix& mix, TimingOf what, PlanCache& cache,
                           const Progress& progress) const {
  StepExecutor executor(*compute_, model_, alone(mix), nullptr, cache, progress);
  executor.warm_up();
  write_start(executor);
  TimedMix timed;
  timed.unfused = executor.program().settings.unfused;
  if (what != TimingOf::operations) {
    progress(std::string("time steps with fusion ") + to_string(mix.level));
    timed.step_seconds = step_seconds(executor);
  }
  if (what != TimingOf::step) {
    progress("time operations with and without fusion");
    timed.sites = seconds_by_site(time_operations(executor));
  }
  return timed;
}

/// The median of a few steps as they will be run, but without other ranks.
double Trainer::step_seconds(StepExecutor& executor) const {
  constexpr int steps_before = 5, timed_steps = 11;
  constexpr std::int64_t warm_up_ns = 2'000'000'000;
  executor.capture();
  executor.launch();
  const auto step = [&executor] {
    executor.launch();  // the next one is queued, as in a run
    return executor.finish().seconds;
  };
  // A cool GPU is faster, and the level that is timed first must not gain by it. Nothing hangs on the time of
  // the only one.
  const std::int64_t begin_ns = monotonic_ns();
  const bool compares = fusion_rule(flags_.fusion) == FusionRule::auto_;
  for (int i = 0; i < steps_before || (compares && monotonic_ns() - begin_ns < warm_up_ns); ++i) { step(); }
  std::array<double, timed_steps> seconds{};
  for (double& each : seconds) { each = step(); }
  executor.finish();
  std::nth_element(seconds.begin(), seconds.begin() + timed_steps / 2, seconds.end());
  return seconds[timed_steps / 2];
}

Batch Trainer::batch(int micro) const {
  const std::int64_t shard = peers_.rank() * flags_.accumulate_steps + micro;
  return synthetic_batch(model_, flags_.batch_size, static_cast<std::uint64_t>(shard), flags_.seed);
}

/// Parameters and data as training begins with them.
void Trainer::write_start(StepExecutor& executor) const {
  SgdRule rule;
  rule.learning_rate = static_cast<float>(flags_.learning_rate);
  rule.momentum = static_cast<float>(sgd_momentum);
  rule.weight_decay = static_cast<float>(weight_decay);
  rule.gradient_scale = gradient_scale();
  write_initial_state(executor, model_, flags_.seed, flags_.residual_gamma, rule);
  for (int micro = 0; micro < flags_.accumulate_steps; ++micro) {
    write_batch(executor, batch(micro), micro);
  }
}

nlohmann::json Trainer::ready() const {
  nlohmann::json fields = to_json(fusion_);
  fields.update({described(&protocol::Ready::fusion, to_words({fusion_.fusion, fusion_.unfused})),
                 described(&protocol::Ready::repeatable, executor_->is_repeatable()),
                 {"graphs", executor_->graphs()},
                 {"graphs_timed", executor_->graphs_timed()},
                 {"device_bytes", executor_->peak_bytes()},
                 {"workspace_bytes", executor_->workspace_bytes()},
                 {"gpu", telemetry_.now()}});
  return fields;
}

/// The clocks drift by milliseconds in the minutes before, and only what is counted is traced.
void Trainer::begin_counting() {
  if (settings_.stamps) { clock_offset_ns_ = executor_->clock_offset_ns(); }
  telemetry_.begin_counting();
}

void Trainer::launch(bool stop_requested) {
  stops_.push_back(peers_.announce(stop_requested ? 1 : 0) != 0);
  executor_->launch();
}

/// While the GPU runs one step, the next one is already queued: it never waits for the host.
StepResult Trainer::step(const StepOrder& order, Timeline& timeline) {
  if (executor_->under_way() == 0) { launch(order.stop_requested); }
  if (order.more_follow && !stops_.back()) { launch(order.stop_requested); }
  const StepExecutor::Finished finished = executor_->finish();
  add_spans(finished, timeline);
  StepResult result;
  if (settings_.ranks > 1) {
    const auto [begin, end] = std::pair(executor_->program().exposed_begin, executor_->program().exposed_end);
    const auto at = [&](int stamp) { return finished.stamps.at(static_cast<std::size_t>(stamp)); };
    result.exposed_seconds = static_cast<double>(at(end) - at(begin)) * 1e-9;
  }
  result.seconds = finished.seconds;
  result.loss = finished.loss;
  result.stop = stops_.front();
  stops_.pop_front();
  loss_scale_ = finished.loss_scale;
  if (dump_) { dump_step(result.loss, loss_scale_.scale); }
  require_finite(result.loss);
  return result;
}

void Trainer::add_spans(const StepExecutor::Finished& finished, Timeline& timeline) const {
  const auto host_ns = [&](int stamp) {
    return static_cast<std::int64_t>(finished.stamps.at(static_cast<std::size_t>(stamp))) + clock_offset_ns_;
  };
  for (const StampedSpan& span : executor_->program().spans) {
    timeline.add(span.communicates ? Span::Kind::communication : Span::Kind::compute, span.name,
                 host_ns(span.begin), host_ns(span.end));
  }
}

void Trainer::dump_step(double loss, float loss_scale) {
  const auto gradients = read_gradients(*executor_, model_, gradient_scale() / loss_scale);
  dump_->after_step(
      state(), [&](std::size_t index) { return gradients[index]; }, loss);
}

StepDump::State Trainer::state() const {
  auto all = std::make_shared<std::vector<std::vector<float>>>(read_parameters(*executor_, model_));
  return {[all](std::size_t index) { return (*all)[index]; },
          [this] { return read_running_statistics(*executor_); }};
}

nlohmann::json Trainer::result(std::int64_t images) {
  std::int64_t bytes = 0;
  for (const AllReduce& reduction : reductions_of(executor_->program())) {
    bytes += reduction.count * element_bytes(reduction.numeric);
  }
  return {described(&protocol::Result::bytes_allreduced_per_step, bytes),
          {"loss_scale", loss_scale_.scale},
          described(&protocol::Result::skipped_steps, loss_scale_.skipped_steps),
          {"device_bytes", executor_->peak_bytes()},
          {"gpu", telemetry_.result(images)}};
}

std::uint64_t Trainer::parameters_hash() {
  ParameterHash hash;
  for (const std::vector<float>& values : read_parameters(*executor_, model_)) { hash.add(values); }
  return hash.value();
}

/// Takes this rank's GPU. Throws Error in words that say what is missing.
std::unique_ptr<TrainingBackend> make_backend(const Flags& flags, Peers& peers) {
  return std::make_unique<Trainer>(flags, peers);
}

}  // namespace
}  // namespace virtrain::resnet50::cuda

int main(int argc, char** argv) {
  using namespace virtrain;
  using namespace virtrain::resnet50;
  constexpr const char* executable = "virtrain-resnet50-cuda";
  constexpr int steady_seconds = 60;
  return run_program(
      executable, "start",
      [&] {
        auto fusions = enum_names<FusionRule>();
        fusions.erase(fusions.begin());  // the flag has its default
        const auto levels = enum_names<cuda::Fusion>();
        fusions.insert(fusions.end(), levels.begin(), levels.end());
        return parse_flags(argc, argv,
                           {executable,
                            "GPU",
                            {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16},
                            steady_seconds,
                            fusions,
                            /*on_gpu=*/true});
      },
      [&](const Flags& flags) { return run_training(executable, flags, cuda::make_backend); });
}
