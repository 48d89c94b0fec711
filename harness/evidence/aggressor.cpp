#include "harness/evidence/aggressor.h"

#include <algorithm>
#include <cmath>

#include "common/text/described_json.h"

namespace virtrain::harness {

AggressorLevel level_between(const std::vector<AggressorProgress>& progress, std::int64_t begin_ns,
                             std::int64_t end_ns) {
  AggressorLevel level;
  double seconds = 0;
  for (const auto& one : progress) {
    const auto from = std::max(begin_ns, one.end_ns - static_cast<std::int64_t>(one.seconds * 1e9));
    const double shared = static_cast<double>(std::min(end_ns, one.end_ns) - from) * 1e-9;
    if (shared <= 0) { continue; }
    seconds += shared;
    level.busy += one.busy * shared;
    level.rate += one.rate * shared;
  }
  if (seconds <= 0 || end_ns <= begin_ns) { return level; }
  level.busy /= seconds;
  level.rate /= seconds;
  level.covered = std::min(1.0, seconds / (static_cast<double>(end_ns - begin_ns) * 1e-9));
  return level;
}

void add_work(const std::vector<AggressorEvidence>& stressors, const std::vector<RecoveryStep>& recovery,
              results::Tenant& row) {
  row.workload["stressors"] = value_json(stressors);
  if (!recovery.empty()) { row.workload["recovery"] = value_json(recovery); }
}

bool is_at_level(double busy, double level) {
  return std::abs(busy - level) <= most_level_distance * level;
}

}  // namespace virtrain::harness
