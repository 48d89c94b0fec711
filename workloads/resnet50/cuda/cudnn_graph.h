#pragma once

#include "workloads/resnet50/cuda/cudnn_builder.h"
#include "workloads/resnet50/cuda/graph_spec.h"

#include <cstdint>
#include <string>

/// What cuDNN has for a graph, also where there is no GPU.
namespace virtrain::resnet50::cuda {

/// What cuDNN has for one graph on one kind of GPU.
struct Engines {
  bool found = false;
  bool compiled_at_run_time = false;  ///< the plan is compiled on the GPU's machine; here it was only offered
  int offered = 0;                    ///< configurations that the heuristics name, the best first
  std::string name;                   ///< of the first that can be built, with its settings
  std::int64_t workspace_bytes = 0;   ///< of that one; 0 where it is compiled at run time
  std::string refusal;                ///< cuDNN's words where none was found
};

/// Asks cuDNN for this graph on that GPU: its heuristics first, then its list of fallbacks. Needs no GPU;
/// engines that are compiled at run time are only offered where libcuda.so.1 can be loaded (the toolkit's
/// stub will do). Without it cuDNN also prints warnings to standard output.
Engines find_engines(const GraphSpec& spec, const DeviceDescription& device);

/// "9.19.0"
std::string cudnn_version();

}  // namespace virtrain::resnet50::cuda
