#include "workloads/resnet50/cuda/plan/fusion_mix.h"

#include <array>

#include "common/text/text.h"

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

}  // namespace virtrain::resnet50::cuda
