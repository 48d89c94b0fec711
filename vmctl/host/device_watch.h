#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "vmctl/api/evidence.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/machine/package_energy.h"

namespace virtrain::vmctl {

/// Looks, from the host, after what makes figures of lent devices worthless: slow links, link errors between
/// its making and finish(), and gaps in what keeps tenants apart; and the energy that processors use.
class DeviceWatch {
 public:
  explicit DeviceWatch(const std::vector<std::string>& addresses, std::filesystem::path root = "/");
  /// To be called now and then while the devices work: reads two files a GPU, one a processor.
  void look();
  DeviceEvidence finish() const;

 private:
  std::filesystem::path root_;
  std::vector<HostDevice> devices_;
  std::map<std::string, LinkErrors> before_;
  std::map<std::string, LinkEvidence> best_links_;  ///< what is possible, before look() has looked
  std::map<std::string, LinkEvidence> links_;
  PackageEnergy energy_;
};

/// NUMA nodes of these cores, as far as sysfs knows them.
std::vector<int> numa_nodes_of(const std::filesystem::path& root, const std::vector<int>& cores);

}  // namespace virtrain::vmctl
