#pragma once

#include "workloads/resnet50/cpu/network.h"
#include "workloads/resnet50/cpu/parameter_store.h"
#include "workloads/resnet50/initialize.h"
#include "workloads/resnet50/safetensors.h"

namespace virtrain::resnet50::cpu {

/// What a reference needs to check one step, collected around it (design: `--dump`).
class StepDump {
 public:
  explicit StepDump(const Model& model) : model_(model) {}
  void before_step(const ParameterStore& store, const Network& network, const Batch& batch);
  /// After the backward pass and the parameters' update; the gradients are those of the whole job.
  void after_step(const ParameterStore& store, const Network& network, double loss, float gradient_scale);
  void write(const std::filesystem::path& path) const { writer_.write(path); }

 private:
  void add_state(const std::string& prefix, const ParameterStore& store, const Network& network,
                 std::int64_t batches_tracked);
  Model model_;
  SafetensorsWriter writer_;
};

}  // namespace virtrain::resnet50::cpu
