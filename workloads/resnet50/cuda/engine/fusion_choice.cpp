#include "workloads/resnet50/cuda/engine/fusion_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {
namespace {

constexpr std::size_t longest_words = 300;  ///< bytes of a refusal: four of them fit into a record
constexpr std::array highest_first{Fusion::full, Fusion::statistics, Fusion::addition, Fusion::none};

/// Why none could run: a flag that forbids it (a batch too large for all), else everyone's words.
Error all_refused(const std::vector<TriedFusion>& tried, const std::optional<Error>& of_flag) {
  if (of_flag) { return *of_flag; }
  std::string words;
  for (const TriedFusion& one : tried) {
    words += fmt::format("{}{}: {}", words.empty() ? "" : "; ", to_string(one.fusion),
                         one.refusal.substr(0, longest_words));
  }
  return Error("find a level of fusion that runs", ErrorCode::host_unable, words);
}

}  // namespace

std::optional<Fusion> fusion_named(const std::string& name) {
  for (const Fusion fusion : highest_first) {
    if (name == to_string(fusion)) { return fusion; }
  }
  return std::nullopt;
}

std::vector<Fusion> fusion_candidates(const std::string& wanted, Numeric numeric, int compute_capability) {
  const Fusion highest = highest_fusion(numeric, compute_capability);
  if (const std::optional<Fusion> fusion = fusion_named(wanted)) {
    if (*fusion <= highest) { return {*fusion}; }
    throw Error("parse flags", ErrorCode::usage,
                fmt::format("--fusion {}: for {} on compute capability {}.{} cuDNN has no more than {}",
                            wanted, to_string(numeric), compute_capability / 10, compute_capability % 10,
                            to_string(highest)));
  }
  std::vector<Fusion> candidates;
  for (const Fusion fusion : highest_first) {
    if (fusion <= highest) { candidates.push_back(fusion); }
  }
  return candidates;
}

FusionChoice choose_fusion(FusionRule rule, const std::vector<Fusion>& candidates,
                           const std::optional<Fusion>& remembered,
                           const std::function<double(Fusion)>& step_seconds) {
  if (candidates.size() == 1) { return {candidates.front(), {}, false}; }
  if (rule == FusionRule::fastest && remembered &&
      std::find(candidates.begin(), candidates.end(), *remembered) != candidates.end()) {
    return {*remembered, {}, true};
  }
  FusionChoice choice;
  std::optional<double> best;
  std::optional<Error> of_flag;
  for (const Fusion fusion : candidates) {
    try {
      const double seconds = step_seconds(fusion);
      choice.tried.push_back({fusion, seconds, ""});
      if (best && seconds >= *best) { continue; }
      best = seconds;
      choice.fusion = fusion;
      if (rule == FusionRule::highest) { break; }
    } catch (const GpuFault&) { throw; } catch (const Error& error) {
      choice.tried.push_back({fusion, std::nullopt, error.what()});
      if (!of_flag && error.code() == ErrorCode::usage) { of_flag = error; }
    }
  }
  if (!best) { throw Error(all_refused(choice.tried, of_flag)); }
  return choice;
}

std::string fusion_key(std::int64_t image_size, std::int64_t classes, Numeric numeric, std::int64_t batch,
                       std::int64_t accumulate_steps) {
  return fmt::format("fusion resnet50 {}px {} classes {} n{} x{}", image_size, classes, to_string(numeric),
                     batch, accumulate_steps);
}

nlohmann::json to_json(const FusionChoice& choice) {
  nlohmann::json timed = nlohmann::json::object(), refused = nlohmann::json::object();
  for (const TriedFusion& tried : choice.tried) {
    if (tried.step_seconds) {
      timed[to_string(tried.fusion)] = *tried.step_seconds;
    } else {
      refused[to_string(tried.fusion)] = tried.refusal.substr(0, longest_words);
    }
  }
  return {{"fusion_timed", timed},
          {"fusion_refused", refused},
          {"fusion_remembered", choice.remembered},
          {"fusion_apart", choice.unfused.size()}};
}

}  // namespace virtrain::resnet50::cuda
