#include "workloads/probe/collective.h"

#include <algorithm>
#include <array>

namespace virtrain::probe {
namespace {

/// By the enumerator.
constexpr std::array collective_names{"all_reduce", "all_gather", "broadcast"};

}  // namespace

const char* to_string(Collective collective) {
  return collective_names.at(static_cast<std::size_t>(collective));
}

std::optional<Collective> parse_collective(const std::string& name) {
  const auto found = std::find(collective_names.begin(), collective_names.end(), name);
  if (found == collective_names.end()) { return std::nullopt; }
  return static_cast<Collective>(found - collective_names.begin());
}

double bus_factor(Collective collective, int ranks) {
  const double share = static_cast<double>(ranks - 1) / ranks;
  switch (collective) {
    case Collective::all_reduce:
      return 2 * share;
    case Collective::all_gather:
      return share;
    case Collective::broadcast:
      return 1;
  }
  return 1;
}

}  // namespace virtrain::probe
