#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::harness {

/// Names of one experiment's objects on the host, as an outside observer sees them.
struct HostNames {
  std::string experiment;  ///< "20261120t083012-7f3a2b"
  std::string tag;         ///< its last six characters, for device names of at most 15

  std::string domain(std::int64_t number) const;
  std::string network(std::size_t tenant) const;
  std::string bridge(std::size_t tenant) const;
  std::string tap(std::int64_t number) const;
  std::string slice(std::int64_t number) const;  ///< its namespace and cgroup
  std::string slice_nic(std::int64_t number) const;
  /// Not bridge(): VMs that wait for their next trial (reuse: case) keep theirs while slices have their own.
  std::string slice_bridge(std::size_t tenant) const;
};

/// What the node's VM is granted, in the order of its devices. A mediated device's UUID follows from the
/// experiment, the node, the parent and the type: the same in every trial, so that trials can share it.
std::vector<vmctl::DeviceGrant> grants_of(const NodePlacement& node, const HostNames& names);
/// Those of all its nodes.
std::vector<vmctl::DeviceGrant> grants_of(const Placement& placement, const HostNames& names);

/// What one VM has beyond the plan: its number in the experiment, and files and facts of the host.
struct VmFacts {
  std::int64_t number = 1;
  std::string uuid;  ///< empty: libvirt chooses
  std::string kernel, initrd, root_image;
  std::string console_log;
  vmctl::Virtualization virtualization = vmctl::Virtualization::tcg;
  std::optional<vmctl::BootDisk> boot_disk;                     ///< of a guest with an image of its own
  bool hide_arch_capabilities = false;                          ///< see DomainSpec
  bool in_session = false;                                      ///< see DomainSpec
  std::optional<vmctl::NicKind> nic = vmctl::NicKind::network;  ///< nothing: without a network
  int multicast_port = 0;
};

/// Name, address and neighbours that a node boots with.
vmctl::GuestBoot guest_boot(const TenantPlacement& tenant, const NodePlacement& node, bool networked);

/// How much of a VM's memory has to come from which NUMA node of the host; none: it may come from any.
std::map<int, std::uint64_t> memory_by_host_node(const Guest& guest, const NodePlacement& node);

/// Pure: the VM that `run` makes of one node of a placement, and `plan --xml` shows.
vmctl::DomainSpec domain_spec(const Guest& guest, const TenantPlacement& tenant, std::size_t tenant_index,
                              const NodePlacement& node, const HostNames& names, const VmFacts& facts);

/// What the host of a plan makes of its VMs, as far as it is known before any is started.
struct PlannedHost {
  bool emulates = false;                ///< without KVM
  bool hide_arch_capabilities = false;  ///< see DomainSpec
};

/// Adds "xml" to each node of the VM trials in to_json(plan). EXPERIMENT, TAG and IMAGE stand in it for what
/// is only known when it runs.
void add_domain_xml(nlohmann::json& plan_json, const Plan& plan, const Scenario& scenario,
                    const PlannedHost& host);

/// The domain XML of each case's first VM trial, for people.
std::string domain_xml_text(const nlohmann::json& plan_json);

}  // namespace virtrain::harness
