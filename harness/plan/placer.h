#pragma once

#include <string>
#include <vector>

#include "harness/plan/gpus.h"
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
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void check_totals(const Case& wanted, std::size_t gpus, Placement& out);
  void warn_of_little_memory(const Case& wanted);
  void place_gpus(Placement& out, GpuAllocator gpus);
  void place_cores(Placement& out);

  const Scenario& scenario_;
  const vmctl::Inventory& inventory_;
  bool emulated_;
  std::vector<std::string> problems_, warnings_;
};

}  // namespace virtrain::harness
