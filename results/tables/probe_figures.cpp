#include "results/tables/probe_figures.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/text/printable.h"
#include "common/text/text.h"

namespace virtrain::results {

std::string side_words(const ProbeKey& key) {
  std::vector<std::string> words;
  for (const auto& word : {key.side, printable(key.transport), settings_words(key.settings)}) {
    if (!word.empty()) { words.push_back(word); }
  }
  return join(words, " ");
}

bool takes_prefix(const std::string& unit) {
  return unit == "B/s" || unit == "FLOP/s" || unit == "s";
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
