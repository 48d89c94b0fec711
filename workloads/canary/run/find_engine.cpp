#include "workloads/canary/run/find_engine.h"

#include <string>
#include <vector>

#include "common/files/reading.h"
#include "common/text/text.h"
#include "workloads/canary/cuda/gpu_engine.h"
#include "workloads/canary/cuda/gpu_path.h"
#include "workloads/canary/memory.h"

namespace virtrain::canary {
namespace {

namespace fs = std::filesystem;

constexpr const char* engine_functions = "sys/bus/pci/devices";

std::string value_of(const fs::path& file) {
  return std::string(trim(read_file(file).value_or("")));
}

bool is_gpu(const fs::path& root, const fs::path& function) {
  return is_nvidia(root, function.filename()) && value_of(function / "class").starts_with("0x03");
}

/// Memory regions of this node's devices, those of NVIDIA's left out: they are windows of the driver's.
std::vector<MemoryRegion> regions_of_node(const fs::path& root) {
  std::vector<MemoryRegion> all;
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_nvidia(root, function.filename())) { continue; }
    const auto regions = memory_regions(function);
    all.insert(all.end(), regions.begin(), regions.end());
  }
  return all;
}

}  // namespace

std::unique_ptr<DmaEngine> find_engine(const fs::path& root, const LockedPage& own, const EngineMaker& others,
                                       const BusAddress& bus_address) {
  for (const auto& function : entries_of(root / engine_functions)) {
    if (is_gpu(root, function)) {
      return gpu_engine(function.filename(), {&own, bus_address(own), regions_of_node(root)});
    }
    if (auto engine = others ? others(function, bus_address) : nullptr) { return engine; }
  }
  return nullptr;
}

}  // namespace virtrain::canary
