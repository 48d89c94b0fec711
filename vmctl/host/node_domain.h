#pragma once

#include <optional>
#include <string>

#include "vmctl/api/node.h"
#include "vmctl/hypervisor/domain/domain_xml.h"

namespace virtrain::vmctl {

/// Names of one experiment's objects on the host, as an outside observer sees them.
struct HostNames {
  std::string experiment;  ///< "20261120t083012-7f3a2b"
  std::string tag;         ///< its last six characters, for device names of at most 15

  std::string domain(NodeId number) const;
  std::string network(std::size_t tenant) const;
  std::string bridge(std::size_t tenant) const;
  std::string tap(NodeId number) const;
  std::string slice(NodeId number) const;  ///< its namespace and cgroup
  std::string slice_nic(NodeId number) const;
  /// The tunnels to other hosts of these two bridges.
  std::string vxlan(std::size_t tenant) const;
  std::string slice_vxlan(std::size_t tenant) const;
  /// Not bridge(): VMs that wait for their next trial (reuse: case) keep theirs while slices have their own.
  std::string slice_bridge(std::size_t tenant) const;
};

/// Facts of one VM beyond its spec: its number in the run, and files and facts of the host.
struct VmFacts {
  NodeId number = 1;
  std::string uuid;  ///< empty: libvirt chooses
  std::string kernel, initrd, root_image;
  std::string console_log;
  Virtualization virtualization = Virtualization::tcg;
  std::optional<BootDisk> boot_disk;  ///< of a guest with an image of its own
  std::optional<ScratchDisk> scratch;
  std::string payload;  ///< this host's copy of it; empty: none
  CpuTraits cpu_traits = {};
  bool in_session = false;                        ///< see DomainSpec
  std::optional<NicKind> nic = NicKind::network;  ///< nothing: without a network
  int multicast_port = 0;
};

/// Pure: the VM that is made of one node.
DomainSpec domain_spec(const NodeGroupSpec& group, std::size_t tenant, std::size_t node,
                       const HostNames& names, const VmFacts& facts);

/// Pure: its XML as far as it is known before it runs. EXPERIMENT, TAG and IMAGE stand in it for what is not.
std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                        bool emulated, const CpuTraits& cpu_traits);

}  // namespace virtrain::vmctl
