#include "results/tables/probe_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::results {
namespace {

ProbeKey key_of(const Probe& probe) {
  ProbeKey key{probe.name, probe.data_type,          "",
               probe.unit, probe.ranks.value_or(-1), probe.size_bytes.value_or(-1)};
  if (!probe.detail.is_object()) { return key; }
  if (const auto in_place = probe.detail.find("in_place");
      in_place != probe.detail.end() && in_place->is_boolean()) {
    key.side = in_place->get<bool>() ? "in place" : "out of place";
  }
  for (const char* where : {"system", "partition", "environ"}) {  // of ReFrame
    const auto word = probe.detail.find(where);
    const bool is_there = word != probe.detail.end() && word->is_string();
    key.where.push_back(is_there ? word->get<std::string>() : "");
  }
  return key;
}

}  // namespace

std::map<ProbeKey, std::map<std::string, ProbeReadings>> probe_figures(const std::vector<Probe>& probes) {
  std::map<ProbeKey, std::map<std::string, ProbeReadings>> figures;
  for (const auto& probe : probes) {
    auto& readings = figures[key_of(probe)][probe.arm];
    readings.values.push_back(probe.value);
    if (probe.bus_bytes_per_second) { readings.bus.push_back(*probe.bus_bytes_per_second); }
    readings.wrong += probe.wrong.value_or(0);
  }
  return figures;
}

std::string side_words(const ProbeKey& key) {
  constexpr std::size_t longest_word = 40;
  std::vector<std::string> words;
  if (!key.side.empty()) { words.push_back(key.side); }
  for (const auto& word : key.where) {
    if (!word.empty()) { words.push_back(excerpt(word, longest_word)); }
  }
  return join(words, " ");
}

std::string figure_with_unit(double value, const std::string& unit) {
  static constexpr std::array<std::pair<double, const char*>, 8> scales = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};
  const auto fits = [&](const auto& scale) { return value >= scale.first; };
  const auto found = std::ranges::find_if(scales, fits);
  const auto& [factor, prefix] = value <= 0 ? scales[4] : found == scales.end() ? scales.back() : *found;
  return fmt::format("{:.4g} {}{}", value / factor, prefix, unit);
}

}  // namespace virtrain::results
