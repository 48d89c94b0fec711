#pragma once

#include <string>
#include <vector>

#include "results/changes/changes.h"

namespace virtrain::results {

/// Changes of several series that began together, went the same way and are in the same state: one event, as
/// far as anybody can tell. The largest comes first.
struct ChangeGroup {
  std::vector<const Change*> changes;

  const Change& largest() const { return *changes.front(); }
  /// On which most of them began.
  const Night& first_night() const;
  /// Facts that fit all changes of the group that have suspects, the likeliest first.
  std::vector<const Suspect*> suspects() const;
};

/// Every change in one group: open losses first, then what is odd, gains, and what is over; the largest
/// first. Changes belong together where the first night of one is among those that fit the other as well.
std::vector<ChangeGroup> change_groups(const std::vector<Change>& changes);

/// "-8.2 to -7.8 % since 2026-10-25 in 4 series"
std::string group_sentence(const ChangeGroup& group);
/// "-8.2 to -7.8 % since 2026-10-25 in 4 series; suspects: host.kernel, label": the largest loss that is
/// open, and how many more there are. Empty where none is.
std::string losses_headline(const std::vector<ChangeGroup>& groups);

}  // namespace virtrain::results
