#include "workloads/probe/collective.h"

namespace virtrain::probe {

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
