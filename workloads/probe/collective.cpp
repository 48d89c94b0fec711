#include "workloads/probe/collective.h"

namespace virtrain::probe {

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce:
      return "all_reduce";
    case Collective::all_gather:
      return "all_gather";
    case Collective::broadcast:
      return "broadcast";
  }
  return "?";
}

std::optional<Collective> parse_collective(const std::string& name) {
  for (const Collective collective :
       {Collective::all_reduce, Collective::all_gather, Collective::broadcast}) {
    if (name == to_string(collective)) { return collective; }
  }
  return std::nullopt;
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
