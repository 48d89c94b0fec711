#pragma once

#include <vector>

#include "results/changes/changes.h"

namespace virtrain::results {

/// Verdict on the last nights of a series.
enum class SeriesVerdict {
  level,        ///< at its usual level; an acknowledged change made a new one
  unconfirmed,  ///< odd nights, too few to say more
  loss,         ///< a confirmed loss is open
  gain,         ///< a confirmed gain is open
};
VIRTRAIN_DESCRIBE_ENUM(SeriesVerdict, level, unconfirmed, loss, gain)

/// How a series of the present scenario stands after its last night.
struct SeriesState {
  const Series* series = nullptr;
  SeriesVerdict verdict = SeriesVerdict::level;
  SeriesNoise noise = {};
  double level = 0;                             ///< median of the nights at the present level
  std::vector<const Change*> changes = {};      ///< of this series, the oldest first
  std::vector<const Change*> open_losses = {};  ///< those of them that is_alarm() says
};

/// One state for each series that goes on: scenarios that were changed since are left out.
std::vector<SeriesState> series_states(const ChangeLog& log, const ChangeRule& rule = {});

}  // namespace virtrain::results
