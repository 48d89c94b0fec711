#include "harness/cli/host_inventory.h"

#include <fmt/format.h>

#include "common/contains.h"
#include "common/error.h"
#include "common/units.h"
#include "vmctl/devices/device_users.h"
#include "vmctl/journal/leases.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/paths.h"
#include "vmctl/resources/devices/host_services.h"

namespace virtrain::harness {
namespace {

/// Without the daemons that a run keeps away by itself.
void add_users(const std::filesystem::path& root, std::vector<vmctl::HostDevice>& devices) {
  vmctl::find_users(root, devices);
  for (auto& device : devices) {
    std::erase_if(device.users,
                  [&](const auto& user) { return vmctl::is_service_that_grabs_gpus(root, user.pid); });
  }
}

/// What a live run of ours uses is its lease's business, which can be waited for.
void forget_users_of_leased(const vmctl::LeaseJournal& journal, std::vector<vmctl::HostDevice>& devices) {
  const auto owners = journal.device_owners();
  for (auto& device : devices) {
    const auto owner = owners.find(device.function.address);
    if (owner != owners.end() && vmctl::is_alive(owner->second)) { device.users.clear(); }
  }
}

/// Plans are made by everybody: where the state folder cannot be made, nothing was ever leased.
bool has_journal() {
  try {
    return std::filesystem::exists(vmctl::state_dir() / "leases.db");
  } catch (const Error&) { return false; }
}

}  // namespace

vmctl::Inventory host_inventory(const Scenario& scenario, const std::filesystem::path& root) {
  auto inventory = vmctl::load_inventory(root);
  const bool has_devices = scenario.devices.kind != DeviceKind::none;
  if (has_devices) {
    for (auto* devices : {&inventory.devices, &inventory.other_devices}) { add_users(root, *devices); }
  }
  if (root != "/" || !has_journal()) {
    return inventory;  // a recorded host has none
  }
  const vmctl::LeaseJournal journal;
  inventory.leased_cores = journal.leased_cores();
  for (const auto& core : vmctl::held_claims(vmctl::claims_folder(), "core:")) {
    if (const auto number = parse_integer(core)) {
      if (!contains(inventory.leased_cores, static_cast<int>(*number))) {
        inventory.leased_cores.push_back(static_cast<int>(*number));
      }
    }
  }
  if (!has_devices) { return inventory; }
  for (auto* devices : {&inventory.devices, &inventory.other_devices}) {
    forget_users_of_leased(journal, *devices);
  }
  for (const auto& device : journal.quarantined()) {
    inventory.withheld_devices[device.address] =
        fmt::format("in quarantine: {} (when it is well again: virtrain clean --lift-quarantine {})",
                    device.reason, device.address);
  }
  return inventory;
}

}  // namespace virtrain::harness
