#pragma once

#include <map>
#include <string>

#include "results/store/records.h"

namespace virtrain::results {

/// Settings of a figure's measurement, by name: {"engine": "SM"}. Readers put them into a probe's detail as
/// "settings"; for older rows they come from the source's own keys there.
using ProbeSettings = std::map<std::string, std::string>;
ProbeSettings settings_of(const Probe& probe);
/// Those of a figure of a job.
ProbeSettings settings_of(const TrialFigure& figure);

/// "in place" or "out of place", where the source says of a collective which it was.
std::string side_of(const Probe& probe);
/// The store keeps these beside the probe, so that its views tell figures apart as probe_key.h does: the
/// settings and, as "side", the side; null where there is neither.
nlohmann::json stored_settings(const Probe& probe);

}  // namespace virtrain::results
