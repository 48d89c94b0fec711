#include "workloads/resnet50/cpu/dump.h"

namespace virtrain::resnet50::cpu {

void StepDump::add_state(const std::string& prefix, const ParameterStore& store, const Network& network,
                         std::int64_t batches_tracked) {
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    writer_.add(prefix + parameter.name, parameter.shape, store.plain_master(i));
  }
  const std::vector<BatchNorm> all = norms(model_);
  const std::vector<Network::RunningStatistics> running = network.running_statistics();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string name = prefix + all[i].name;
    writer_.add(name + ".running_mean", {all[i].channels}, running[i].mean);
    writer_.add(name + ".running_var", {all[i].channels}, running[i].variance);
    writer_.add(name + ".num_batches_tracked", {}, std::vector<std::int64_t>{batches_tracked});
  }
}

void StepDump::before_step(const ParameterStore& store, const Network& network, const Batch& batch) {
  add_state("", store, network, 0);
  const auto images = static_cast<std::int64_t>(batch.labels.size());
  writer_.add("input", {images, 3, model_.image_size, model_.image_size}, batch.images);
  writer_.add("labels", {images}, batch.labels);
}

void StepDump::after_step(const ParameterStore& store, const Network& network, double loss,
                          float gradient_scale) {
  writer_.add("loss", {}, std::vector<float>{static_cast<float>(loss)});
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    std::vector<float> gradient = store.plain_gradient(i);
    for (float& value : gradient) value *= gradient_scale;
    writer_.add("grad." + store.parameters()[i].name, store.parameters()[i].shape, std::move(gradient));
  }
  add_state("after.", store, network, 1);
}

}  // namespace virtrain::resnet50::cpu
