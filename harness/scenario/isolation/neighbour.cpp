#include "harness/scenario/isolation/neighbour.h"

#include <algorithm>

namespace virtrain::harness {

ArmKey Neighbour::key() const {
  return is_idle() ? ArmKey{"", idle_neighbour, {}} : ArmKey{"", aggressor, level};
}

std::string Neighbour::condition() const {
  return printed_neighbour(key());
}

const std::vector<AggressorKind>& aggressor_kinds() {
  static const std::vector<AggressorKind> kinds{{"cpu", {"cpu"}},
                                                {"llc", {"llc"}},
                                                {"membw", {"membw"}},
                                                {"disk", {"disk"}},
                                                {"net", {"net"}},
                                                {"allreduce", {"allreduce"}},
                                                {"gemm", {"gemm"}, true},
                                                {"power", {"power"}, true},
                                                {"l2", {"l2"}, true},
                                                {"hbm", {"membw"}, true},
                                                {"h2d", {"h2d"}, true},
                                                {"d2h", {"d2h"}, true},
                                                {"h2d+d2h", {"h2d", "d2h"}, true}};
  return kinds;
}

const AggressorKind& aggressor_kind(const std::string& name) {
  return *std::find_if(aggressor_kinds().begin(), aggressor_kinds().end(),
                       [&](const AggressorKind& kind) { return kind.name == name; });
}

bool need_gpus(const std::vector<Neighbour>& neighbours) {
  return std::any_of(neighbours.begin(), neighbours.end(), [](const Neighbour& one) {
    return one.share == Share::card || one.share == Share::switch_ ||
           (!one.is_idle() && aggressor_kind(one.aggressor).needs_gpu);
  });
}

}  // namespace virtrain::harness
