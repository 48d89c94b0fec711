#include "workloads/resnet50/cuda/run/action_launcher.h"

namespace virtrain::resnet50::cuda {

void ActionLauncher::run(const RunGraph& graph) {
  executor_.graphs_->run(graph, executor_.pointers(graph, micro_batch_),
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

}  // namespace virtrain::resnet50::cuda
