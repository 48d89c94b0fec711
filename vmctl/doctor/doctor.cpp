#include "vmctl/doctor/doctor.h"

#include <filesystem>

#include "vmctl/devices/device_users.h"
#include "vmctl/doctor/checks/tables.h"
#include "vmctl/journal/leases.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"
#include "vmctl/process/paths.h"

namespace virtrain::vmctl {

namespace {

namespace fs = std::filesystem;

/// Adds the journal's facts about devices: addresses that live runs hold, and devices in quarantine.
void add_journal(DeviceHost& host) {
  if (!LeaseJournal::is_there()) { return; }
  const LeaseJournal journal;
  for (const auto& [address, owner] : journal.device_owners()) {
    if (is_alive(owner)) { host.leased.push_back(address); }
  }
  for (const auto& device : journal.quarantined()) { host.quarantined[device.address] = device.reason; }
}

DeviceHost device_host(const Inventory& inventory, const fs::path& root) {
  DeviceHost host{root, inventory, {}, {}, read_host_words(root), try_kvm(root), {}};
  if (root == "/") { add_journal(host); }
  find_users(host.root, host.inventory.devices);
  find_users(host.root, host.inventory.other_devices);
  return host;
}

}  // namespace

std::vector<CheckDescription> known_checks() {
  std::vector<CheckDescription> rows;
  for (const auto& row : host_checks()) { rows.push_back(description_of(row, row.source)); }
  for (const auto& row : device_checks()) { rows.push_back(description_of(row, row.source)); }
  return rows;
}

std::vector<Finding> examine_host(const Inventory& host, HostMode mode) {
  return examine_all(host_checks(), HostInMode{host, mode});
}

std::vector<Finding> examine_devices(const Inventory& inventory, const fs::path& root) {
  return examine_all(device_checks(), device_host(inventory, root));
}

namespace {

/// Compares two answers to one check.
bool says_more(const Finding& one, const Finding& other) {
  const bool other_failed = other.status == CheckStatus::failed;
  if (one.status == CheckStatus::failed) { return !other_failed || one.severity < other.severity; }
  return !other_failed && one.status != CheckStatus::skipped;
}

}  // namespace

std::vector<Finding> examine_devices(const Inventory& inventory, const std::vector<DeviceDemand>& demands,
                                     const fs::path& root) {
  auto host = device_host(inventory, root);
  std::vector<Finding> findings;
  for (const auto& demand : demands) {
    host.demand = demand;
    for (std::size_t i = 0; i < device_checks().size(); ++i) {
      auto finding = examine(device_checks()[i], host);
      if (findings.size() == i) {
        findings.push_back(std::move(finding));
      } else if (says_more(finding, findings[i])) {
        findings[i] = std::move(finding);
      }
    }
  }
  return findings;
}

}  // namespace virtrain::vmctl
