#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace virtrain::resnet50::cuda {

/// Which engine was the fastest for each graph, by machine: a later run builds that one alone and times none.
/// A JSON file {machine: {graph: engine}}; one that cannot be read or written is as good as none.
class PlanCache {
 public:
  /// `machine` as machine_key gives it. An empty `file`: nothing is known, and nothing is kept.
  PlanCache(std::filesystem::path file, std::string machine);

  std::optional<std::string> find(const std::string& graph) const;
  /// Also finds what a machine of the same kind knows: with this compute capability and cuDNN, under another
  /// name or driver. A guest may call its part of a GPU otherwise than the host calls the
  /// whole.
  std::optional<std::string> find_alike(const std::string& graph) const;
  void set(const std::string& graph, const std::string& engine);
  /// Keeps what other machines (or processes, by now) have written. Returns false if the file cannot be
  /// written.
  bool save() const;

 private:
  std::filesystem::path file_;
  std::string machine_;
  std::map<std::string, std::string> engines_, alike_;
  bool changed_ = false;
};

/// "NVIDIA H200, sm_90, driver 580.65.06, cuDNN 9.19.0": what the speed of an engine depends on. Where NVML
/// does not tell the driver's version, the CUDA that it serves stands for it ("CUDA driver 13000").
std::string machine_key(const std::string& gpu, int compute_capability,
                        const std::optional<std::string>& driver, int cuda_driver_version,
                        const std::string& cudnn_version);

/// $XDG_CACHE_HOME/virtrain/cudnn-plans.json, or below ~/.cache; empty, and nothing is kept, where neither is
/// known: beside whatever folder a run happens to start in, nobody would look for it.
std::filesystem::path plan_cache_file();

}  // namespace virtrain::resnet50::cuda
