#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "harness/plan/plan.h"
#include "vmctl/api/node.h"

namespace virtrain::harness {

// The kinds of node that an arm is made of; elsewhere nobody asks for the kind.

/// `base` is an arm's: bare_metal, vm or bare_metal_shared.
bool runs_in_vms(const std::string& base);
/// Whether one node stands for all of a tenant's on a host.
bool shares_nodes(const std::string& base);

vmctl::NodeKind node_kind(const std::string& base);

/// SHA-256 of payloads, by their paths.
using PayloadDigests = std::map<std::string, std::string>;

/// Paths of the payloads that jobs of the plan run in; true: in nodes of hosts, and not of attached machines
/// alone.
std::map<std::string, bool> payload_paths(const Plan& plan);

/// The nodes that the host makes of a placement in an arm.
vmctl::NodeGroupSpec node_group(const Placement& placement, const std::string& base,
                                const PayloadDigests& payloads = {});

/// Whether a node of the plan gets a device of NVIDIA's, whose driver its image must have then.
bool lends_nvidia_devices(const Plan& plan);

/// Cores and devices of all of its nodes, as their hosts' journals name them.
ByHost<std::vector<std::string>> resources_of(const Plan& plan);

/// Grants of all nodes of the placement; no entry for a host on which none has any.
ByHost<std::vector<vmctl::DeviceGrant>> grants_of(const Placement& placement, const std::string& experiment);

/// Settings of the cards behind the placement's vGPUs; for other devices the guest or the arm sets its own.
vmctl::CardSettings settings_of_cards(const Devices& devices);

/// The domain XML of a group's VM, the `number`th node of its run, as its host would make it.
using PlannedXml = std::function<std::string(const vmctl::NodeGroupSpec& group, std::size_t tenant,
                                             std::size_t node, vmctl::NodeId number)>;
/// A planned VM, by its place in the plan's trials.
struct PlannedDomain {
  std::size_t trial = 0, tenant = 0, node = 0;
  std::string xml;
};
/// The VMs of all trials, in their order.
std::vector<PlannedDomain> planned_domains(const Plan& plan, const PayloadDigests& payloads,
                                           const PlannedXml& planned_xml);

/// The domain XML of each case's first trial in each arm with VMs, for people.
std::string to_text(const Plan& plan, const std::vector<PlannedDomain>& domains);

}  // namespace virtrain::harness
