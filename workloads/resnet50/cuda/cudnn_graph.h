#pragma once

#include "workloads/resnet50/cuda/graph_spec.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

/// cuDNN's graphs behind one small interface; only cudnn_graph.cpp includes cudnn-frontend (a slow header).
namespace virtrain::resnet50::cuda {

/// The tensors of a graph. Activations are NHWC, weights KRSC, vectors fp32 with one element per channel
/// unless said otherwise.
enum class TensorId : std::int64_t {
  x = 1,        ///< input {batch, in_channels, in_size, in_size}; of a norm_ or _norm graph before its norm
  w,            ///< weights {out_channels, in_channels, kernel, kernel}
  y,            ///< output {batch, out_channels, out_size, out_size}
  dx,           ///< gradient of x (of backward_data_norm: of the norm's output, masked by the ReLU)
  dw,           ///< gradient of w, type of the activations
  dy,           ///< gradient of y
  other,        ///< backward_data_add: what is added; like x
  sum,          ///< of y over batch and space, {out_channels}
  square_sum,   ///< of y squared, {out_channels}
  scale,        ///< norm_ graphs: gamma / deviation, fp16 {in_channels}; backward_data_norm: gamma, fp32
  shift,        ///< norm_ graphs: beta - mean gamma / deviation, fp16; backward_data_norm: beta, fp32
  mean,         ///< backward_data_norm: of x, {in_channels}
  inverse_std,  ///< backward_data_norm: 1 / sqrt(variance of x + epsilon)
  scale_grad,   ///< backward_data_norm: of gamma, {in_channels}
  shift_grad,   ///< backward_data_norm: of beta
  factor_dy,    ///< backward_data_norm: d(norm's input) = factor_dy dx + factor_x x + constant
  factor_x,
  constant,
};

/// What cuDNN has for one graph on one kind of GPU.
struct Engines {
  bool found = false;
  bool compiled_at_run_time = false;  ///< the plan is compiled on the GPU's machine; here it was only offered
  int offered = 0;                    ///< configurations that the heuristics name, the best first
  std::string name;                   ///< of the first that can be built, with its settings
  std::int64_t workspace_bytes = 0;   ///< of that one; 0 where it is compiled at run time
  std::string refusal;                ///< cuDNN's words where none was found
};

/// A kind of GPU as cuDNN describes it. Made from JSON (of a real GPU, or
/// tests/workloads/cuda/devices/*.json), so that engines can be asked for where there is no GPU.
class DeviceDescription {
 public:
  /// Throws Error(bad_input) with cuDNN's words if a key is missing.
  explicit DeviceDescription(const std::string& json_text);
  ~DeviceDescription();
  DeviceDescription(DeviceDescription&&) noexcept;
  DeviceDescription& operator=(DeviceDescription&&) noexcept;

 private:
  friend Engines find_engines(const GraphSpec&, const DeviceDescription&);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Asks cuDNN for this graph on that GPU: its heuristics first, then its list of fallbacks. Needs no GPU;
/// engines that are compiled at run time are only offered where libcuda.so.1 can be loaded (the toolkit's
/// stub will do). Without it cuDNN also prints warnings to standard output.
Engines find_engines(const GraphSpec& spec, const DeviceDescription& device);

/// "9.19.0"
std::string cudnn_version();

}  // namespace virtrain::resnet50::cuda
