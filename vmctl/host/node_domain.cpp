#include "vmctl/host/node_domain.h"

#include <fmt/format.h>

#include "vmctl/guest/mirror/guest_image.h"

namespace virtrain::vmctl {

std::string HostNames::domain(NodeId number) const {
  return fmt::format("virtrain-{}-{}", experiment, number);
}

std::string HostNames::network(std::size_t tenant) const {
  return fmt::format("virtrain-{}-t{}", experiment, tenant);
}

std::string HostNames::bridge(std::size_t tenant) const {
  return fmt::format("vtb{}{}", tag, tenant);
}

std::string HostNames::tap(NodeId number) const {
  return fmt::format("vtt{}{}", tag, number);
}

std::string HostNames::slice(NodeId number) const {
  return fmt::format("vt-{}-{}", tag, number);
}

std::string HostNames::slice_nic(NodeId number) const {
  return fmt::format("vtv{}{}", tag, number);
}

std::string HostNames::slice_bridge(std::size_t tenant) const {
  return fmt::format("vtb{}s{}", tag, tenant);
}

std::string HostNames::vxlan(std::size_t tenant) const {
  return fmt::format("vtx{}{}", tag, tenant);
}

std::string HostNames::slice_vxlan(std::size_t tenant) const {
  return fmt::format("vtx{}s{}", tag, tenant);
}

namespace {

/// The devices as their guest is to see them. A tree that hides where they sit has a port for each.
void arrange(std::vector<PlacedDevice>& devices, PciTopology topology) {
  if (topology == PciTopology::host) { return; }
  for (auto& device : devices) {
    if (topology == PciTopology::flat) { device.numa_node = -1; }
    device.root_complex = fmt::format("of NUMA node {}", device.numa_node);
    device.bridges = {device.grant.address};
  }
}

constexpr const char* bounce_words = " swiotlb=force";
/// An emulated guest that others do not let run sees no tick for so long that its kernel takes the timer for
/// broken and panics. Under KVM it does not look (arch/x86/kernel/kvm.c).
constexpr const char* emulated_words = " no_timer_check";

}  // namespace

DomainSpec domain_spec(const NodeGroupSpec& group, std::size_t tenant, std::size_t index,
                       const HostNames& names, const VmFacts& facts) {
  const auto& guest = group.guest;
  const auto& node = group.tenants[tenant][index];
  DomainSpec spec;
  spec.name = names.domain(facts.number);
  spec.uuid = facts.uuid;
  spec.mark = {names.experiment, node.hostname};
  spec.vcpus = static_cast<int>(guest.vcpus);
  spec.memory_bytes = node.memory_bytes;
  if (guest.pinning != Pinning::none) {
    spec.vcpu_cores = node.cores;
    const bool apart = guest.emulator_threads == EmulatorThreads::apart && !node.emulator_cores.empty();
    spec.emulator_cores = apart ? node.emulator_cores : node.cores;
  }
  if (guest.pinning == Pinning::numa) { spec.numa_node = node.numa_node; }
  spec.hugepages = guest.hugepages;
  spec.cpu_model = guest.cpu_model;
  spec.threads_per_core = guest.smt == Smt::siblings ? 2 : 1;  // x86 has no more
  spec.memory_encryption = guest.memory_encryption;
  spec.virtualization = facts.virtualization;
  spec.kernel = facts.kernel;
  spec.initrd = facts.initrd;
  spec.root_image = facts.root_image;
  spec.boot_disk = facts.boot_disk;
  spec.scratch = facts.scratch;
  spec.payload = facts.payload;
  spec.planted_channel = node.planted_channel;
  spec.domain_template = guest.domain_template;
  if (!spec.boot_disk) {
    auto boot = guest_boot(group.tenants[tenant], node, facts.nic.has_value());
    if (facts.nic == NicKind::function) { boot.mtu = guest.network.mtu; }
    spec.kernel_command_line = guest_command_line(boot);
    if (!uses_kvm(facts.virtualization)) { spec.kernel_command_line += emulated_words; }
    if (guest.memory_encryption == MemoryEncryption::bounce) { spec.kernel_command_line += bounce_words; }
  }
  spec.in_session = facts.in_session;
  if (facts.nic && *facts.nic != NicKind::function) {
    const auto source = *facts.nic == NicKind::network  ? names.network(tenant)
                        : *facts.nic == NicKind::bridge ? group.network.name
                                                        : "";
    spec.nics.push_back(
        {*facts.nic, source, node.mac, names.tap(facts.number), facts.multicast_port, guest.network});
  }
  spec.console_log = facts.console_log;
  if (guest.pinning != Pinning::none) { spec.numa_cells = numa_cells(node); }
  spec.memory_by_cell = guest.pinning == Pinning::numa && spec.numa_cells.size() > 1;
  if (uses_kvm(facts.virtualization)) { spec.cpu_traits = facts.cpu_traits; }
  spec.clique = node.clique;
  spec.limits = node.limits;
  spec.devices = devices_of(node);
  const auto grants = grants_of(node, names.experiment);
  for (std::size_t i = 0; i < grants.size(); ++i) { spec.devices[i].grant = grants[i]; }
  arrange(spec.devices, guest.topology);
  return spec;
}

std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                        bool emulated, const CpuTraits& cpu_traits) {
  const HostNames names{"EXPERIMENT", "TAG"};
  const std::string images = "/var/cache/virtrain/images/", image = images + "IMAGE/";
  const std::string files = "/var/lib/virtrain/logs/EXPERIMENT/" + names.domain(number);
  VmFacts facts;
  facts.number = number;
  facts.kernel = image + "kernel";
  facts.initrd = image + "initrd";
  facts.root_image = image + "root";
  facts.console_log = files + ".console";
  if (!group.guest.is_mirror()) {
    facts.boot_disk = BootDisk{files + ".qcow2", group.guest.image, "FORMAT", files + "-seed.iso"};
  }
  if (group.network.kind == HostNetworkKind::bridge) { facts.nic = NicKind::bridge; }
  if (group.network.kind == HostNetworkKind::vf) { facts.nic = NicKind::function; }
  if (group.tenants[tenant][node].scratch_bytes > 0) { facts.scratch = ScratchDisk{files + ".disk"}; }
  if (const auto& payload = group.tenants[tenant][node].payload; !payload.empty()) {
    facts.payload = images + payload.substr(0, length_of_image_hash) + "/disk";
  }
  facts.virtualization = emulated ? Virtualization::tcg : Virtualization::kvm;
  facts.cpu_traits = cpu_traits;
  return domain_xml(domain_spec(group, tenant, node, names, facts));
}

}  // namespace virtrain::vmctl
