#pragma once

#include <string>

#include "harness/scenario/scenario.h"

namespace virtrain::harness {

/// Looks, before anything is done, whether this host can run the scenario at all. Throws Error(host_unable)
/// with the doctor's words, one reason a line.
void check_host(const Scenario& scenario, const std::string& connect_uri);

}  // namespace virtrain::harness
