#pragma once

#include <filesystem>
#include <vector>

#include "harness/evidence/trial_evidence.h"
#include "harness/plan/placement.h"
#include "vmctl/devices/host_device.h"

namespace virtrain::harness {

/// Looks, from the host, after what makes figures of lent devices worthless: slow links, link errors between
/// its making and finish(), and gaps in what keeps tenants apart. Free of cost without devices.
class DeviceWatch {
 public:
  explicit DeviceWatch(const Placement& placement, std::filesystem::path root = "/");
  /// To be called now and then while the devices work: reads two files a GPU.
  void look();
  HostEvidence finish() const;

 private:
  std::filesystem::path root_;
  std::vector<vmctl::HostDevice> devices_;
  std::map<std::string, vmctl::LinkErrors> before_;
  std::map<std::string, LinkEvidence> best_links_;  ///< what is possible, before look() has looked
  std::map<std::string, LinkEvidence> links_;
};

/// What the placement alone says of a node, for the rules about NUMA nodes and tenants.
NodeEvidence placement_evidence(const NodePlacement& node, const std::filesystem::path& root = "/");

}  // namespace virtrain::harness
