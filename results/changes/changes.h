#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "results/changes/level_changes.h"
#include "results/changes/suspects.h"
#include "results/store/nights.h"

namespace virtrain::results {

/// One figure of a case in an arm over the nights of one scenario.
struct Series {
  std::string scenario = {};
  std::string version = {};    ///< of the scenario's text: another text is another series
  bool current = true;         ///< false: the scenario has changed since
  bool imported = false;       ///< its nights came by `import`, or do not name the host they ran on
  bool is_one_of_two = false;  ///< there is one of nights that ran here and one of imported ones
  std::string case_name = {};  ///< empty for probes
  std::string arm = {};
  std::string kind = {};  ///< of the figure: throughput, ratio, efficiency, step_p99, boot, probe
  std::string figure = {};
  std::string unit = {};
  std::vector<const Night*> nights = {};  ///< those that have a value, in the order of storing
  std::vector<double> values = {};

  bool higher_is_better() const { return unit != "s"; }
  /// "nightly-cpu/one-vm/vm/images_per_second", with " (imported)" where it would stand for two.
  std::string name() const;
  /// Without that: what ids are made of.
  std::string key() const;
  /// The figure, told from the same one of nights that ran here.
  std::string figure_name() const;
};

/// All series of these nights, in the order in which they began. The nights must outlive them.
std::vector<Series> series_of(std::span<const Night> nights, std::span<const NightFigure> figures);

/// How noisy a series is at its present level, and what can be told of it therefore. Shares: 0.02 is 2 %.
struct SeriesNoise {
  std::size_t nights = 0;            ///< at the present level
  std::size_t nights_to_go = 0;      ///< before a change can be told; 0: one can be
  std::optional<double> sigma = {};  ///< from night to night; none: not known yet
  std::optional<double> step = {};   ///< of a figure that moves in steps
  /// The least loss that is told on its third and by its fifteenth night in four of five times.
  std::optional<double> least_loss_3_nights = {}, least_loss_15_nights = {};
  std::optional<std::size_t> noisier_since = {};  ///< night from which on it is noisier than before
  std::optional<double> sigma_before = {};        ///< where it is
  std::optional<std::size_t> drift_since = {};    ///< first night of a level that moved slowly, as no change
  std::optional<double> drift_ratio = {};         ///< how far
};

/// Noise of nights, given the changes that level_changes() finds in them. Pure.
SeriesNoise series_noise(std::span<const double> nights, std::span<const LevelChange> changes,
                         const ChangeRule& rule = {});

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
