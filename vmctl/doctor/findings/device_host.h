#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace virtrain::vmctl
