#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "results/store/records.h"

namespace virtrain::harness {

/// One stressor's report on one interval, on the coordinator's clock.
struct AggressorProgress {
  std::int64_t end_ns = 0;
  double seconds = 0;
  double busy = 0;  ///< share of the interval in which it was at work, or waited for a core to work on
  double rate = 0;  ///< work a second
};

/// Work of a stressor in an interval of time: means, weighted by time.
struct AggressorLevel {
  double busy = 0;
  double rate = 0;
  double covered = 0;  ///< share of the interval of which it said anything
};
AggressorLevel level_between(const std::vector<AggressorProgress>& progress, std::int64_t begin_ns,
                             std::int64_t end_ns);

/// So far from its level, as a share of it, an aggressor may be.
inline constexpr double most_level_distance = 0.10;
bool is_at_level(double busy, double level);

/// One stressor of a neighbour while the victims took their counted steps.
struct AggressorEvidence {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, kind, {}, .text = "Stressor: h2d");
  double level = 1;  ///< that was asked for
  VIRTRAIN_FIELD(double, busy, 0, .text = "Share of the time in which it was at work");
  VIRTRAIN_FIELD(double, rate, 0, .text = "Work a second");
  VIRTRAIN_FIELD(double, covered, 0, .text = "Share of the time that its reports cover");
  VIRTRAIN_FIELD(double, rate_before, 0, .text = "Work a second at its level, while the victims waited");
  VIRTRAIN_FIELD(std::string, unit, {}, .text = "Unit of the work");
};

/// A step of the victim after the aggressor had ended.
struct RecoveryStep {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(double, end, 0, .text = "End of the step in seconds after the aggressor's");
  VIRTRAIN_FIELD(double, seconds, 0, .text = "Duration of the step");
  VIRTRAIN_FIELD(double, images, 0, .text = "Images of all ranks");
};

/// The neighbour's row gets what its stressors did and, where there are any, the victim's later steps.
void add_work(const std::vector<AggressorEvidence>& stressors, const std::vector<RecoveryStep>& recovery,
              results::Tenant& row);

}  // namespace virtrain::harness
