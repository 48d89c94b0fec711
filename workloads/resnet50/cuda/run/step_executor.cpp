#include "workloads/resnet50/cuda/run/step_executor.h"

#include <cuda_runtime_api.h>
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "common/system/time.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/engine/graph_set.h"
#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

namespace virtrain::resnet50::cuda {

/// Queues the operations of one micro-batch on the GPU.
class ActionLauncher : public Runner {
 public:
  ActionLauncher(StepExecutor& executor, int micro_batch) : executor_(executor), micro_batch_(micro_batch) {}

  void run(const RunGraph& graph) override;
  void start(const AllReduce& reduction) override;
  void await_reductions() override;
  Numeric numeric() const override { return executor_.program_.settings.numeric; }
  Stream stream() const override { return executor_.compute_.get(); }
  const Kernels& kernels() const override;

 private:
  std::byte* place(Ref tensor) const override { return executor_.at(tensor, micro_batch_); }
  void note(const Stamp& moment, Stream on) const;

  StepExecutor& executor_;
  int micro_batch_;
};

void ActionLauncher::run(const RunGraph& graph) {
  executor_.graphs_.run(graph, executor_.pointers(graph, micro_batch_),
                        executor_.arena_.get() + executor_.plan_.workspace_offset);
}

void ActionLauncher::start(const AllReduce& a) {
  const Stream other = executor_.communication_.get();
  executor_.gradients_ready_.record(stream());
  executor_.gradients_ready_.hold(other);
  note(a.begin, other);
  std::byte* const values = at<std::byte>(a.values) + a.first * element_bytes(a.numeric);
  executor_.exchange_->sum(values, a.count, a.numeric, other);
  note(a.end, other);
}

void ActionLauncher::await_reductions() {
  executor_.gradients_reduced_.record(executor_.communication_.get());
  executor_.gradients_reduced_.hold(stream());
}

void ActionLauncher::note(const Stamp& moment, Stream on) const {
  if (moment.stamps == no_tensor) { return; }
  cuda::stamp(at<std::uint64_t>(moment.stamps) + moment.index, on);
}

const Kernels& ActionLauncher::kernels() const {
  static constexpr Kernels all;
  return all;
}

namespace {

/// Memory that modules that load later, cuDNN, the driver and the captured step may still take: each
/// micro-batch is some 550 nodes of it.
std::int64_t spare_bytes(const StepSettings& settings, std::int64_t total) {
  return std::max<std::int64_t>(512LL << 20, total / 100) + settings.accumulate_steps * (1LL << 20);
}

std::int64_t bytes_for(const StepSettings& settings) {
  std::size_t free = 0, total = 0;
  check_gpu("read the GPU's free memory", cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free) - spare_bytes(settings, static_cast<std::int64_t>(total));
}

/// A range in the profilers' timelines.
class Range {
 public:
  explicit Range(const char* name) { nvtxRangePushA(name); }
  ~Range() { nvtxRangePop(); }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace

StepExecutor::StepExecutor(const ComputeStream& compute, const Model& model, const StepSettings& settings,
                           GradientExchange* exchange, PlanCache& cache, const Progress& progress)
    : exchange_(exchange), compute_(compute.stream), cudnn_(compute.cudnn) {
  StepSettings fused = settings;
  while (true) {
    build(model, fused, cache, progress);
    arena_ = allocate_device(static_cast<std::size_t>(plan_.peak_bytes));
    const bool all_run = graphs_.tune(
        program_,
        [this](const RunGraph& graph) {
          fill_noise(arena_.get(), plan_.peak_bytes, compute_.get());
          return pointers(graph, 0);
        },
        arena_.get() + plan_.workspace_offset, compute_.get(), cache, progress);
    if (all_run) { break; }
    arena_.reset();  // what was built may still not run: then its shape stays apart, in other memory
  }
  place_gradients();
  cache.save();
  const std::size_t read_back_bytes = count_of(program_.handles.stamps) * sizeof(std::uint64_t) +
                                      sizeof(LossScale) + count_of(program_.handles.losses) * sizeof(float);
  for (Slot& slot : slots_) { slot.memory = allocate_pinned(read_back_bytes); }
}

StepExecutor::~StepExecutor() {
  if (captured_ != nullptr) { ignore_gpu(cudaGraphExecDestroy(captured_)); }
}

/// A shape for which cuDNN has no engine is left apart, and the others stay fused.
void StepExecutor::build(const Model& model, StepSettings& settings, PlanCache& cache,
                         const Progress& progress) {
  std::int64_t available = 0;
  do {
    program_ = build_step(model, settings);
    available = bytes_for(settings);
    const std::int64_t room = workspace_room(program_, available);
    // Such a batch is refused before cuDNN is asked for its engines; the largest that fits will want some.
    if (!is_countable(program_) || room < 0) {
      require_fit(model, program_, available, std::min(most_workspace_bytes, available / 8));
    }
    graphs_.build(cudnn_, program_, std::min(room, most_workspace_bytes), cache, progress);
  } while (leave_apart(settings, graphs_.refused()));
  if (const std::string refusal = graphs_.refusal(program_); !refusal.empty()) {
    throw Error("find cuDNN's engines", ErrorCode::host_unable, refusal);
  }
  require_fit(model, program_, available, graphs_.workspace_bytes());
  plan_ = plan_memory(program_, graphs_.workspace_bytes());
}

std::byte* StepExecutor::at(Ref tensor, int micro_batch) const {
  const ProgramTensor& t = program_.at(tensor);
  std::int64_t offset = plan_.offset[static_cast<std::size_t>(tensor)];
  if (t.per_micro_batch) {
    offset += t.count / program_.settings.accumulate_steps * micro_batch *
              bytes_of(t.element, program_.settings.numeric);
  }
  const Ref base = t.view_of == no_tensor ? tensor : t.view_of;
  const auto elsewhere = gradients_.find(base);
  if (elsewhere == gradients_.end()) { return arena_.get() + offset; }
  return elsewhere->second + (offset - plan_.offset[static_cast<std::size_t>(base)]);
}

void StepExecutor::place_gradients() {
  if (exchange_ == nullptr) { return; }
  for (const Ref block : {program_.handles.weights.gradient, program_.handles.vectors.gradient}) {
    std::byte* const memory = exchange_->memory(bytes_of_block(block));
    if (memory != nullptr) { gradients_[block] = memory; }
  }
}

std::size_t StepExecutor::bytes_of_block(Ref block) const {
  return count_of(block) *
         static_cast<std::size_t>(bytes_of(program_.at(block).element, program_.settings.numeric));
}

TensorPointers StepExecutor::pointers(const RunGraph& graph, int micro_batch) const {
  TensorPointers all;
  for (const auto& [id, tensor] : graph.tensors) { all[id] = at(tensor, micro_batch); }
  return all;
}

void StepExecutor::run(const Operation& operation, int micro_batch) {
  const Range range(operation.name.c_str());
  ActionLauncher launcher(*this, micro_batch);
  operation.launch(launcher, operation.sweep);
}

void StepExecutor::run_once() {
  program_.for_each([this](const Operation& operation, int micro_batch) { run(operation, micro_batch); });
}

void StepExecutor::run_alone(const std::function<void(const Operation&, int)>& after_each) {
  program_.for_each([&](const Operation& operation, int micro_batch) {
    if (operation.communicates()) { return; }
    run(operation, micro_batch);
    after_each(operation, micro_batch);
  });
}

void StepExecutor::warm_up() {
  clear();
  if (exchange_ == nullptr) {
    // A kernel that faults is named, which it would not be in the captured step.
    run_alone([this](const Operation& operation, int) {
      check_gpu("run " + operation.name, cudaStreamSynchronize(compute_.get()));
    });
  } else {
    run_once();
  }
  const GpuEvent done(GpuEvent::Timing::off);
  done.record(compute_.get());  // the step's end waits for the exchange
  wait(done, exchange_);
}

// All on the stream that computes, and awaited: it does not wait for the default stream, on which plain
// cudaMemset and cudaMemcpy may return before the GPU is done.
void StepExecutor::clear() {
  check_gpu(
      "clear the GPU's memory",
      cudaMemsetAsync(arena_.get(), 0, static_cast<std::size_t>(plan_.persistent_bytes), compute_.get()));
  for (const auto& [block, memory] : gradients_) {
    check_gpu("clear the gradients", cudaMemsetAsync(memory, 0, bytes_of_block(block), compute_.get()));
  }
  compute_.wait();
}

void StepExecutor::write(Ref tensor, std::span<const std::byte> values, int micro_batch) {
  check_gpu("write to the GPU", cudaMemcpyAsync(at(tensor, micro_batch), values.data(), values.size(),
                                                cudaMemcpyHostToDevice, compute_.get()));
  compute_.wait();
}

void StepExecutor::read(Ref tensor, std::span<std::byte> values) const {
  check_gpu("read from the GPU", cudaMemcpyAsync(values.data(), at(tensor), values.size(),
                                                 cudaMemcpyDeviceToHost, compute_.get()));
  compute_.wait();
}

void StepExecutor::write_images(std::span<const float> images, int micro_batch) {
  std::byte* const staging = arena_.get() + plan_.persistent_bytes;  // activations are much larger
  check_gpu("write to the GPU", cudaMemcpyAsync(staging, images.data(), images.size_bytes(),
                                                cudaMemcpyHostToDevice, compute_.get()));
  const StepSettings& settings = program_.settings;
  const auto pixels = static_cast<std::int64_t>(images.size()) / (3LL * settings.batch);
  int size = 1;
  while (static_cast<std::int64_t>(size) * size < pixels) { ++size; }
  pad_images(reinterpret_cast<const float*>(staging), settings.batch, size, settings.numeric,
             at(program_.handles.images, micro_batch), compute_.get());
  compute_.wait();
}

void StepExecutor::copy_masters() {
  const StepHandles::Block& weights = program_.handles.weights;
  if (weights.copy == no_tensor) { return; }
  narrow(reinterpret_cast<const float*>(at(weights.masters)), program_.at(weights.masters).count,
         program_.settings.numeric, at(weights.copy), compute_.get());
  compute_.wait();
}

void StepExecutor::capture() {
  StreamCapture capture(compute_.get());
  run_once();
  captured_ = capture.end();
  check_gpu("upload the step's graph", cudaGraphUpload(captured_, compute_.get()));
  compute_.wait();
}

std::int64_t StepExecutor::clock_offset_ns() {
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (int attempt = 0; attempt < 20; ++attempt) {  // the host wakes up late, never early
    stamp(reinterpret_cast<std::uint64_t*>(at(program_.handles.stamps)), compute_.get());
    compute_.wait();
    const std::int64_t host_ns = monotonic_ns();
    std::uint64_t gpu_ns = 0;
    read(program_.handles.stamps, std::as_writable_bytes(std::span(&gpu_ns, 1)));
    least = std::min(least, host_ns - static_cast<std::int64_t>(gpu_ns));
  }
  return least;
}

void StepExecutor::launch() {
  const Range range("step");
  Slot& slot = slots_[static_cast<std::size_t>(launched_) % slots_.size()];
  slot.follows = under_way() > 0;
  slot.begin.record(compute_.get());
  check_gpu("launch the step", cudaGraphLaunch(captured_, compute_.get()));
  std::byte* memory = slot.memory.get();
  const auto copy = [&](Ref from, std::size_t bytes) {
    if (bytes == 0) { return; }
    check_gpu("read the loss",
              cudaMemcpyAsync(memory, at(from), bytes, cudaMemcpyDeviceToHost, compute_.get()));
    memory += bytes;
  };
  copy(program_.handles.stamps, count_of(program_.handles.stamps) * sizeof(std::uint64_t));
  copy(program_.handles.loss_scale, sizeof(LossScale));
  copy(program_.handles.losses, count_of(program_.handles.losses) * sizeof(float));
  slot.end.record(compute_.get());
  ++launched_;
}

StepExecutor::Finished StepExecutor::finish() {
  const auto index = static_cast<std::size_t>(finished_);
  const Slot& slot = slots_[index % slots_.size()];
  wait(slot.end, exchange_);
  ++finished_;
  Finished finished;
  const GpuEvent& begin = slot.follows ? slots_[(index + slots_.size() - 1) % slots_.size()].end : slot.begin;
  finished.seconds = seconds_between(begin, slot.end);
  const auto* const stamps = reinterpret_cast<const std::uint64_t*>(slot.memory.get());
  finished.stamps.assign(stamps, stamps + count_of(program_.handles.stamps));
  const auto* const loss_scale = reinterpret_cast<const LossScale*>(stamps + finished.stamps.size());
  finished.loss_scale = *loss_scale;
  const auto* const losses = reinterpret_cast<const float*>(loss_scale + 1);
  const std::size_t count = count_of(program_.handles.losses);
  for (std::size_t i = 0; i < count; ++i) { finished.loss += losses[i] / static_cast<double>(count); }
  return finished;
}

}  // namespace virtrain::resnet50::cuda
