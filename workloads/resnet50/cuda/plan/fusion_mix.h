#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

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

/// Kinds that a level fuses: 0, 2, 3 or 5, in the order in which they are added.
std::size_t kinds_of(Fusion level);
/// The first so many kinds fused, each at all shapes.
FusionMix first_kinds(const Model& model, std::size_t kinds);

/// Seconds of all operations that depend on a choice, by site.
using SiteSeconds = std::map<std::string, double>;

/// The sites that took longer fused. times[k] is of first_kinds(model, k), k from 0 on.
std::set<std::string> slower_fused(const Model& model, const std::vector<SiteSeconds>& times);

}  // namespace virtrain::resnet50::cuda
