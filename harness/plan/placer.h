#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/plan/device_allocator.h"
#include "harness/plan/placement.h"
#include "vmctl/inventory.h"

namespace virtrain::harness {

class CoreAllocator;

/// Places cases on one host: cores, memory, GPUs, addresses. What this host cannot do is collected, so that
/// the user hears of all of it at once.
class Placer {
 public:
  /// `emulated`: VMs run under TCG, whose QEMU takes more memory.
  Placer(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated)
      : scenario_(scenario), inventory_(inventory), emulated_(emulated) {}

  Placement place(const Case& wanted);

  const std::vector<std::string>& problems() const { return problems_; }
  /// What this host could do once devices are free that are in use now.
  const std::vector<std::string>& busy() const { return busy_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void check_totals(const Case& wanted, Placement& out);
  void warn_of_little_memory(const Case& wanted);
  void place_devices(const Case& wanted, Placement& out);
  void give(NodePlacement& node, const DeviceChoice& choice, std::int64_t& macs);
  void warn_of_distance(const std::string& case_name, const NodePlacement& node, const DeviceChoice& choice);
  void warn_of_far_cores(const std::string& case_name, const NodePlacement& node,
                         const std::vector<int>& near);
  void place_cores(Placement& out);

  const Scenario& scenario_;
  const vmctl::Inventory& inventory_;
  bool emulated_;
  std::map<std::string, std::vector<int>> device_numa_nodes_;  ///< by node, while a case is placed
  std::vector<std::string> problems_, busy_, warnings_;
};

}  // namespace virtrain::harness
