#pragma once

#include <boost/describe/class.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/enum_text.h"
#include "common/files/unique_fd.h"
#include "common/model/described.h"
#include "vmctl/api/device.h"
#include "vmctl/api/domain_template.h"
#include "vmctl/api/host_network.h"

namespace virtrain::vmctl {

using virtrain::to_string;

VIRTRAIN_ENUM_CLASS(Pinning, none, cores, numa)

/// How a guest's devices hang together: as on the host, below a root complex for each NUMA node, or below one
/// that says nothing of NUMA nodes.
VIRTRAIN_ENUM_CLASS(PciTopology, host, numa, flat)

/// bounce: devices of the guest reach only buffers that its kernel copies to and from, as in a confidential
/// guest, but nothing is encrypted: the cost of the data path on any host. sev_snp, tdx: AMD's and Intel's
/// confidential guests, whose kernel does so by itself.
VIRTRAIN_ENUM_CLASS(MemoryEncryption, none, bounce, sev_snp, tdx)

constexpr bool is_confidential(MemoryEncryption encryption) {
  return encryption == MemoryEncryption::sev_snp || encryption == MemoryEncryption::tdx;
}

/// Where QEMU's helper threads run: on cores that no node has, if there are any, or on those of the vCPUs.
VIRTRAIN_ENUM_CLASS(EmulatorThreads, apart, on_vcpus)

/// Which threads of the host's cores vCPUs have: any, in the kernel's order; both of a core before the next
/// core; or one of each core, whose other stays idle.
VIRTRAIN_ENUM_CLASS(Smt, any, siblings, apart)

/// The network device of a node. Slices have the MTU of it; the rest is of VMs' virtio NICs.
struct GuestNetwork {
  bool operator==(const GuestNetwork&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<bool>, vhost, {},
                 .text = "Who carries packets: the host's kernel (on), or QEMU (off)", .key = "vhost",
                 .absent = "libvirt chooses");
  VIRTRAIN_FIELD(std::int64_t, queues, 1,
                 .text = "Pairs of queues of the NIC; more pairs than vCPUs do not help", .key = "queues",
                 .least = 1, .most = 256);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, mtu, {},
                 .text = "Bytes of the largest packet in the tenant's network, of VMs and slices alike",
                 .key = "mtu", .least = 1280, .most = 65'000,
                 .absent = "1500, the kernel's own; between hosts what their network carries",
                 .example = "9000");
};

/// Bytes a second that a limit may say; tc takes no more as a 64-bit rate in bits.
inline constexpr std::int64_t least_rate = 1LL << 10, most_rate = 1LL << 40;

/// Upper bounds for one node, VM and slice alike; absent: unbounded.
struct NodeLimits {
  bool operator==(const NodeLimits&) const = default;
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<double>, cpu_cores, {},
                 .text = "CPU time of a node, QEMU's own threads included: a share of its vCPUs, or cores",
                 .key = "cpu", .unit = ValueUnit::cores, .absent = "no limit", .example = "50%");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, disk_read, {},
                 .text = "Bytes a second that a node reads from its disks", .key = "disk_read",
                 .least = least_rate, .most = most_rate, .unit = ValueUnit::bytes_per_second,
                 .absent = "no limit", .example = "100MiB/s");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, disk_write, {},
                 .text = "Bytes a second that a node writes to its disks", .key = "disk_write",
                 .least = least_rate, .most = most_rate, .unit = ValueUnit::bytes_per_second,
                 .absent = "no limit", .example = "100MiB/s");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, disk_read_iops, {},
                 .text = "Reads a second from a node's disks", .key = "disk_read_iops", .least = 1,
                 .most = 1'000'000'000, .absent = "no limit", .example = "500");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, disk_write_iops, {},
                 .text = "Writes a second to a node's disks", .key = "disk_write_iops", .least = 1,
                 .most = 1'000'000'000, .absent = "no limit", .example = "500");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, network_in, {}, .text = "Bytes a second that a node receives",
                 .key = "network_in", .least = least_rate, .most = most_rate,
                 .unit = ValueUnit::bytes_per_second, .absent = "no limit", .example = "100MiB/s");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, network_out, {}, .text = "Bytes a second that a node sends",
                 .key = "network_out", .least = least_rate, .most = most_rate,
                 .unit = ValueUnit::bytes_per_second, .absent = "no limit", .example = "100MiB/s");
  VIRTRAIN_FIELD(std::optional<double>, llc, {},
                 .text = "Share of each last-level cache that a node may fill, by resctrl", .key = "llc",
                 .least = 0, .most = 1, .unit = ValueUnit::share, .absent = "no limit", .example = "50%");
  VIRTRAIN_FIELD(std::optional<double>, memory_bandwidth, {},
                 .text = "Share of each socket's memory bandwidth, by resctrl", .key = "memory_bandwidth",
                 .least = 0, .most = 1, .unit = ValueUnit::share, .absent = "no limit", .example = "50%");

  bool of_resctrl() const { return llc || memory_bandwidth; }
  bool of_disk() const { return disk_read || disk_write || disk_read_iops || disk_write_iops; }
  bool of_network() const { return network_in || network_out; }
};

inline constexpr const char* mirror_image = "mirror";
inline constexpr const char* host_cpu_model = "host";

/// "mirror", or an absolute path.
bool is_image(const std::string& text);
/// Whether it is the name of a Debian package.
bool is_package_name(const std::string& text);
/// "host", or a name such as libvirt's models have.
bool is_cpu_model(const std::string& text);
/// "on", "off", or an absolute path.
bool is_nccl_topology(const std::string& text);

/// The size and properties of a guest, and of the bare-metal slice of the same size.
struct GuestSpec {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(
      std::string, image, mirror_image,
      .text =
          "mirror (this host's own packages), or the absolute path of a qcow2 or raw image with cloud-init",
      .key = "image", .most = 4096, .pattern = "^(mirror|/.+)$", .fits = is_image,
      .refusal =
          "is neither mirror nor the absolute path of a qcow2 or raw image with cloud-init (allowed: mirror, "
          "/path/to/image.qcow2)",
      .example = "/var/lib/images/debian-12.qcow2");
  VIRTRAIN_FIELD(
      std::vector<std::string>, packages, {},
      .text =
          "Packages of this host that VMs have in addition to those that virtrain needs, for a command "
          "of the user's own",
      .key = "packages", .pattern = "^[a-z0-9][a-z0-9+.-]{1,63}$", .fits = is_package_name,
      .refusal = "the name of a Debian package such as python3", .absent = "none",
      .example = R"(["python3"])");
  VIRTRAIN_FIELD(std::int64_t, vcpus, 1, .text = "Cores of each node", .key = "vcpus", .least = 1,
                 .most = 1024, .required = true, .example = "32");
  VIRTRAIN_FIELD(std::uint64_t, memory_bytes, 0, .text = "Memory of each node, in KiB, MiB, GiB or TiB",
                 .key = "memory", .least = 128LL << 20, .most = 64LL << 40, .unit = ValueUnit::bytes,
                 .required = true, .example = "64GiB");
  VIRTRAIN_FIELD(Pinning, pinning, Pinning::cores,
                 .text =
                     "cores: each vCPU has a core; numa: the same, and all cores of a node are of one NUMA "
                     "node; none: the kernel chooses",
                 .key = "pinning");
  VIRTRAIN_FIELD(Smt, smt, Smt::any,
                 .text =
                     "Threads of the host's cores that vCPUs have: any; siblings: both of a core before the "
                     "next core; apart: one of each core, whose other stays idle",
                 .key = "smt");
  VIRTRAIN_FIELD(
      std::string, cpu_model, host_cpu_model,
      .text = "CPU that VMs see: host, or a model of libvirt's (virsh cpu-models x86_64)", .key = "cpu_model",
      .most = 64, .pattern = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$", .fits = is_cpu_model,
      .refusal = "is not allowed (allowed: host, or the name of a CPU model such as Skylake-Server-IBRS)",
      .example = "Skylake-Server-IBRS");
  VIRTRAIN_FIELD(bool, hugepages, false, .text = "Memory from the host's huge pages", .key = "hugepages");
  VIRTRAIN_FIELD(
      PciTopology, topology, PciTopology::host,
      .text = "How a VM's devices hang together: as on the host, by NUMA node, or all below one root complex",
      .key = "topology");
  VIRTRAIN_FIELD(MemoryEncryption, memory_encryption, MemoryEncryption::none,
                 .text =
                     "Confidential VMs of AMD (sev-snp) or Intel (tdx); bounce: VMs copy what devices read "
                     "and write, as confidential VMs do, without encryption",
                 .key = "memory_encryption", .dashes = true);
  VIRTRAIN_FIELD(GuestNetwork, network, {}, .text = "The network device of each node", .key = "network",
                 .absent = "one pair of queues, and libvirt chooses vhost");
  VIRTRAIN_FIELD(std::string, nccl_topology, "on",
                 .text =
                     "NCCL_TOPO_FILE in VMs with GPUs: on (made from the host's switches and links), off, or "
                     "the absolute path of a file",
                 .key = "nccl_topology", .most = 4096, .pattern = "^(on|off|/.+)$", .fits = is_nccl_topology,
                 .refusal = "is not allowed (allowed: on, off, or the absolute path of a topology file)",
                 .example = "off");
  VIRTRAIN_FIELD(
      EmulatorThreads, emulator_threads, EmulatorThreads::apart,
      .text = "QEMU's helper threads: apart (on cores that no node has, if there are any), or on_vcpus",
      .key = "emulator_threads");
  VIRTRAIN_FIELD(
      std::string, domain_template, {},
      .text =
          "Domain XML of your own that VMs are made from; virtrain adds disks, network, channel and "
          "devices, and refuses elements that name parts of the host",
      .name = "template", .key = "template", .most = 4096, .fits = is_domain_template,
      .absent = "virtrain writes all of it", .example = "domain.xml");
  NodeLimits limits = {};  ///< of each node whose tenant has none of its own

  bool operator==(const GuestSpec&) const = default;
  bool is_mirror() const { return image == mirror_image; }
};
BOOST_DESCRIBE_STRUCT(GuestSpec, (),
                      (image, packages, vcpus, memory_bytes, pinning, smt, cpu_model, hugepages, topology,
                       memory_encryption, network, nccl_topology, emulator_threads, domain_template, limits))

/// One node to be made: the same for the VM and for its bare-metal counterpart.
struct NodeSpec {
  std::string hostname;  ///< "t1n2": tenant 1, node 2
  std::string address;   ///< in the tenant's network, "10.77.0.2/16"
  std::string mac;
  std::vector<int> cores;            ///< one host core for each vCPU
  std::vector<int> core_numa_nodes;  ///< of each of `cores`
  std::vector<int> emulator_cores;   ///< for QEMU's helper threads; empty: none to spare, they share `cores`
  std::optional<int> numa_node;      ///< where all cores are of one node
  std::uint64_t memory_bytes = 0;
  std::vector<PlacedDevice> devices;  ///< GPUs, then NICs; mediated devices without their UUIDs
  Clique clique = Clique::off;
  NodeLimits limits = {};
  std::uint64_t scratch_bytes = 0;   ///< size of a VM's disk that loads may overwrite; 0: it has none
  std::string planted_channel = {};  ///< name of a port beside the agent's that leads nowhere; empty: none
  std::string host = {};             ///< that makes it, RunSpec::host; empty: the only one
  /// SHA-256 of the payload that its job runs in, which the run has taken; empty: none.
  std::string payload = {};
  /// The virtual function that is its eth0, and gets `mac`, where hosts have a network of kind vf.
  std::optional<PlacedDevice> network_function = {};
};
BOOST_DESCRIBE_STRUCT(NodeSpec, (),
                      (hostname, address, mac, cores, core_numa_nodes, emulator_cores, numa_node,
                       memory_bytes, devices, clique, limits, scratch_bytes, planted_channel, host, payload,
                       network_function))

/// All devices of the node: last the virtual function that is its network, with its MAC address.
std::vector<PlacedDevice> devices_of(const NodeSpec& node);

/// Name of the guest agent's virtio-serial port.
inline constexpr const char* agent_channel = "org.virtrain.agent.0";

/// Name of the port that is planted beside it.
inline std::string planted_channel_of(const NodeSpec& node) {
  return "org.virtrain.planted." + node.hostname;
}

/// Largest disk for loads: the default of virtrain-stress for a file, so that loads in VMs and on bare metal
/// cover the same.
inline constexpr std::uint64_t most_scratch_bytes = 1ULL << 30;
/// Serial number of that disk, by which a guest tells it from others.
inline constexpr const char* scratch_serial = "virtrain-scratch";

/// A cgroup's period, and what it may use of each for a limit in cores; the kernel takes no less than 1 ms.
inline constexpr std::int64_t cpu_period_us = 100'000;
std::int64_t cpu_quota_us(double cores);
/// "cpu 0.5 cores, disk_write 10MiB/s"; empty: none.
std::string limits_text(const NodeLimits& limits);

/// Shell command that shuts a guest down in order: its services, or where it has none (mirror guests) its
/// kernel, which shuts its devices down.
inline constexpr const char* power_off_command =
    "systemctl poweroff 2>/dev/null || { sync; echo o > /proc/sysrq-trigger; }";

/// Settings that the guest's init reads from its kernel command line.
struct GuestBoot {
  struct Host {
    std::string name;
    std::string address;  ///< without prefix length
  };
  std::string hostname;
  std::string address;                   ///< of eth0, "10.77.0.11/24"; empty: no network
  std::vector<Host> hosts;               ///< for /etc/hosts, itself included
  bool has_payload = false;              ///< it mounts the disk with payload_serial
  std::string mac = {};                  ///< of a virtual function that is to be eth0; empty: eth0 is there
  std::optional<std::int64_t> mtu = {};  ///< that it sets; absent: the NIC says it
};

/// Name, address and neighbours that a node boots with.
GuestBoot guest_boot(const std::vector<NodeSpec>& tenants_nodes, const NodeSpec& node, bool networked);

/// "root=/dev/vda console=ttyS0 panic=-1 quiet vt.host=... vt.ip=... vt.hosts=...". Throws Error(bad_input)
/// on blanks or where it passes the kernel's limit of 2,047 bytes.
std::string guest_command_line(const GuestBoot& boot);

/// A NUMA node of the guest that stands for one of the host.
struct NumaCell {
  int host_node = 0;
  std::vector<int> vcpus;
  std::uint64_t memory_bytes = 0;
};

/// A guest with devices has a NUMA cell for each host node of its cores, so that the devices can be on one.
std::vector<NumaCell> numa_cells(const NodeSpec& node);
/// How much of a VM's memory has to come from which NUMA node of the host; none: it may come from any.
std::map<int, std::uint64_t> memory_by_host_node(const GuestSpec& guest, const NodeSpec& node);

/// How long VFIO may take to pin a guest's memory for its devices while QEMU starts, page by page of 4 KiB;
/// it is next to nothing in hugepages.
std::chrono::seconds pinning_time(std::uint64_t memory_bytes, const std::vector<PlacedDevice>& devices,
                                  bool hugepages);

/// Grants of the node, in the order of devices_of(). The UUID of a mediated device follows from the
/// experiment, the node, the parent and the type: it is the same in every trial, so that trials can share the
/// device.
std::vector<DeviceGrant> grants_of(const NodeSpec& node, const std::string& experiment);

/// As what nodes are made.
enum class NodeKind {
  vm,
  slice,         ///< on bare metal, in namespaces of its own
  shared_slice,  ///< without namespaces: one for all of a tenant's nodes on a host
};
VIRTRAIN_DESCRIBE_ENUM(NodeKind, vm, slice, shared_slice)

/// Nodes that are made and removed together, with the networks of their tenants. Each host is told all of
/// them, and makes its own.
struct NodeGroupSpec {
  NodeKind kind = NodeKind::vm;
  GuestSpec guest;
  std::vector<std::vector<NodeSpec>> tenants;
  /// planned_xml() shows this host's; nodes that are made have that of their run, RunSpec::network.
  HostNetwork network = {};
};
BOOST_DESCRIBE_STRUCT(NodeGroupSpec, (), (kind, guest, tenants, network))

using NodeId = std::int64_t;       ///< counted over the run
using NodeGroupId = std::int64_t;  ///< likewise

/// A node as its host will make it, or has made it.
struct NodeFacts {
  NodeId id = 0;
  std::size_t tenant = 0;
  std::size_t placed = 0;  ///< of the tenant's nodes, the (first) one that it stands for
  std::string name;        ///< domain "virtrain-<experiment>-<n>" or slice "vt-<tag>-<n>"
  std::string kind;        ///< "vm" or "slice", as the database has it
  std::string starting;    ///< what is tried when it starts: "boot virtrain-…"
  std::string uuid;        ///< of a domain; else empty
  std::vector<int> cores;  ///< of all the nodes it stands for: one, or in a shared slice its tenant's there
  std::uint64_t memory_bytes = 0;
  std::optional<int> numa_node;
  std::string counted_cores;  ///< whose use its agent is to tell, "0-3"; empty: of all that it sees
  std::filesystem::path log;  ///< its console, or what its agent printed
  std::string cache_home;     ///< a folder of this node and no other for what ranks keep; in VMs not made
  /// Folder of mode 0700 that lives as long as the node: its TMPDIR, and where mpirun keeps what it shares.
  std::string temporary_folder;
  /// "shared_medium" where anybody on the host can join the tenant's network. Between hosts "bridge",
  /// "vxlan", "vf" or, of a shared slice, "host_nic". Else empty.
  std::string network_medium;
  std::string interface;  ///< of the node in that network, as the node names it: "eth0"; empty: it has none
  std::string address;    ///< by which the tenant's other nodes reach it there, "10.77.0.1"
  std::map<std::string, std::string> programs;  ///< by name, where it has them
  std::string load_file;  ///< that a load on the disk of a slice makes; of VMs empty, see scratch_serial
  /// Whether it is a guest: with a kernel, and devices, of its own. Else it sees those of the whole host.
  bool has_own_kernel = false;
  /// Folder at which it has its job's payload; empty: it has none.
  std::string payload_folder = {};
};
BOOST_DESCRIBE_STRUCT(NodeFacts, (),
                      (id, tenant, placed, name, kind, starting, uuid, cores, memory_bytes, numa_node,
                       counted_cores, log, cache_home, temporary_folder, network_medium, interface, address,
                       programs, load_file, has_own_kernel, payload_folder))

struct NodeGroup {
  NodeGroupId id = 0;
  std::vector<NodeFacts> nodes;
};
BOOST_DESCRIBE_STRUCT(NodeGroup, (), (id, nodes))

/// A node that has been started.
struct NodeStream {
  UniqueFd agent;  ///< byte stream to its agent
  std::int64_t started_ns = 0;
  std::string domain_xml;  ///< what libvirt was given; empty: no domain
};
BOOST_DESCRIBE_STRUCT(NodeStream, (), (agent, started_ns, domain_xml))

/// Counters that a host process tells its coordinator once a second, unasked.
struct HostCounters {
  static constexpr const char* type = "counters";
  /// How long the threads of each node that has started have been ready to run while others had the cores.
  std::map<NodeId, std::chrono::nanoseconds> waiting;
};
BOOST_DESCRIBE_STRUCT(HostCounters, (), (waiting))

/// The ends of a node's logs, printable, to be put into error messages; empty: nothing is there.
struct LastWords {
  std::string console;     ///< of its console, or of what its agent printed
  std::string hypervisor;  ///< of its hypervisor's log, with a line that says so
};
BOOST_DESCRIBE_STRUCT(LastWords, (), (console, hypervisor))

struct VcpuStats {
  std::uint64_t time_ns = 0;             ///< host CPU time the vCPU's thread used
  std::optional<std::uint64_t> wait_ns;  ///< runnable but not running: the host's view of steal
};
BOOST_DESCRIBE_STRUCT(VcpuStats, (), (time_ns, wait_ns))

struct NicStats {
  std::string tap;
  std::uint64_t rx_bytes = 0;  ///< host's view of the tap as libvirt reports it: what the guest received
  std::uint64_t tx_bytes = 0;
};
BOOST_DESCRIBE_STRUCT(NicStats, (), (tap, rx_bytes, tx_bytes))

/// One look at a running VM from the host; counters since its start.
struct DomainStats {
  std::int64_t monotonic_ns = 0;    ///< when it was taken
  std::uint64_t cpu_time_ns = 0;    ///< whole QEMU process
  std::uint64_t helper_cpu_ns = 0;  ///< QEMU process minus its vCPU threads
  std::vector<VcpuStats> vcpus;
  std::uint64_t rss_bytes = 0;  ///< of the QEMU process
  std::vector<NicStats> nics;
};
BOOST_DESCRIBE_STRUCT(DomainStats, (), (monotonic_ns, cpu_time_ns, helper_cpu_ns, vcpus, rss_bytes, nics))

/// Counters of one node as the host sees them.
struct NodeCounters {
  std::uint64_t network_rx_bytes = 0;  ///< what the node received
  std::uint64_t network_tx_bytes = 0;
  std::optional<DomainStats> domain;
};
BOOST_DESCRIBE_STRUCT(NodeCounters, (), (network_rx_bytes, network_tx_bytes, domain))

/// Parts of a group of nodes that could not be removed.
struct Removal {
  std::vector<std::string> left;      ///< a sentence each; it is in the journal, for `clean`
  std::vector<std::string> restarts;  ///< why libvirt had to be started again, a sentence each
};
BOOST_DESCRIBE_STRUCT(Removal, (), (left, restarts))

/// Where a guest does not see what was planned.
struct TopologyDifference {
  std::string words;
  std::string xml;  ///< what of the domain's XML would mend it; empty: none would
};
BOOST_DESCRIBE_STRUCT(TopologyDifference, (), (words, xml))

struct GuestTopology {
  std::vector<TopologyDifference> differences;
  std::vector<std::string> peer_differences = {};  ///< of `differences`, those of pairs of GPUs
  std::vector<std::string> missing;                ///< host addresses of devices that the guest does not show
  std::vector<int> gpu_numa_nodes = {};            ///< of its GPUs, as the guest shows them; -1: none
  /// For NCCL_TOPO_FILE in the guest: the host's switches and links under the guest's addresses. Empty
  /// without GPUs.
  std::string nccl_topology;
};
BOOST_DESCRIBE_STRUCT(GuestTopology, (),
                      (differences, peer_differences, missing, gpu_numa_nodes, nccl_topology))

}  // namespace virtrain::vmctl
