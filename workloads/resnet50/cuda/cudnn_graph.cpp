#include "workloads/resnet50/cuda/cudnn_graph.h"

#include <cudnn.h>
#include <fmt/format.h>

#include <optional>

namespace virtrain::resnet50::cuda {

Engines find_engines(const GraphSpec& spec, const DeviceDescription& device) {
  BuiltGraph graph(spec, device);
  Engines engines;
  engines.offered = static_cast<int>(graph.offered());
  for (std::int64_t i = 0; i < engines.offered; ++i) {
    const std::optional<std::string> name = graph.name(i);
    if (!name) continue;
    engines.name = *name;
    // Its kernel is compiled and loaded when the plan is built, and only the GPU's own machine can load it.
    engines.found = engines.compiled_at_run_time = graph.is_runtime_compiled(i);
    // Not by Graph::check_support: it asks for a GPU, building a plan does not.
    if (!engines.found && !graph.build(i)) continue;
    engines.found = true;
    if (!engines.compiled_at_run_time) engines.workspace_bytes = graph.workspace_bytes(i).value_or(0);
    return engines;
  }
  engines.refusal = graph.refusal();
  return engines;
}

std::string cudnn_version() {
  const std::size_t version = cudnnGetVersion();
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

}  // namespace virtrain::resnet50::cuda
