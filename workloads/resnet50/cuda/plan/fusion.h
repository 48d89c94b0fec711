#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/model/workload.h"
#include "workloads/resnet50/cuda/program/graph_spec.h"
#include "workloads/resnet50/cuda/program/step_program.h"

/// A level of fusion for each shape of convolution: fused where that was faster than the plain graph with our
/// pass. What is fused is added kind by kind, so that two programs that follow each other differ in one kind
/// only, and what each shape gains by it can be told from the times of their operations.

namespace virtrain::resnet50::cuda {

struct FusionMix {
  Fusion level = Fusion::none;
  std::set<std::string> unfused = {};  ///< fusion_site

  bool operator==(const FusionMix&) const = default;
};

/// "full; norm 64->64 56x56 k3 s1; …": for the plan cache.
std::string to_text(const FusionMix& mix);
std::optional<FusionMix> parse_fusion_mix(const std::string& text);
/// "full", or "full, 7 shapes apart (3f2a91c0d4e5b617)": for the record "ready". Equal for equal choices, and
/// for no others.
std::string to_words(const FusionMix& mix);

/// Kinds that a level fuses: 0, 2, 3 or 6, in the order in which they are added.
std::size_t kinds_of(Fusion level);
/// The first so many kinds fused, each at all shapes, but for those that cuDNN does not offer for this type.
FusionMix first_kinds(const Model& model, std::size_t kinds, Numeric numeric);

/// Leaves the shapes apart whose graphs cuDNN has refused. Returns false where that changes nothing.
bool leave_apart(StepSettings& settings, const std::vector<GraphSpec>& refused);

/// Seconds of all operations that depend on a choice, by site.
using SiteSeconds = std::map<std::string, double>;

/// The sites that took longer fused. times[k] is of first_kinds(model, k, …), k from 0 on.
std::set<std::string> slower_fused(const Model& model, const std::vector<SiteSeconds>& times);

// Which level of fusion a run takes. The highest is not always the fastest: an engine that does more may do
// it slower.

/// The levels that a run may take, highest first. `wanted` is the flag --fusion: a level's name, or a rule
/// for choosing: "auto" among all that cuDNN has on this GPU, the others among what needs no timing to be
/// worth it (highest_fusion). Throws Error(usage) for a level that this type of
/// number does not have there.
std::vector<Fusion> fusion_candidates(const std::string& wanted, Numeric numeric, int compute_capability);

/// The rule of --fusion; a level's name leaves nothing to choose, by any rule. Only `auto` times: the others
/// give the same choice to all arms of an experiment though each guest is fresh.
FusionRule fusion_rule(const std::string& wanted);

struct TriedFusion {
  Fusion fusion;
  std::optional<double> step_seconds;  ///< absent where it could not run
  std::string refusal;                 ///< then: why
};

struct FusionChoice {
  Fusion fusion = Fusion::none;
  std::vector<TriedFusion> tried;      ///< empty where nothing had to be timed
  bool remembered = false;             ///< an earlier run has timed them
  std::set<std::string> unfused = {};  ///< shapes that are left apart (FusionMix)
};

/// Seconds of one way to fuse.
struct TimedMix {
  double step_seconds = 0;
  SiteSeconds sites = {};              ///< where they were wanted
  std::set<std::string> unfused = {};  ///< at least the mix's, and shapes for which cuDNN has no engine
};
/// The things to time: the step as it is run, its operations one by one, or both.
enum class TimingOf { step, operations, both };
/// Builds a step, times it, and frees all that it took before the next one is built.
using TimeMix = std::function<TimedMix(const FusionMix&, TimingOf)>;

struct FusionRequest {
  FusionRule rule = FusionRule::auto_;
  std::vector<Fusion> candidates;  ///< highest first
  Numeric numeric = Numeric::fp16;
  std::optional<FusionMix> remembered = {};
};

/// The only candidate; unless by `highest` the remembered one; else by `auto` the fastest, by the others
/// the first that runs. By `auto` each shape is then left apart that was slower fused, if that makes the
/// step faster. Where `time` throws Error that level is passed over, but a GpuFault ends it all. If all of
/// them are: the first refusal that names a flag (a batch too large), else Error(host_unable) with all of
/// their words.
FusionChoice choose_fusion(const Model& model, const FusionRequest& request, const TimeMix& time);

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
