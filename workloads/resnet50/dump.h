#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "workloads/resnet50/model.h"

namespace virtrain::resnet50 {

/// Tensors by name, written in the safetensors format: a little-endian u64 header length, a JSON header, raw
/// data.
class SafetensorsWriter {
 public:
  void add(const std::string& name, const std::vector<std::int64_t>& shape, const std::vector<float>& values);
  void add(const std::string& name, const std::vector<std::int64_t>& shape,
           const std::vector<std::int64_t>& values);
  /// Throws Error(io) with the path and the operating system's words.
  void write(const std::filesystem::path& path) const;

 private:
  struct Tensor {
    std::string type;
    std::vector<std::int64_t> shape;
    std::vector<char> bytes;
  };
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

struct RunningStatistics {
  std::vector<float> mean;
  std::vector<float> variance;
};

/// Data that a reference needs to check one step, collected around it (`--dump`).
class StepDump {
 public:
  /// The i-th parameter, or its gradient, in plain layout.
  using ReadParameter = std::function<std::vector<float>(std::size_t)>;
  /// How a backend's state is read; norms in the order of norms(model).
  struct State {
    ReadParameter parameter;
    std::function<std::vector<RunningStatistics>()> running;
  };

  explicit StepDump(const Model& model) : model_(model) {}
  void before_step(const State& state, const Batch& batch);
  /// After the backward pass and the parameters' update; the gradients are those of the whole job.
  void after_step(const State& state, const ReadParameter& gradient, double loss);
  void write(const std::filesystem::path& path) const { writer_.write(path); }

 private:
  void add_state(const std::string& prefix, const State& state, std::int64_t batches_tracked);
  Model model_;
  SafetensorsWriter writer_;
};

}  // namespace virtrain::resnet50
