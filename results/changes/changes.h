#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "results/changes/level_changes.h"
#include "results/changes/series.h"
#include "results/changes/suspects.h"

namespace virtrain::results {

enum class ChangeState {
  unconfirmed,   ///< too few odd nights to say more
  open,          ///< confirmed, and still so
  mended,        ///< the old level came back
  acknowledged,  ///< somebody took it for the new normal
  superseded,    ///< the scenario was changed, so nobody will know
};
VIRTRAIN_DESCRIBE_ENUM(ChangeState, unconfirmed, open, mended, acknowledged, superseded)

/// A new level of one series.
struct Change {
  std::string id = {};  ///< of the series and the first night: the same each time it is found
  ChangeState state = ChangeState::unconfirmed;
  const Series* series = nullptr;
  LevelChange level = {};
  bool regression = false;
  std::string why = {};  ///< of the acknowledgement
  std::vector<Suspect> suspects = {};

  const Night& night(std::size_t index) const { return *series->nights[index]; }
  const Night& first_night() const { return night(level.first); }
};

/// The changes of all series, by their first night. Error(bad_input) never: series hold sound values only.
std::vector<Change> find_changes(std::span<const Series> series,
                                 std::span<const Acknowledgement> acknowledgements,
                                 const ChangeRule& rule = {});

/// Nights and their changes. Changes point into the series, and series into the nights.
struct ChangeLog {
  std::vector<Night> nights;
  std::vector<Series> series;
  std::vector<Change> changes;
  std::vector<SeriesNoise> noise;  ///< of each series, in their order
};

/// Whether somebody should look: a confirmed loss that is neither mended nor acknowledged.
bool is_alarm(const Change& change);

/// "-10.1 %"
std::string change_percent(double ratio);
/// "2026-10-16" of a night, or its experiment where it has no date.
std::string day_words(const Night& night);
/// "-10.1 % (-10.3 % to -9.8 %), worse, since 2026-10-16, open".
std::string change_sentence(const Change& change);

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
