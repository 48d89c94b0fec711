#include "harness/plan/devices/lack.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/contains.h"
#include "common/text/units.h"

namespace virtrain::harness {

std::vector<std::string> lines_of(const std::vector<Lack>& lacks) {
  std::vector<std::string> lines;
  std::vector<std::string> told;
  for (const auto& lack : lacks) {
    if (lack.resource.empty()) {
      lines.push_back(lack.words);
      continue;
    }
    if (contains(told, lack.resource)) { continue; }
    told.push_back(lack.resource);
    const auto is_alike = [&](const Lack& other) { return other.resource == lack.resource; };
    const auto* largest = &lack;
    for (const auto& other : lacks) {
      if (is_alike(other) && other.demand > largest->demand) { largest = &other; }
    }
    const auto smaller = static_cast<std::size_t>(std::ranges::count_if(lacks, is_alike)) - 1;
    lines.push_back(largest->words);
    if (smaller == 0) { continue; }
    lines.back() += fmt::format("; {} for {} {} not met either", counted(smaller, "smaller demand"),
                                lack.resource, smaller == 1 ? "is" : "are");
  }
  return lines;
}

}  // namespace virtrain::harness
