#include "workloads/resnet50/cuda/plan/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/text/text.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {
namespace {

constexpr std::array kinds_in_order{FusionKind::addition, FusionKind::mask, FusionKind::statistics,
                                    FusionKind::norm, FusionKind::tail};
constexpr std::array levels{Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full};
constexpr const char* separator = "; ";

/// All shapes of the model at which this kind is a choice.
std::set<std::string> sites_of(const Model& model, FusionKind kind) {
  std::set<std::string> sites;
  for (std::size_t b = 0; b < model.blocks.size(); ++b) {
    const Block& block = model.blocks[b];
    const auto add = [&](const Unit& unit) { sites.insert(fusion_site(kind, unit.convolution)); };
    switch (kind) {
      case FusionKind::addition:
        add(block.units[0]);
        break;
      case FusionKind::mask:
      case FusionKind::tail:
        if (b > 0) { add(block.units[0]); }
        break;
      case FusionKind::statistics:
        for (const Unit& unit : block.units) { add(unit); }
        if (block.shortcut) { add(*block.shortcut); }
        break;
      case FusionKind::norm:
        for (std::size_t i = 1; i < block.units.size(); ++i) { add(block.units[i]); }
        break;
    }
  }
  return sites;
}

}  // namespace

std::string to_text(const FusionMix& mix) {
  std::string text = to_string(mix.level);
  for (const std::string& site : mix.unfused) { text += separator + site; }
  return text;
}

std::optional<FusionMix> parse_fusion_mix(const std::string& text) {
  FusionMix mix;
  const std::vector<std::string> parts = split(text, ';');
  bool is_level = false;
  for (const Fusion level : levels) {
    if (parts[0] != to_string(level)) { continue; }
    mix.level = level;
    is_level = true;
  }
  if (!is_level) { return std::nullopt; }
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].size() < 2) { return std::nullopt; }
    mix.unfused.insert(parts[i].substr(1));
  }
  return mix;
}

std::string to_words(const FusionMix& mix) {
  if (mix.unfused.empty()) { return to_string(mix.level); }
  std::uint64_t hash = 0xcbf29ce484222325ULL;  // FNV-1a: the same on each machine, as std::hash need not be
  for (const char c : to_text(mix)) { hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL; }
  return fmt::format("{}, {} shape{} apart ({:016x})", to_string(mix.level), mix.unfused.size(),
                     mix.unfused.size() == 1 ? "" : "s", hash);
}

std::size_t kinds_of(Fusion level) {
  std::size_t kinds = 0;
  for (const FusionKind kind : kinds_in_order) { kinds += level_of(kind) <= level ? 1 : 0; }
  return kinds;
}

FusionMix first_kinds(const Model& model, std::size_t kinds) {
  FusionMix mix;
  if (kinds > 0) { mix.level = level_of(kinds_in_order.at(kinds - 1)); }
  for (std::size_t k = kinds; k < kinds_of(mix.level); ++k) {
    mix.unfused.merge(sites_of(model, kinds_in_order.at(k)));
  }
  return mix;
}

std::set<std::string> slower_fused(const Model& model, const std::vector<SiteSeconds>& times) {
  std::set<std::string> slower;
  for (std::size_t k = 1; k < times.size(); ++k) {
    for (const std::string& site : sites_of(model, kinds_in_order.at(k - 1))) {
      const auto fused = times[k].find(site), apart = times[k - 1].find(site);
      if (fused == times[k].end() || apart == times[k - 1].end()) { continue; }
      if (fused->second > apart->second) { slower.insert(site); }
    }
  }
  return slower;
}

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

std::vector<std::string> rule_names() {
  return {"remembered", "highest"};
}

FusionRule fusion_rule(const std::string& wanted) {
  if (wanted == "remembered") { return FusionRule::remembered; }
  return wanted == "highest" ? FusionRule::highest : FusionRule::fastest;
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
  if (rule != FusionRule::highest && remembered &&
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
      if (rule != FusionRule::fastest) { break; }
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
