#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harness/plan/devices/device_allocator.h"
#include "harness/plan/devices/lack.h"
#include "harness/plan/placement.h"
#include "harness/scenario/scenario.h"
#include "vmctl/api/inventory.h"

namespace virtrain::harness {

class CoreAllocator;

/// "t1n2": the name of a node, both counted from 0.
std::string node_name(std::size_t tenant, std::int64_t node);
/// As the workload says, else an equal share of the node's vCPUs.
std::int64_t threads_per_rank(const Tenant& tenant, const Guest& guest);

/// A MAC address that follows from the text: "52:54:01" as `upper` half and a lower one that is none of
/// `taken`, the lower halves that a case has already.
std::string derived_mac(const char* upper, const std::string& text, std::set<std::uint32_t>& taken);
/// MAC address of an Ethernet virtual function at `address`: the same in every plan, and another one on every
/// host, for many hosts and runs share one fabric.
std::string function_mac(const std::string& hostname, const std::string& address,
                         std::set<std::uint32_t>& taken);

/// From which on the nodes of a tenant are numbered, from 0.
struct NodeNumber {
  std::size_t tenant = 0;
  std::int64_t node = 0;
};

/// Places cases on one host: cores, memory, GPUs, addresses. What this host cannot do is collected, so that
/// the user hears of all of it at once.
class Placer {
 public:
  /// `emulated`: VMs run under TCG, whose QEMU takes more memory. `network`: by which the host's nodes reach
  /// those of others.
  Placer(const Scenario& scenario, const vmctl::Inventory& inventory, bool emulated,
         vmctl::HostNetwork network = {})
      : scenario_(scenario), inventory_(inventory), emulated_(emulated), network_(std::move(network)) {}

  /// `in_vms`: an arm that the case is for runs in VMs. `numbers`, by tenant, where the case is this host's
  /// part of one over several.
  Placement place(const Case& wanted, bool in_vms, const std::vector<NodeNumber>& numbers = {});

  const std::vector<Lack>& problems() const { return problems_; }
  /// Lacks that end when devices and cores in use become free.
  const std::vector<Lack>& busy() const { return busy_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void check_totals(const Case& wanted, bool in_vms, Placement& out);
  void warn_of_little_memory(const Case& wanted);
  void place_devices(const Case& wanted, Placement& out);
  void place_network_functions(Placement& out);
  std::map<std::string, DeviceChoice> take_shared(const Case& wanted, DeviceAllocator& allocator);
  void note_nothing_to_share(const Case& wanted, const Sharing& sharing,
                             const std::vector<std::string>& reasons);
  std::string about_share(const std::string& case_name, Share share) const;
  void give(NodePlacement& node, const DeviceChoice& choice, std::set<std::uint32_t>& macs);
  void warn_of_distance(const std::string& case_name, const NodePlacement& node, const DeviceChoice& choice);
  void warn_of_peers(const std::string& case_name, const NodePlacement& node, const DeviceChoice& choice);
  void warn_of_far_cores(const std::string& case_name, const NodePlacement& node,
                         const std::vector<int>& near);
  void place_cores(Placement& out);
  bool fits_without_leases(Placement placement) const;
  std::vector<std::string> place_cores_of(const vmctl::Inventory& host, Placement& out) const;
  std::vector<int> neighbour_cores(const Placement& placement, const Neighbour& neighbour,
                                   CoreAllocator& cores, std::vector<std::string>& problems) const;
  void check_vms(const Placement& placement);
  DeviceChoice take_devices(const Offer& offer, DeviceAllocator& allocator, TenantPlacement& tenant);

  const Scenario& scenario_;
  const vmctl::Inventory& inventory_;
  bool emulated_;
  vmctl::HostNetwork network_;
  std::map<std::string, std::vector<int>> device_numa_nodes_;  ///< by node, while a case is placed
  std::vector<Lack> problems_, busy_;
  std::vector<std::string> warnings_;
};

/// Why a placement's VMs could not start or would not work.
struct VmFindings {
  std::vector<Lack> problems;
  std::vector<Lack> busy;  ///< what will be possible once others are done
  std::vector<std::string> warnings;
};

/// By memory and huge pages, devices and their memory regions, NVSwitches, vCPUs and the kernel's command
/// line. `emulated`: under TCG, whose QEMU takes more memory. Pure.
VmFindings vm_findings(const Placement& placement, const Scenario& scenario,
                       const vmctl::Inventory& inventory, bool emulated);

}  // namespace virtrain::harness
