#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "vmctl/devices/placed_device.h"
#include "vmctl/doctor/doctor.h"
#include "vmctl/machine/host_words.h"
#include "vmctl/machine/inventory.h"
#include "vmctl/machine/kvm_probe.h"

namespace virtrain::vmctl {

/// What one VM of a plan is to get.
struct VmDemand {
  std::vector<PlacedDevice> devices;
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;  ///< of its memory, where it is of one node
};

/// What a plan wants of a host at one time.
struct DeviceDemand {
  std::vector<VmDemand> vms;
  Clique clique = Clique::off;
  bool several_tenants = false;  ///< VMs that must be kept apart
  bool hugepages = false;        ///< VMs of 1 GiB pages
  bool firmware = false;         ///< VMs that boot by UEFI

  std::vector<PlacedDevice> devices() const;  ///< of all VMs
  bool wants(GrantKind kind) const;
};

/// What the checks of devices look at: a host, or the recorded tree of one.
struct DeviceHost {
  std::filesystem::path root = "/";
  Inventory inventory;
  std::vector<std::string> leased = {};                 ///< addresses that a live run holds
  std::map<std::string, std::string> quarantined = {};  ///< why, by address
  HostWords words = {};
  std::optional<KvmTrial> kvm = {};         ///< nothing: it was not tried
  std::optional<DeviceDemand> demand = {};  ///< nothing: no plan, so every device is looked at

  /// The devices that matter: those that the plan wants, or all GPUs.
  std::vector<const HostDevice*> devices() const;
  /// The GPUs of these.
  std::vector<const HostDevice*> gpus() const;
  /// Those of devices() that leave the driver they are on, to be bound to VFIO.
  std::vector<const HostDevice*> rebound() const;
  /// What nvidia-smi says of a GPU, or of the card that it is a virtual function of.
  const GpuReport* report_on(const HostDevice& gpu) const;
  const HostDevice* find(const std::string& address) const;
  bool is_leased(const std::string& address) const;
};

/// What a check found, and what to do about it.
struct CheckAnswer {
  std::string found;
  std::string fix = {};                   ///< empty: all is well
  std::optional<Severity> severity = {};  ///< where it depends on what was found or wanted
};

/// One row of the table of checks.
struct DeviceCheck {
  const char* id;
  Severity severity;
  const char* applies_when;  ///< in words
  bool (*applies)(const DeviceHost& host);
  CheckAnswer (*look)(const DeviceHost& host);
};

/// All of them, in the order they are shown.
std::span<const DeviceCheck> device_checks();

/// The answer of one check; skipped, with the words of `applies_when`, where it does not apply.
Finding examine(const DeviceCheck& check, const DeviceHost& host);

}  // namespace virtrain::vmctl
