#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/model/check.h"
#include "vmctl/api/device_demand.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"

namespace virtrain::vmctl {

/// The subject of device checks: a host, or the recorded tree of one.
struct DeviceHost {
  std::filesystem::path root = "/";
  Inventory inventory;
  std::vector<std::string> leased = {};                 ///< addresses that a live run holds
  std::map<std::string, std::string> quarantined = {};  ///< why, by address
  HostWords words = {};
  std::optional<KvmTrial> kvm = {};         ///< nothing: it was not tried
  std::optional<DeviceDemand> demand = {};  ///< nothing: no plan, so every device is looked at

  /// Devices that the plan wants, each with its grant. For a virtual function that does not exist yet, the
  /// device is the physical function.
  std::vector<std::pair<DeviceGrant, const HostDevice*>> wanted() const;
  /// The devices that matter: those that the plan wants, or all GPUs.
  std::vector<const HostDevice*> devices() const;
  /// The GPUs of these.
  std::vector<const HostDevice*> gpus() const;
  /// RDMA adapters with a port that is up: without a plan all of them, else those it gives to VMs.
  std::vector<const HostDevice*> active_adapters() const;
  /// Those of devices() that leave the driver they are on, to be bound to VFIO.
  std::vector<const HostDevice*> rebound() const;
  /// nvidia-smi's report on a GPU, or on the card that it is a virtual function of.
  const GpuReport* report_on(const HostDevice& gpu) const;
  const HostDevice* find(const std::string& address) const;
  bool is_leased(const std::string& address) const;
};

/// The finding of a check, and the advice.
struct CheckAnswer {
  std::string found;
  std::string fix = {};                   ///< empty: all is well
  std::optional<Severity> severity = {};  ///< where it depends on what was found or wanted
  bool skipped = false;                   ///< there was nothing to judge, as `found` says
  std::optional<double> loss = {};        ///< as of Finding
};

/// One row of a table of checks.
template <typename Subject>
struct Check : CheckRow {
  bool (*applies)(const Subject& subject);
  CheckAnswer (*look)(const Subject& subject);
  const char* source = "";  ///< as of CheckDescription
};

/// The answer of one check; skipped, with the words of `applies_when`, where it does not apply.
template <typename Subject>
Finding examine(const Check<Subject>& check, const Subject& subject) {
  if (!check.applies(subject)) { return not_judged(check, "applies when"); }
  auto answer = check.look(subject);
  const auto status = answer.skipped       ? CheckStatus::skipped
                      : answer.fix.empty() ? CheckStatus::ok
                                           : CheckStatus::failed;
  return {check.id,
          answer.severity.value_or(check.severity),
          status,
          std::move(answer.found),
          std::move(answer.fix),
          true,
          answer.loss};
}

/// The answers of a table, in its order.
template <typename Subject>
std::vector<Finding> examine_all(std::span<const Check<Subject>> checks, const Subject& subject) {
  std::vector<Finding> findings;
  for (const auto& check : checks) { findings.push_back(examine(check, subject)); }
  return findings;
}

}  // namespace virtrain::vmctl
