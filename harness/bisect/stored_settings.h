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

/// The same of all arms of a stored scenario that is run as it is.
std::vector<Setting> settings_to_confirm(const Scenario& stored);

/// Says that these settings of stored scenarios need somebody's agreement, and why, a line each.
std::string words_of_unconfirmed(const std::vector<Setting>& stored);

/// "workload.env.LD_PRELOAD: /opt/x.so", or with both values where they differ.
std::string words_of(const Setting& setting);

}  // namespace virtrain::harness
