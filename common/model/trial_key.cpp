#include "common/model/trial_key.h"

#include <fmt/format.h>

namespace virtrain {

std::string to_text(const SweptPoint& point) {
  std::string text;
  for (const auto& [key, value] : point.values) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", key, value);
  }
  return text;
}

std::string printed(const CaseKey& key) {
  auto name = key.family;
  if (!key.point.empty()) { name += "@" + to_text(key.point); }
  if (key.scale) { name += fmt::format("/{}", *key.scale); }
  return name;
}

CaseKey resized(CaseKey key, std::optional<std::int64_t> scale) {
  key.scale = scale;
  return key;
}

std::string printed_neighbour(const ArmKey& key) {
  return key.level ? fmt::format("{}@{:g}%", key.neighbour, *key.level * 100) : key.neighbour;
}

std::string printed(const ArmKey& key) {
  return key.like + "+" + printed_neighbour(key);
}

}  // namespace virtrain
