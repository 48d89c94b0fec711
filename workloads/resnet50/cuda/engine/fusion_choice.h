#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "workloads/resnet50/cuda/program/graph_spec.h"

/// Which level of fusion a run takes. The highest is not always the fastest: an engine that does more may do
/// it slower.
namespace virtrain::resnet50::cuda {

/// The levels that a run may take, highest first. `wanted` is the flag --fusion: "auto" or "highest" for all
/// that cuDNN has on this GPU, or a level's name. Throws Error(usage) for a level that this type of number
/// does not have there.
std::vector<Fusion> fusion_candidates(const std::string& wanted, Numeric numeric, int compute_capability);

/// The rule that decides among several. `highest` does not depend on timing, so that all arms of an
/// experiment take the same level though each guest is fresh.
enum class FusionRule { fastest, highest };

struct TriedFusion {
  Fusion fusion;
  std::optional<double> step_seconds;  ///< absent where it could not run
  std::string refusal;                 ///< then: why
};

struct FusionChoice {
  Fusion fusion = Fusion::none;
  std::vector<TriedFusion> tried;      ///< empty where nothing had to be timed
  bool remembered = false;             ///< an earlier run has timed them
  std::set<std::string> unfused = {};  ///< shapes that are left apart (fusion_mix.h)
};

/// The only candidate; by `fastest` the remembered one, else the fastest; by `highest` the first that runs.
/// `step_seconds` times a level; where it throws Error that level is passed over, but a GpuFault ends it all.
/// If all of them are: the first refusal that names a flag (a batch too large), else Error(host_unable) with
/// all of their words.
FusionChoice choose_fusion(FusionRule rule, const std::vector<Fusion>& candidates,
                           const std::optional<Fusion>& remembered,
                           const std::function<double(Fusion)>& step_seconds);

/// The level of that name ("full").
std::optional<Fusion> fusion_named(const std::string& name);

/// Key of the plan cache: everything but the machine that the choice depends on.
std::string fusion_key(std::int64_t image_size, std::int64_t classes, Numeric numeric, std::int64_t batch,
                       std::int64_t accumulate_steps);

/// For the record "ready": {"fusion_timed": {"full": 0.031}, "fusion_refused": {"none": words},
/// "fusion_remembered",
/// "fusion_apart": how many shapes are left apart}.
nlohmann::json to_json(const FusionChoice& choice);

}  // namespace virtrain::resnet50::cuda
