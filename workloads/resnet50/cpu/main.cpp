#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "common/model/protocol.h"
#include "common/system/time.h"
#include "common/text/described_json.h"
#include "workloads/common/onednn.h"
#include "workloads/common/peers/peers.h"
#include "workloads/common/program.h"
#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/cpu/operations/device.h"
#include "workloads/resnet50/cpu/operations/elementwise.h"
#include "workloads/resnet50/dump.h"
#include "workloads/resnet50/flags.h"
#include "workloads/resnet50/model.h"
#include "workloads/resnet50/training/training.h"

namespace virtrain::resnet50::cpu {
namespace {

/// Sums gradients over the ranks in buckets, while the backward pass still computes the rest.
class GradientReducer {
 public:
  GradientReducer(Peers& peers, std::span<float> values, std::size_t bucket_elements)
      : peers_(peers),
        values_(values),
        rule_(static_cast<std::int64_t>(values.size()), static_cast<std::int64_t>(bucket_elements)) {}

  /// The first `count` values are final: starts what makes a bucket and drives what is under way.
  void ready(std::size_t count);
  /// Starts the rest, waits for all; seconds of this call are what the backward pass did not hide.
  double finish();

  /// When a bucket was under way. MPI works, and says that it is done, only when it is called.
  struct Bucket {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void start(std::size_t count);
  void note_done();

  Peers& peers_;
  std::span<float> values_;
  BucketRule rule_;
  std::size_t started_ = 0;
  std::vector<Bucket> buckets_;
  std::size_t done_ = 0;  ///< the buckets before this one are done
};

void GradientReducer::start(std::size_t count) {
  peers_.start_all_reduce(values_.subspan(started_, count - started_));
  buckets_.push_back({monotonic_ns(), 0});
  started_ = count;
}

void GradientReducer::note_done() {
  const std::int64_t now_ns = monotonic_ns();
  for (; done_ < buckets_.size(); ++done_) { buckets_[done_].end_ns = now_ns; }
}

void GradientReducer::ready(std::size_t count) {
  if (rule_.is_complete(static_cast<std::int64_t>(started_), static_cast<std::int64_t>(count))) {
    start(count);
  }
  if (peers_.progress()) { note_done(); }
}

double GradientReducer::finish() {
  const std::int64_t start_ns = monotonic_ns();
  if (started_ < values_.size()) { start(values_.size()); }
  peers_.wait_all();
  note_done();
  return static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
}

class Trainer : public TrainingBackend {
 public:
  Trainer(const Flags& flags, Peers& peers)
      : flags_(flags),
        peers_(peers),
        placement_(place_this_rank(peers, static_cast<int>(flags.threads.value_or(0)))),
        device_(flags.precision),
        model_(build_model(flags.image_size, flags.num_classes)) {}

  nlohmann::json hello() const override;
  void set_up(Watchdog& watchdog) override;
  void check_ranks() override;
  StepResult step(const StepOrder& order, Timeline& timeline) override;
  nlohmann::json result(std::int64_t images) override;
  std::uint64_t parameters_hash() override { return store_->hash(); }
  void write_dump() const override { dump_->write(flags_.dump); }

 private:
  StepDump::State state() const {
    return {[this](std::size_t index) { return store_->plain_master(index); },
            [this] { return network_->running_statistics(); }};
  }
  double forward_backward_all(GradientReducer& reducer, Timeline& timeline);
  double forward(std::size_t micro, Timeline& timeline);
  void backward(const std::function<void(std::size_t)>& ready, Timeline& timeline);
  void update(float gradient_scale, Timeline& timeline);

  const Flags& flags_;
  Peers& peers_;
  ThreadPlacement placement_;
  Device device_;
  Model model_;
  std::optional<Network> network_;
  std::optional<ParameterStore> store_;
  std::vector<Tensor> images_;
  std::vector<std::vector<std::int64_t>> labels_;
  std::vector<float> earlier_micro_batches_;
  std::optional<StepDump> dump_;
};

nlohmann::json Trainer::hello() const {
  return {described(&protocol::Hello::threads, placement_.threads),
          {"thread_cpus", placement_.cpus},
          described(&protocol::Hello::device, cpu_model()),
          described(&protocol::Hello::isa, onednn::instruction_set()),
          {"onednn", onednn_version()}};
}

void Trainer::set_up(Watchdog& /*watchdog*/) {
  apply(placement_);
  network_.emplace(device_, model_, static_cast<int>(flags_.batch_size));
  store_.emplace(device_, parameters(model_), network_->parameter_layouts());
  network_->attach(*store_);
  for (std::size_t i = 0; i < store_->parameters().size(); ++i) {
    store_->set(i, initial_value(store_->parameters()[i], i, flags_.seed, flags_.residual_gamma));
  }
  if (!flags_.dump.empty()) { dump_.emplace(model_); }
  for (std::int64_t micro = 0; micro < flags_.accumulate_steps; ++micro) {
    const std::int64_t shard = peers_.rank() * flags_.accumulate_steps + micro;
    Batch batch = synthetic_batch(model_, flags_.batch_size, static_cast<std::uint64_t>(shard), flags_.seed);
    images_.push_back(network_->prepare_images(batch.images));
    if (dump_) { dump_->before_step(state(), batch); }
    labels_.push_back(std::move(batch.labels));
  }
  if (flags_.accumulate_steps > 1) { earlier_micro_batches_.resize(store_->all_gradients().size()); }
}

void Trainer::check_ranks() {
  check_same_on_all_ranks(peers_, store_->layout_hash(), "weight layouts",
                          "ranks on processors with different instruction sets cannot add up gradients "
                          "(set ONEDNN_MAX_CPU_ISA to the smallest one on all)");
}

double Trainer::forward(std::size_t micro, Timeline& timeline) {
  const std::int64_t start_ns = monotonic_ns();
  const double loss = network_->forward(images_[micro], labels_[micro]);
  timeline.add(Span::Kind::compute, "forward", start_ns, monotonic_ns());
  return loss;
}

void Trainer::backward(const std::function<void(std::size_t)>& ready, Timeline& timeline) {
  const std::int64_t start_ns = monotonic_ns();
  network_->backward(ready);
  timeline.add(Span::Kind::compute, "backward", start_ns, monotonic_ns());
}

double Trainer::forward_backward_all(GradientReducer& reducer, Timeline& timeline) {
  const std::span<float> gradients = store_->all_gradients();
  std::fill(earlier_micro_batches_.begin(), earlier_micro_batches_.end(), 0.0F);
  double loss = 0;
  for (std::size_t micro = 0; micro + 1 < images_.size(); ++micro) {
    loss += forward(micro, timeline);
    backward([](std::size_t) {}, timeline);
    accumulate(earlier_micro_batches_, gradients);
  }
  loss += forward(images_.size() - 1, timeline);
  std::size_t complete = 0;
  backward(
      [&](std::size_t end) {
        if (!earlier_micro_batches_.empty()) {
          accumulate(gradients.subspan(complete, end - complete),
                     std::span<const float>(earlier_micro_batches_).subspan(complete, end - complete));
        }
        complete = end;
        reducer.ready(end);
      },
      timeline);
  return loss / static_cast<double>(images_.size());
}

void Trainer::update(float gradient_scale, Timeline& timeline) {
  const std::int64_t start_ns = monotonic_ns();
  SgdStep rule;
  rule.learning_rate = static_cast<float>(flags_.learning_rate);
  rule.momentum = static_cast<float>(sgd_momentum);
  rule.weight_decay = static_cast<float>(weight_decay);
  rule.gradient_scale = gradient_scale;
  sgd(store_->all_masters(), store_->all_velocities(), store_->all_gradients(), rule);
  timeline.add(Span::Kind::compute, "update", start_ns, monotonic_ns());
}

StepResult Trainer::step(const StepOrder& order, Timeline& timeline) {
  StepResult result;
  const std::int64_t start_ns = monotonic_ns();
  const std::span<float> wire = store_->gradients_and_control();
  wire.back() = order.stop_requested ? 1.0F : 0.0F;
  GradientReducer reducer(peers_, wire,
                          static_cast<std::size_t>(*flags_.bucket_mib) * (1U << 20) / sizeof(float));
  result.loss = forward_backward_all(reducer, timeline);
  result.exposed_seconds = reducer.finish();
  result.stop = wire.back() > 0;
  const float gradient_scale = 1.0F / static_cast<float>(peers_.size() * flags_.accumulate_steps);
  update(gradient_scale, timeline);
  result.seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
  for (std::size_t i = 0; peers_.size() > 1 && i < reducer.buckets().size(); ++i) {
    timeline.add(Span::Kind::communication, fmt::format("all-reduce {}", i), reducer.buckets()[i].begin_ns,
                 reducer.buckets()[i].end_ns);
  }
  if (dump_) {
    const auto gradient = [&](std::size_t index) {
      std::vector<float> values = store_->plain_gradient(index);
      for (float& value : values) { value *= gradient_scale; }
      return values;
    };
    dump_->after_step(state(), gradient, result.loss);
  }
  require_finite(result.loss);
  return result;
}

nlohmann::json Trainer::result(std::int64_t) {
  return {described(&protocol::Result::bytes_allreduced_per_step,
                    peers_.size() > 1 ? store_->gradients_and_control().size_bytes() : 0),
          {"activation_reorders", device_.activation_reorders()}};
}

std::unique_ptr<TrainingBackend> make_backend(const Flags& flags, Peers& peers) {
  return std::make_unique<Trainer>(flags, peers);
}

}  // namespace
}  // namespace virtrain::resnet50::cpu

int main(int argc, char** argv) {
  using namespace virtrain;
  using namespace virtrain::resnet50;
  constexpr const char* executable = "virtrain-resnet50-cpu";
  onednn::avoid_fused_sums_where_emulated();
  return run_program(
      executable, "start",
      [&] {
        return parse_flags(argc, argv, {executable, "CPU", cpu::possible_precisions()});
      },
      [&](const Flags& flags) { return run_training(executable, flags, cpu::make_backend); });
}
