#pragma once

#include <pugixml.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/model/virtualization.h"
#include "vmctl/api/device.h"
#include "vmctl/api/node.h"

namespace virtrain::vmctl {

using virtrain::Virtualization;

/// Mark in the XML of virtrain's domains and networks, by which they are found without the journal.
struct LeaseMark {
  std::string experiment;
  std::string node;
  bool operator==(const LeaseMark&) const = default;
};

/// The kind of network that a NIC is plugged into.
enum class NicKind {
  network,    ///< the libvirt network `source`
  bridge,     ///< the host's bridge `source`, somebody else's
  tap,        ///< the device `tap`, which is there already and belongs to QEMU's user
  multicast,  ///< QEMU's socket network: a multicast group on the loopback device, at `port`; needs no
              ///< privilege
  function,   ///< a virtual function among the VM's devices, and no NIC of QEMU's
};

/// One virtio NIC.
struct NicSpec {
  NicKind kind = NicKind::network;
  std::string source;
  std::string mac;  ///< "52:54:00:..."
  std::string tap;  ///< host-side device, at most 15 characters, "vt..."
  int port = 0;
  GuestNetwork settings = {};  ///< of networks and bridges
};

/// Disks of a VM that boots from an image of somebody else's.
struct BootDisk {
  std::string overlay;  ///< qcow2, takes the VM's writes
  std::string base;     ///< what it lies over, read-only
  std::string base_format;
  std::string seed;  ///< for cloud-init, read-only
};

/// A raw disk of a VM that loads may overwrite.
struct ScratchDisk {
  std::string file;
  bool past_page_cache = true;  ///< as loads on bare metal write, where the file system can (O_DIRECT)
};

/// Traits of the host's processor that guests on KVM must be told.
struct CpuTraits {
  /// AMD's have no arch-capabilities, newer kernels offer them all the same, and QEMU before 10.1, which
  /// passes on what it is offered, may die of it ("failed to set MSR 0x10a").
  bool hide_arch_capabilities = false;
  /// AMD's: without this feature a guest takes the threads of a core for cores.
  bool threads_need_topoext = false;
};

/// One virtual machine: it boots kernel + initrd directly, with a read-only root that its init overlays, or
/// from a disk, with that root as a second one.
struct DomainSpec {
  std::string name;  ///< "virtrain-<experiment>-<n>"
  std::string uuid;
  LeaseMark mark;
  int vcpus = 1;
  std::uint64_t memory_bytes = 0;
  std::vector<int> vcpu_cores;       ///< host core of each vCPU; empty leaves the VM unpinned
  std::vector<int> emulator_cores;   ///< host cores of QEMU's helper threads; empty leaves them free
  std::optional<int> numa_node;      ///< memory comes strictly from this host node
  std::vector<NumaCell> numa_cells;  ///< empty: the guest has no NUMA nodes
  bool memory_by_cell = false;       ///< each cell's memory comes strictly from its host node
  bool hugepages = false;
  std::string cpu_model = host_cpu_model;
  int threads_per_core = 1;  ///< that the guest sees
  MemoryEncryption memory_encryption = MemoryEncryption::none;
  Virtualization virtualization = Virtualization::tcg;
  CpuTraits cpu_traits = {};
  std::string kernel;
  std::string initrd;
  std::string root_image;  ///< raw file system, attached read-only as vda, or vdb beside a boot disk
  std::optional<BootDisk> boot_disk;  ///< then without kernel, initrd and kernel_command_line
  std::string kernel_command_line;    ///< see guest_command_line()
  std::optional<ScratchDisk> scratch;
  std::string payload;          ///< squashfs of a job, attached read-only; empty: none
  std::string planted_channel;  ///< see NodeSpec
  std::string domain_template;  ///< see GuestSpec; empty: none
  std::vector<NicSpec> nics;
  std::vector<PlacedDevice> devices;  ///< their guest sees them where they sit on the host
  Clique clique = Clique::off;
  NodeLimits limits = {};
  std::string console_log;  ///< host file that receives ttyS0
  /// libvirt runs without root: it changes no file's owner and refuses such a wish.
  bool in_session = false;
};

/// Host nodes of the guest's NUMA cells.
std::vector<int> host_nodes(const DomainSpec& spec);

/// libvirt domain XML. Throws Error(bad_input) where the spec contradicts itself.
std::string domain_xml(const DomainSpec& spec);

/// An isolated libvirt network: a bridge without an address, so that guests cannot reach the host; no DHCP,
/// no DNS, no forwarding.
struct NetworkSpec {
  std::string name;    ///< "virtrain-<experiment>-<tenant>"
  std::string bridge;  ///< "vt...", at most 15 characters
  LeaseMark mark;
};

std::string network_xml(const NetworkSpec& spec);

/// The mark in a domain's or network's XML; nothing if it is not ours or not XML.
std::optional<LeaseMark> read_lease_mark(std::string_view xml);

/// Puts a user's template (see vmctl/api/domain_template.h) over the XML of a VM. Throws Error(bad_input) for
/// a text that is none.
void lay_template(pugi::xml_node domain, const std::string& text);

}  // namespace virtrain::vmctl
