#pragma once

#include <string>
#include <vector>

#include "harness/scenario/edits/edits.h"
#include "harness/scenario/scenario.h"

// Effects that a stored scenario would have on this host. A database does not say where its records come
// from: they may have been measured here, imported, or copied with the whole file. Pure.
namespace virtrain::harness {

/// The environment variables that a comparison's two arms set for their ranks, the files of this host that
/// they name, and its devices that they take and change: what somebody has to agree to before it runs with
/// their rights. Before and after are the values in the arms `good` and `tried`. Settings that the user has
/// given on the command line are left out.
std::vector<Setting> settings_to_confirm(const Scenario& comparison, const std::vector<Setting>& given);

/// "workload.env.LD_PRELOAD: /opt/x.so", or with both values where they differ.
std::string words_of(const Setting& setting);

}  // namespace virtrain::harness
