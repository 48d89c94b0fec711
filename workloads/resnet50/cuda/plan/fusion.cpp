#include "workloads/resnet50/cuda/plan/fusion.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "common/text/text.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::resnet50::cuda {
namespace {

constexpr std::array kinds_in_order{FusionKind::addition,      FusionKind::mask, FusionKind::statistics,
                                    FusionKind::norm_gradient, FusionKind::norm, FusionKind::tail};
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
      case FusionKind::norm_gradient:
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

FusionMix first_kinds(const Model& model, std::size_t kinds, Numeric numeric) {
  FusionMix mix;
  if (kinds > 0) { mix.level = level_of(kinds_in_order.at(kinds - 1)); }
  for (std::size_t k = 0; k < kinds_of(mix.level); ++k) {
    if (k < kinds && is_offered(kinds_in_order.at(k), numeric)) { continue; }
    mix.unfused.merge(sites_of(model, kinds_in_order.at(k)));
  }
  return mix;
}

bool leave_apart(StepSettings& settings, const std::vector<GraphSpec>& refused) {
  bool changed = false;
  for (const GraphSpec& spec : refused) {
    if (const auto site = fusion_site(spec)) { changed = settings.unfused.insert(*site).second || changed; }
  }
  return changed;
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

FusionRule fusion_rule(const std::string& wanted) {
  return enum_of<FusionRule>(wanted).value_or(FusionRule::auto_);
}

std::vector<Fusion> fusion_candidates(const std::string& wanted, Numeric numeric, int compute_capability) {
  const Fusion widest = widest_fusion(numeric, compute_capability);
  if (const std::optional<Fusion> fusion = fusion_named(wanted)) {
    if (*fusion <= widest) { return {*fusion}; }
    throw Error(
        "parse flags", ErrorCode::usage,
        fmt::format("--fusion {}: for {} on compute capability {}.{} cuDNN has no more than {}", wanted,
                    to_string(numeric), compute_capability / 10, compute_capability % 10, to_string(widest)));
  }
  const bool timed = fusion_rule(wanted) == FusionRule::auto_;
  const Fusion highest = timed ? widest : highest_fusion(numeric, compute_capability);
  std::vector<Fusion> candidates;
  for (const Fusion fusion : highest_first) {
    if (fusion <= highest) { candidates.push_back(fusion); }
  }
  return candidates;
}

namespace {

/// Times by number of kinds that are fused at all shapes, as first_kinds counts them.
using TimesByKinds = std::map<std::size_t, TimedMix>;

/// Leaves each shape apart that was slower fused, if that makes the step faster. A uniform level is the step
/// with so many kinds, so it is not built again.
void mix_shapes(const Model& model, Numeric numeric, FusionChoice& choice, double best, TimesByKinds times,
                const TimeMix& time) {
  const std::size_t kinds = times.rbegin()->first;
  try {
    std::vector<SiteSeconds> sites;
    for (std::size_t k = 0; k <= kinds; ++k) {
      const FusionMix mix = first_kinds(model, k, numeric);
      if (!times.contains(k)) {
        const bool is_new = k == 0 || mix != first_kinds(model, k - 1, numeric);
        times[k] = is_new ? time(mix, TimingOf::operations) : times[k - 1];
      }
      sites.push_back(times[k].sites);
    }
    FusionMix mix = first_kinds(model, kinds, numeric);
    const std::set<std::string> slower = slower_fused(model, sites);
    if (slower.empty()) { return; }
    mix.unfused.insert(slower.begin(), slower.end());
    const TimedMix timed = time(mix, TimingOf::step);
    if (timed.step_seconds >= best) { return; }
    choice.fusion = mix.level;
    choice.unfused = timed.unfused;
  } catch (const GpuFault&) { throw; } catch (const Error&) {
    return;  // the uniform levels have run
  }
}

}  // namespace

FusionChoice choose_fusion(const Model& model, const FusionRequest& request, const TimeMix& time) {
  const auto& [rule, candidates, numeric, remembered] = request;
  const auto uniform = [&, numeric = numeric](Fusion level) {
    return first_kinds(model, kinds_of(level), numeric);
  };
  if (candidates.size() == 1) { return {candidates.front(), {}, false, uniform(candidates.front()).unfused}; }
  // The fastest choice of such a machine is possible here.
  const auto is_possible = [&, rule = rule, &candidates = candidates](Fusion level) {
    return rule == FusionRule::remembered ||
           std::find(candidates.begin(), candidates.end(), level) != candidates.end();
  };
  if (rule != FusionRule::highest && remembered && is_possible(remembered->level)) {
    return {remembered->level, {}, true, remembered->unfused};
  }
  FusionChoice choice;
  std::optional<double> best;
  std::optional<Error> of_flag;
  TimesByKinds times;
  for (const Fusion fusion : candidates) {
    try {
      TimedMix timed = time(uniform(fusion), rule == FusionRule::auto_ ? TimingOf::both : TimingOf::step);
      const double seconds = timed.step_seconds;
      choice.tried.push_back({fusion, seconds, ""});
      if (!best || seconds < *best) {
        best = seconds;
        choice.fusion = fusion;
        choice.unfused = timed.unfused;
      }
      times[kinds_of(fusion)] = std::move(timed);
      if (rule != FusionRule::auto_) { return choice; }
    } catch (const GpuFault&) { throw; } catch (const Error& error) {
      choice.tried.push_back({fusion, std::nullopt, error.what()});
      if (!of_flag && error.code() == ErrorCode::usage) { of_flag = error; }
    }
  }
  if (!best) { throw Error(all_refused(choice.tried, of_flag)); }
  mix_shapes(model, numeric, choice, *best, std::move(times), time);
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
