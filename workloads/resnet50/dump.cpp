#include "workloads/resnet50/dump.h"

namespace virtrain::resnet50 {

void StepDump::add_state(const std::string& prefix, const State& state, std::int64_t batches_tracked) {
  for (std::size_t i = 0; const Parameter& parameter : parameters(model_)) {
    writer_.add(prefix + parameter.name, parameter.shape, state.parameter(i++));
  }
  const std::vector<BatchNorm> all = norms(model_);
  const std::vector<RunningStatistics> running = state.running();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = prefix + all[i].name;
    writer_.add(name + ".running_mean", {all[i].channels}, running[i].mean);
    writer_.add(name + ".running_var", {all[i].channels}, running[i].variance);
    writer_.add(name + ".num_batches_tracked", {}, std::vector<std::int64_t>{batches_tracked});
  }
}

void StepDump::before_step(const State& state, const Batch& batch) {
  add_state("", state, 0);
  const auto images = static_cast<std::int64_t>(batch.labels.size());
  writer_.add("input", {images, 3, model_.image_size, model_.image_size}, batch.images);
  writer_.add("labels", {images}, batch.labels);
}

void StepDump::after_step(const State& state, const ReadParameter& gradient, double loss) {
  writer_.add("loss", {}, std::vector<float>{static_cast<float>(loss)});
  for (std::size_t i = 0; const Parameter& parameter : parameters(model_)) {
    writer_.add("grad." + parameter.name, parameter.shape, gradient(i++));
  }
  add_state("after.", state, 1);
}

}  // namespace virtrain::resnet50
