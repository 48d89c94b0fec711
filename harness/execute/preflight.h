#pragma once

#include <string>

#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "vmctl/inventory.h"

namespace virtrain::harness {

/// Whether libvirt runs there for one user only: it makes no networks, so its VMs have none.
bool is_session_uri(const std::string& connect_uri);

/// Looks, before anything is done, whether this host can run the scenario at all. Throws Error(host_unable)
/// with the doctor's words, one reason a line.
void check_host(const Scenario& scenario, const Plan& plan, const vmctl::Inventory& inventory,
                const std::string& connect_uri);

}  // namespace virtrain::harness
