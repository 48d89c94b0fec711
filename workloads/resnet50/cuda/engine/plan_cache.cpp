#include "workloads/resnet50/cuda/engine/plan_cache.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cstdlib>
#include <fstream>
#include <system_error>
#include <vector>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/files/reading.h"
#include "common/text/json.h"
#include "common/text/text.h"

namespace virtrain::resnet50::cuda {
namespace {

/// The file's object; an empty one for anything else.
nlohmann::json read_machines(const std::filesystem::path& file) {
  const nlohmann::json machines = parse_json_or_null(read_file(file.string()).value_or(""));
  return machines.is_object() ? machines : nlohmann::json::object();
}

/// Compute capability and cuDNN of a machine_key. Names of GPUs may hold commas; the rest holds none.
std::string kind_of(const std::string& machine) {
  std::vector<std::string> parts = split(machine, ',');
  return parts.size() < 4 ? machine : parts[parts.size() - 3] + "," + parts.back();
}

void add_engines(const nlohmann::json& machine, std::map<std::string, std::string>& engines) {
  if (!machine.is_object()) { return; }
  for (const auto& [graph, engine] : machine.items()) {
    if (engine.is_string()) { engines.emplace(graph, engine.get<std::string>()); }
  }
}

}  // namespace

PlanCache::PlanCache(std::filesystem::path file, std::string machine)
    : file_(std::move(file)), machine_(std::move(machine)) {
  if (file_.empty()) { return; }
  const nlohmann::json machines = read_machines(file_);
  for (const auto& [other, engines] : machines.items()) {
    if (other == machine_) { add_engines(engines, engines_); }
    if (other != machine_ && kind_of(other) == kind_of(machine_)) { add_engines(engines, alike_); }
  }
}

std::optional<std::string> PlanCache::find(const std::string& graph) const {
  const auto known = engines_.find(graph);
  return known == engines_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<std::string> PlanCache::find_alike(const std::string& graph) const {
  if (auto known = find(graph)) { return known; }
  const auto known = alike_.find(graph);
  return known == alike_.end() ? std::nullopt : std::optional(known->second);
}

void PlanCache::set(const std::string& graph, const std::string& engine) {
  std::string& known = engines_[graph];
  changed_ = changed_ || known != engine;
  known = engine;
}

bool PlanCache::save() const {
  if (!changed_) { return true; }
  if (file_.empty()) { return false; }
  std::error_code ignored;
  std::filesystem::create_directories(file_.parent_path(), ignored);
  nlohmann::json machines = read_machines(file_);
  nlohmann::json& ours = machines[machine_];
  if (!ours.is_object()) { ours = nlohmann::json::object(); }
  for (const auto& [graph, engine] : engines_) { ours[graph] = engine; }
  try {
    write_file_atomically(file_, machines.dump(1) + "\n");
    return true;
  } catch (const Error&) { return false; }
}

std::string machine_key(const std::string& gpu, int compute_capability,
                        const std::optional<std::string>& driver, int cuda_driver_version,
                        const std::string& cudnn_version) {
  return fmt::format("{}, sm_{}, {}, cuDNN {}", gpu, compute_capability,
                     driver ? "driver " + *driver : fmt::format("CUDA driver {}", cuda_driver_version),
                     cudnn_version);
}

std::filesystem::path plan_cache_file() {
  const auto folder = [](const char* variable) -> std::filesystem::path {
    const char* const value = std::getenv(variable);
    return value == nullptr ? "" : value;
  };
  std::filesystem::path cache = folder("XDG_CACHE_HOME");
  if (!cache.is_absolute()) { cache = folder("HOME") / ".cache"; }
  if (!cache.is_absolute()) { return {}; }
  return cache / "virtrain" / "cudnn-plans.json";
}

}  // namespace virtrain::resnet50::cuda
