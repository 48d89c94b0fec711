#pragma once

#include <boost/describe/class.hpp>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/file_search.h"
#include "common/model/check.h"
#include "common/model/virtualization.h"
#include "vmctl/api/device_demand.h"
#include "vmctl/api/device_settings.h"
#include "vmctl/api/evidence.h"
#include "vmctl/api/host_mode.h"
#include "vmctl/api/host_network.h"
#include "vmctl/api/inventory.h"
#include "vmctl/api/leftover.h"
#include "vmctl/api/node.h"

namespace virtrain::vmctl {

/// One run on a host.
struct RunSpec {
  std::string experiment = {};  ///< "20261120t083012-7f3a2b"
  std::string results_db = {};  ///< where `clean` marks it interrupted
  HostMode mode = HostMode::system;
  /// False: of this host only what is asked for is changed; /dev/kvm stays as it is, no libvirt daemon is
  /// started and no service is stopped.
  bool may_change_host = true;
  std::vector<std::string> programs =
      {};  ///< by name (or path, of others'), that its nodes have beside the agent
  /// The name of this host in NodeSpec::host; empty: the run has no other.
  std::string host = {};
  HostNetwork network = {};             ///< by which this host's nodes reach those of the others
  std::vector<std::string> peers = {};  ///< where the tunnels of the others end
};
BOOST_DESCRIBE_STRUCT(RunSpec, (),
                      (experiment, results_db, mode, may_change_host, programs, host, network, peers))

/// Whether it is an experiment's id, of which names of folders and devices are made.
bool is_experiment_id(std::string_view text);

/// The image and files that guests boot from.
struct ImageSpec {
  std::string image = mirror_image;
  bool with_nvidia_driver = false;
  /// Small files of ours that mirror images have beside the host's packages, by path in the guest. Such an
  /// image is made anew for each other text.
  std::map<std::string, std::string> texts = {};
  std::vector<std::string> packages = {};  ///< of this host, GuestSpec::packages
};
BOOST_DESCRIBE_STRUCT(ImageSpec, (), (image, with_nvidia_driver, texts, packages))
struct ImageFacts {
  std::string hash, boots, kernel;
  bool from_cache = false;
  Virtualization virtualization = Virtualization::tcg;
  std::string reason;                                ///< of `virtualization`
  std::map<std::string, std::string> packages = {};  ///< in a mirror image: each one's version
};
BOOST_DESCRIBE_STRUCT(ImageFacts, (), (hash, boots, kernel, from_cache, virtualization, reason, packages))

// Calls of a host block, have deadlines of their own and throw Error; cancel() and look() of a host in
// another process do not block.

/// Looks at a host and checks what it can do. Nothing is changed.
class HostLooks {
 public:
  // --- what is there; nothing is changed

  /// The input of plans. `with_users`: also who uses its devices.
  virtual Inventory inventory(bool with_users) = 0;
  /// Named facts that decide whether two trials are comparable: kernel, cpu_model, microcode, bios, …
  virtual std::map<std::string, std::string> fingerprint() = 0;
  virtual DeviceListing devices() = 0;
  virtual std::vector<int> numa_nodes_of(const std::vector<int>& cores) = 0;
  /// Those at which nodes could reach it now, those of their networks included.
  virtual HostAddresses addresses() = 0;
  /// Throws Error(host_unable) where it has no such bridge or NIC, or one that is not up, in words.
  virtual HostNetworkFacts look_at_network(const HostNetwork& network) = 0;
  /// The domain XML of a VM that is yet to be made, the `number`th node of its run; EXPERIMENT, TAG and
  /// IMAGE stand in it for what is only known then.
  virtual std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node,
                                  NodeId number, bool emulated) = 0;
  /// A file for NCCL_TOPO_FILE in a VM that somebody else defined, from its XML (what `virsh dumpxml`
  /// prints). Throws Error(bad_input) for what is no such XML, Error(not_found) where it has no GPU of this
  /// host.
  virtual std::string nccl_topology_of(const std::string& domain_xml) = 0;
  /// The XML of a domain that libvirt has. Throws Error(not_found).
  virtual std::string domain_xml_of(const std::string& domain) = 0;
  virtual std::filesystem::path log_root() = 0;  ///< of all runs
  /// Writes what plans and checks read of this host into a new folder, for `--inventory` elsewhere.
  virtual void record(const std::filesystem::path& folder) = 0;

  // --- checks

  /// Checks that every scenario depends on in that mode.
  virtual std::vector<Finding> examine(HostMode mode) = 0;
  /// The rows of all checks that examine() and examine_devices() make, in their order.
  virtual std::vector<CheckDescription> checks() = 0;
  /// Checks that scenarios with devices depend on: for all GPUs (absent), or for each set that a plan demands
  /// at one time.
  virtual std::vector<Finding> examine_devices(const std::optional<std::vector<DeviceDemand>>& demands) = 0;
  virtual Privileges privileges() = 0;
  /// Why no mode with namespaces is to be had, tried now; empty: it is.
  virtual std::string lacks_user_namespaces() = 0;
  /// Why the system's libvirt daemon does not answer; empty: it does.
  virtual std::string lacks_system_libvirt() = 0;
  /// Why its QEMU, as another user, could most likely not reach this user's images; empty: it can.
  virtual std::string closed_to_qemu() = 0;
  /// Why nodes of that kind cannot have these limits, tried now; empty: they can.
  virtual std::vector<std::string> lacks_limits(NodeKind kind, const NodeLimits& limits) = 0;
  /// Throws Error(host_unable) for an image that VMs cannot boot from, or a CPU model that libvirt lacks.
  virtual void check_guest(const GuestSpec& guest) = 0;
  /// Whether this host and trainer can run backend cuda.
  virtual CudaHost look_at_cuda(const std::string& trainer) = 0;
  /// Whether make_image() would find its guest image, with these programs of a RunSpec, in the cache. Of a
  /// file that was copied over it says no, where make_image() compares contents.
  virtual bool has_image(const ImageSpec& spec, const std::vector<std::string>& programs) = 0;

 protected:
  ~HostLooks() = default;
};

/// Gives a run leases, images and devices of a host, and removes what killed runs have left.
class HostLending {
 public:
  // --- a run

  /// Opens the journal; returns the folder of the run's logs. Throws Error(not_found) for a program that is
  /// not there.
  virtual std::filesystem::path begin(const RunSpec& run) = 0;
  /// Takes cores and devices, all or none: Error(busy).
  virtual void acquire(const std::vector<std::string>& resources) = 0;
  /// Gives them back. A run whose end is `stored` nowhere stays in the journal, so that `clean` marks it.
  virtual void end(bool stored) = 0;

  /// Takes a squashfs that jobs of this run run in, as the coordinator's user can read it at this path of the
  /// host; returns its SHA-256, NodeSpec::payload. Throws Error(host_unable) for what cannot be read or is
  /// none.
  virtual std::string take_payload(const std::string& path) = 0;
  /// libvirt answers, the image is there, and a probe has shown whether KVM works. Called again, it says what
  /// later VMs boot.
  virtual ImageFacts make_image(const ImageSpec& spec) = 0;
  /// From any thread: make_image() and the clearing of devices in lend(), now or later in this run, end soon
  /// with Error(interrupted).
  virtual void cancel() = 0;

  /// Stops what opens GPUs or disturbs them, until end_lending().
  virtual void keep_services_away(const std::vector<DeviceGrant>& grants) = 0;
  /// Makes devices ready for VMs that are yet to be started, and clears those that are to be cleared between
  /// tenants; returns how many were not ready yet. The cards of vGPUs are set as said until they are lent
  /// otherwise or given back.
  virtual std::size_t lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards) = 0;
  /// Sets GPUs that the host's own driver has, until they are lent or given back.
  virtual void set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted) = 0;
  /// Gives the devices back. A device that cannot be given back goes into quarantine; returns a sentence for
  /// each.
  virtual std::vector<std::string> give_back() = 0;
  virtual std::vector<std::string> end_lending() = 0;

  /// Looks from now on, with each look(), after what makes figures of lent devices worthless.
  virtual void watch_devices(const std::vector<std::string>& addresses) = 0;
  /// Looks once more and ends the watch; returns all that was seen.
  virtual DeviceEvidence watched() = 0;

  // --- what killed runs have left

  /// `libvirt`: the URI to look at; empty: the system's, or the user's own session where that is out of
  /// reach. `experiment`: of this one only; empty: of all.
  virtual Leftovers leftovers(const std::string& libvirt, const std::string& experiment) = 0;
  /// Removes what leftovers() found last.
  virtual Cleaned clean() = 0;
  /// Strikes the dead owners of these experiments off the journal, once their ends are stored. Those of whom
  /// something is left stay.
  virtual void forget(const std::vector<std::string>& experiments) = 0;
  /// False: it was in none.
  virtual bool lift_quarantine(const std::string& address) = 0;

 protected:
  ~HostLending() = default;
};

/// Makes and removes the nodes of a run, and probes what they may not see.
class HostNodes {
 public:
  /// Names and places; nothing is made.
  virtual NodeGroup plan_nodes(const NodeGroupSpec& spec) = 0;
  virtual void make_networks(NodeGroupId group) = 0;
  virtual NodeStream start(NodeId node) = 0;
  /// A call may still be under way while the node is removed.
  virtual NodeCounters counters(NodeId node) = 0;
  virtual LastWords last_words(NodeId node) = 0;
  /// kill -9 of a VM's hypervisor, as the OOM killer would do it; returns when it is gone.
  virtual void kill(NodeId node) = 0;
  /// Returns when a VM whose guest powers itself off has gone. Throws Error(timeout).
  virtual void await_end(NodeId node) = 0;
  /// Whether a guest's PCI functions, and what `nvidia-smi topo -p2p r` says there, are as planned.
  virtual GuestTopology check_topology(NodeId node, const std::vector<PciFunction>& guest,
                                       const std::string& peers) = 0;
  /// Removes all that was made of the group, whatever fails on the way.
  virtual Removal remove(NodeGroupId group) = 0;

  // --- probes of security

  /// Puts the canary into files of this host that no node should see; returns where. They go with
  /// remove_planted(), at the latest by `clean`.
  virtual std::vector<std::filesystem::path> plant(const Canary& canary) = 0;
  virtual void remove_planted() = 0;
  /// Puts the canary into a page of this process; returns its physical address. It goes with
  /// remove_planted(). Throws Error where the kernel does not tell where it is, as it tells root only.
  virtual std::uint64_t plant_in_memory(const Canary& canary) = 0;
  /// Searches what runs leave on this host: state, cache, what libvirt and QEMU keep, shared memory.
  /// `control` lies among it meanwhile.
  virtual SearchReport search_leftovers(const std::vector<Canary>& canaries, const Canary& control) = 0;
  /// Modes of the journal, locks and logs, against docs/security.md.
  virtual ModeReport check_modes() = 0;

 protected:
  ~HostNodes() = default;
};

/// The machines and devices of one host.
class Host : public HostLooks, public HostLending, public HostNodes {
 public:
  virtual ~Host() = default;

  /// Looks at nodes and watched devices. A host process does so once a second; its coordinator gets what it
  /// last told, at once.
  virtual HostCounters look() = 0;
};

}  // namespace virtrain::vmctl
