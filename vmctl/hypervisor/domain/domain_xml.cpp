#include "vmctl/hypervisor/domain/domain_xml.h"

#include <fmt/format.h>
#include <pugixml.hpp>

#include <initializer_list>
#include <string_view>

#include "common/error.h"
#include "common/text/cpu_list.h"
#include "vmctl/api/domain_template.h"
#include "vmctl/api/payload.h"
#include "vmctl/hypervisor/domain/device_xml.h"

namespace virtrain::vmctl {
namespace {

constexpr const char* mark_namespace = "https://virtrain.dev/1";
constexpr const char* root_serial = "virtrain-root";        // cloud/start.sh looks for it
constexpr std::size_t device_name_limit = 15;               // IFNAMSIZ - 1
constexpr const char* multicast_group = "239.255.118.116";  // of the range that no router forwards
constexpr int multicast_mtu = 60000;                        // a frame of it fits into a UDP datagram

template <typename... Args>
[[noreturn]] void refuse(const std::string& what, fmt::format_string<Args...> why, Args&&... args) {
  throw Error("describe " + what, ErrorCode::bad_input, fmt::format(why, std::forward<Args>(args)...));
}

void add_mark(pugi::xml_node parent, const LeaseMark& mark) {
  add(add(parent, "metadata"), "virtrain:lease",
      {{"xmlns:virtrain", mark_namespace}, {"experiment", mark.experiment}, {"node", mark.node}});
}

void check_cells(const DomainSpec& spec) {
  const std::string what = "domain " + spec.name;
  std::uint64_t memory = 0;
  std::size_t vcpus = 0;
  for (const auto& cell : spec.numa_cells) {
    if (cell.vcpus.empty()) { refuse(what, "NUMA cell of host node {} has no vCPU", cell.host_node); }
    memory += cell.memory_bytes;
    vcpus += cell.vcpus.size();
  }
  if (!spec.numa_cells.empty() &&
      (memory != spec.memory_bytes || vcpus != static_cast<std::size_t>(spec.vcpus))) {
    refuse(what, "its NUMA cells do not add up to its vCPUs and memory");
  }
  if (spec.memory_by_cell && spec.numa_cells.empty()) { refuse(what, "memory by cell, but no NUMA cells"); }
}

void check(const DomainSpec& spec) {
  const std::string what = "domain " + spec.name;
  if (spec.name.empty()) { refuse(what, "it has no name"); }
  if (spec.vcpus < 1) { refuse(what, "{} vCPUs (at least 1)", spec.vcpus); }
  if (spec.memory_bytes < (96U << 20)) {
    refuse(what, "{} bytes of memory (a mirror guest boots with 96 MiB or more)", spec.memory_bytes);
  }
  if (!spec.vcpu_cores.empty() && spec.vcpu_cores.size() != static_cast<std::size_t>(spec.vcpus)) {
    refuse(what, "{} cores to pin {} vCPUs (one for each, or none)", spec.vcpu_cores.size(), spec.vcpus);
  }
  if (spec.virtualization == Virtualization::none) {
    refuse(what, "virtualization none is not a virtual machine");
  }
  if (is_confidential(spec.memory_encryption) && !uses_kvm(spec.virtualization)) {
    refuse(what, "memory is encrypted under KVM only");
  }
  check_cells(spec);
  for (const auto& device : spec.devices) {
    if (device.grant.kind == GrantKind::mdev && device.grant.uuid.empty()) {
      refuse(what, "a mediated device of {} has no UUID", device.grant.address);
    }
  }
  for (const auto& nic : spec.nics) {
    const bool has_source = nic.kind == NicKind::network || nic.kind == NicKind::bridge;
    if (has_source && nic.source.empty()) {
      refuse(what, "a NIC needs the name of a {}", nic.kind == NicKind::bridge ? "bridge" : "network");
    }
    if (nic.kind == NicKind::tap && nic.tap.empty()) { refuse(what, "a NIC needs the name of its tap"); }
    if (nic.kind == NicKind::multicast && (nic.port < 1024 || nic.port > 65535)) {
      refuse(what, "port {} of a NIC's multicast group (allowed: 1024 to 65535)", nic.port);
    }
    if (nic.tap.size() > device_name_limit) {
      refuse(what, "tap name '{}' is longer than {} characters", nic.tap, device_name_limit);
    }
  }
}

void add_cpu_placement(pugi::xml_node domain, const DomainSpec& spec) {
  with(add(domain, "vcpu", std::to_string(spec.vcpus)), "placement", "static");
  if (spec.vcpu_cores.empty() && spec.emulator_cores.empty() && !spec.limits.cpu_cores) { return; }
  auto cputune = add(domain, "cputune");
  for (std::size_t i = 0; i < spec.vcpu_cores.size(); ++i) {
    add(cputune, "vcpupin", {{"vcpu", std::to_string(i)}, {"cpuset", std::to_string(spec.vcpu_cores[i])}});
  }
  if (!spec.emulator_cores.empty()) {
    add(cputune, "emulatorpin", {{"cpuset", format_cpu_list(spec.emulator_cores)}});
  }
  if (spec.limits.cpu_cores) {
    // The quota bounds the whole VM and not each vCPU, as a slice's cgroup bounds all that runs in it.
    add(cputune, "global_period", std::to_string(cpu_period_us));
    add(cputune, "global_quota", std::to_string(cpu_quota_us(*spec.limits.cpu_cores)));
  }
}

void add_memory(pugi::xml_node domain, const DomainSpec& spec) {
  with(add(domain, "memory", std::to_string(spec.memory_bytes >> 10)), "unit", "KiB");
  auto backing = add(domain, "memoryBacking");
  if (spec.hugepages) { add(backing, "hugepages"); }
  add(backing, "nosharepages");
}

/// Memory comes strictly from the host nodes of the guest's cells, or else from the one node.
void add_memory_nodes(pugi::xml_node domain, const DomainSpec& spec) {
  if (!spec.numa_node && !spec.memory_by_cell) { return; }
  auto numatune = add(domain, "numatune");
  auto memory = add(numatune, "memory", {{"mode", "strict"}});
  if (!spec.memory_by_cell) {
    with(memory, "nodeset", std::to_string(*spec.numa_node));
    return;
  }
  with(memory, "nodeset", format_cpu_list(host_nodes(spec)));
  for (std::size_t i = 0; i < spec.numa_cells.size(); ++i) {
    add(numatune, "memnode",
        {{"cellid", std::to_string(i)},
         {"mode", "strict"},
         {"nodeset", std::to_string(spec.numa_cells[i].host_node)}});
  }
}

void add_boot(pugi::xml_node domain, const DomainSpec& spec) {
  auto os = add(domain, "os");
  if (is_confidential(spec.memory_encryption)) {
    // libvirt chooses a firmware that measures itself and keeps no variables; QEMU's own cannot boot such a
    // guest.
    with(os, "firmware", "efi");
    add(os, "loader", {{"stateless", "yes"}});
  }
  with(with(add(os, "type", "hvm"), "arch", "x86_64"), "machine", "q35");
  if (spec.boot_disk) {
    add(os, "boot", {{"dev", "hd"}});
    return;
  }
  add(os, "kernel", spec.kernel);
  add(os, "initrd", spec.initrd);
  if (!spec.kernel_command_line.empty()) { add(os, "cmdline", spec.kernel_command_line); }
}

/// As in libvirt's examples of confidential guests. AMD's policy: SMT is allowed, bit 17 is always set.
/// Intel's: no exceptions for pages that the guest has not accepted, without which Linux does not boot.
void add_launch_security(pugi::xml_node domain, MemoryEncryption encryption) {
  if (!is_confidential(encryption)) { return; }
  const bool is_amd = encryption == MemoryEncryption::sev_snp;
  auto security = add(domain, "launchSecurity", {{"type", is_amd ? "sev-snp" : "tdx"}});
  add(security, "policy", is_amd ? "0x00030000" : "0x10000000");
}

/// A socket for each NUMA cell where they are equal, for a kernel distrusts sockets that span cells.
std::size_t sockets(const DomainSpec& spec) {
  for (const auto& cell : spec.numa_cells) {
    if (cell.vcpus.size() != spec.numa_cells[0].vcpus.size()) { return 1; }
  }
  return std::max<std::size_t>(1, spec.numa_cells.size());
}

void add_cpu_model(pugi::xml_node domain, const DomainSpec& spec) {
  const bool by_kvm = uses_kvm(spec.virtualization);
  const bool as_host = spec.cpu_model == host_cpu_model;
  auto cpu = add(domain, "cpu", {{"mode", !as_host ? "custom" : by_kvm ? "host-passthrough" : "maximum"}});
  if (!as_host) {
    with(with(cpu, "match", "exact"), "check", by_kvm ? "partial" : "none");  // TCG lacks some of every model
    with(add(cpu, "model", spec.cpu_model), "fallback", "forbid");
  } else if (by_kvm) {
    with(with(cpu, "check", "none"), "migratable", "off");
  }
  const auto vcpus_of_socket = static_cast<std::size_t>(spec.vcpus) / sockets(spec);
  const auto threads = static_cast<std::size_t>(spec.threads_per_core);
  const std::size_t seen_threads = vcpus_of_socket % threads == 0 ? threads : 1;
  add(cpu, "topology",
      {{"sockets", std::to_string(sockets(spec))},
       {"cores", std::to_string(vcpus_of_socket / seen_threads)},
       {"threads", std::to_string(seen_threads)}});
  // Else QEMU makes sizes up, by which libraries choose their blocks. libvirt allows it for the host's model.
  if (by_kvm && as_host) { add(cpu, "cache", {{"mode", "passthrough"}}); }
  if (by_kvm && as_host && !spec.devices.empty()) {
    // Firmware maps memory regions of 64 GiB and more only below the guest's highest address; QEMU's default
    // of 40 bits is too low for a few of them.
    add(cpu, "maxphysaddr", {{"mode", "passthrough"}});
  }
  if (spec.cpu_traits.hide_arch_capabilities) {
    add(cpu, "feature", {{"policy", "disable"}, {"name", "arch-capabilities"}});
  }
  if (spec.cpu_traits.threads_need_topoext && by_kvm && as_host && seen_threads > 1) {
    add(cpu, "feature", {{"policy", "require"}, {"name", "topoext"}});
  }
  if (spec.numa_cells.empty()) { return; }
  auto numa = add(cpu, "numa");
  for (std::size_t i = 0; i < spec.numa_cells.size(); ++i) {
    const auto& cell = spec.numa_cells[i];
    add(numa, "cell",
        {{"id", std::to_string(i)},
         {"cpus", format_cpu_list(cell.vcpus)},
         {"memory", std::to_string(cell.memory_bytes >> 10)},
         {"unit", "KiB"}});
  }
}

/// Behind the platform's IOMMU a driver asks its kernel for addresses, which may be those of bounce buffers.
void use_platform_iommu(pugi::xml_node driver) {
  with(with(driver, "iommu", "on"), "ats", "on");
}

/// Devices that have nothing else to say of their driver.
void add_bounced_driver(pugi::xml_node device, const DomainSpec& spec) {
  if (spec.memory_encryption != MemoryEncryption::none) { use_platform_iommu(add(device, "driver")); }
}

/// Without this libvirt would give a shared image to its own user and never back.
void leave_owner_alone(pugi::xml_node source, const DomainSpec& spec) {
  if (!spec.in_session) { add(source, "seclabel", {{"model", "dac"}, {"relabel", "no"}}); }
}

/// One group for all disks of the VM: what the node may have, they have together.
void add_disk_limits(pugi::xml_node disk, const NodeLimits& limits) {
  if (!limits.of_disk()) { return; }
  auto iotune = add(disk, "iotune");
  const auto put = [&](const char* name, const std::optional<std::uint64_t>& limit) {
    if (limit) { add(iotune, name, std::to_string(*limit)); }
  };
  put("read_bytes_sec", limits.disk_read);
  put("write_bytes_sec", limits.disk_write);
  put("read_iops_sec", limits.disk_read_iops);
  put("write_iops_sec", limits.disk_write_iops);
  add(iotune, "group_name", "node");
}

pugi::xml_node add_disk(pugi::xml_node devices, const std::string& file, const char* format,
                        const char* target, const DomainSpec& spec, bool is_shared,
                        const char* cache = "unsafe") {
  auto disk = add(devices, "disk", {{"type", "file"}, {"device", "disk"}});
  auto driver = add(disk, "driver", {{"name", "qemu"}, {"type", format}, {"cache", cache}});
  if (spec.memory_encryption != MemoryEncryption::none) { use_platform_iommu(driver); }
  auto source = add(disk, "source", {{"file", file}});
  if (is_shared) { leave_owner_alone(source, spec); }
  add(disk, "target", {{"dev", target}, {"bus", "virtio"}});
  add_disk_limits(disk, spec.limits);
  if (is_shared) { add(disk, "readonly"); }
  return disk;
}

/// A guest's synced writes reach the host's disk, as a load's do on bare metal. Where that disk is full the
/// guest gets an error; QEMU's default is to stop the VM.
void add_scratch_disk(pugi::xml_node devices, const DomainSpec& spec) {
  if (!spec.scratch) { return; }
  const char* cache = spec.scratch->past_page_cache ? "none" : "writeback";
  auto disk =
      add_disk(devices, spec.scratch->file, "raw", spec.boot_disk ? "vdd" : "vdb", spec, false, cache);
  with(disk.child("driver"), "error_policy", "report");
  add(disk, "serial", scratch_serial);
}

/// VMs of one host share it.
void add_payload_disk(pugi::xml_node devices, const DomainSpec& spec) {
  if (spec.payload.empty()) { return; }
  const char* target = spec.boot_disk ? "vde" : "vdc";
  add(add_disk(devices, spec.payload, "raw", target, spec, true), "serial", payload_serial);
}

void add_disks(pugi::xml_node devices, const DomainSpec& spec) {
  if (!spec.boot_disk) {
    add_disk(devices, spec.root_image, "raw", "vda", spec, true);
    add_scratch_disk(devices, spec);
    add_payload_disk(devices, spec);
    return;
  }
  auto boot = add_disk(devices, spec.boot_disk->overlay, "qcow2", "vda", spec, false);
  auto base = add(boot, "backingStore", {{"type", "file"}});
  add(base, "format", {{"type", spec.boot_disk->base_format}});
  leave_owner_alone(add(base, "source", {{"file", spec.boot_disk->base}}), spec);
  add(base, "backingStore");
  add(add_disk(devices, spec.root_image, "raw", "vdb", spec, true), "serial", root_serial);
  add_disk(devices, spec.boot_disk->seed, "raw", "vdc", spec, true);
  add_scratch_disk(devices, spec);
  add_payload_disk(devices, spec);
}

void add_nic_driver(pugi::xml_node interface, const NicSpec& nic, const DomainSpec& spec) {
  const bool bounced = spec.memory_encryption != MemoryEncryption::none;
  const auto& [vhost, queues, mtu] = nic.settings;
  if (!vhost && queues == 1 && !bounced) { return; }
  auto driver = add(interface, "driver");
  if (vhost) { with(driver, "name", *vhost ? "vhost" : "qemu"); }
  if (queues > 1) { with(driver, "queues", std::to_string(queues)); }
  if (bounced) { use_platform_iommu(driver); }
}

/// libvirt hands these to tc as "kbps", which are 1,000 bytes a second.
void add_bandwidth(pugi::xml_node interface, const NodeLimits& limits) {
  if (!limits.of_network()) { return; }
  constexpr std::uint64_t unit = 1000;
  constexpr std::uint64_t least_burst = 64;  // one frame as large as the guest may hand over
  auto bandwidth = add(interface, "bandwidth");
  const auto put = [&](const char* name, const std::optional<std::uint64_t>& limit) {
    if (!limit) { return; }
    const auto average = std::max<std::uint64_t>(1, *limit / unit);
    // A tenth of a second; libvirt's own choice is a whole one, which hides the limit from short messages.
    add(bandwidth, name,
        {{"average", std::to_string(average)},
         {"burst", std::to_string(std::max(least_burst, average / 10))}});
  };
  put("inbound", limits.network_in);
  put("outbound", limits.network_out);
}

void add_nic(pugi::xml_node devices, const NicSpec& nic, const DomainSpec& spec) {
  if (nic.kind == NicKind::multicast) {
    return;  // see add_multicast_nic()
  }
  const char* type = nic.kind == NicKind::network  ? "network"
                     : nic.kind == NicKind::bridge ? "bridge"
                                                   : "ethernet";
  auto interface = add(devices, "interface", {{"type", type}});
  if (!nic.mac.empty()) { add(interface, "mac", {{"address", nic.mac}}); }
  if (nic.kind != NicKind::tap) { add(interface, "source", {{type, nic.source}}); }
  if (!nic.tap.empty()) {
    auto target = add(interface, "target", {{"dev", nic.tap}});
    if (nic.kind == NicKind::tap) { with(target, "managed", "no"); }
  }
  add(interface, "model", {{"type", "virtio"}});
  if (nic.settings.mtu) { add(interface, "mtu", {{"size", std::to_string(*nic.settings.mtu)}}); }
  add_nic_driver(interface, nic, spec);
  add_bandwidth(interface, spec.limits);
}

/// libvirt's own <interface type='mcast'> leaves the device to the routing table, and the guests' frames
/// would go out on the host's network; QEMU can keep them on the loopback device. Its frames are datagrams,
/// so a large MTU saves most of their cost.
void add_multicast_nic(pugi::xml_node domain, const NicSpec& nic, std::size_t number, bool bounced) {
  constexpr int first_free_slot = 16;  // libvirt fills the root bus from below
  if (!domain.attribute("xmlns:qemu")) {
    with(domain, "xmlns:qemu", "http://libvirt.org/schemas/domain/qemu/1.0");
  }
  auto arguments = domain.child("qemu:commandline");
  if (!arguments) { arguments = add(domain, "qemu:commandline"); }
  const auto argument = [&](const std::string& word) { add(arguments, "qemu:arg", {{"value", word}}); };
  argument("-netdev");
  argument(
      fmt::format("socket,id=vtnet{},mcast={}:{},localaddr=127.0.0.1", number, multicast_group, nic.port));
  argument("-device");
  argument(fmt::format("virtio-net-pci,netdev=vtnet{},mac={},host_mtu={},bus=pcie.0,addr=0x{:x}{}", number,
                       nic.mac, multicast_mtu, first_free_slot + number,
                       bounced ? ",iommu_platform=on,ats=on" : ""));
}

void add_console(pugi::xml_node devices, const std::string& log) {
  auto serial = add(devices, "serial", {{"type", "file"}});
  add(serial, "source", {{"path", log}});
  add(serial, "target", {{"port", "0"}});
  auto console = add(devices, "console", {{"type", "file"}});
  add(console, "source", {{"path", log}});
  add(console, "target", {{"type", "serial"}, {"port", "0"}});
}

void add_devices(pugi::xml_node domain, const DomainSpec& spec) {
  auto devices = add(domain, "devices");
  add_granted_devices(devices, spec.devices, guest_layout(spec.devices, host_nodes(spec)));
  add_disks(devices, spec);
  for (const auto& nic : spec.nics) { add_nic(devices, nic, spec); }
  if (!spec.console_log.empty()) { add_console(devices, spec.console_log); }
  add_bounced_driver(add(devices, "controller", {{"type", "virtio-serial"}, {"index", "0"}}), spec);
  auto channel = add(devices, "channel", {{"type", "unix"}});
  add(channel, "source", {{"mode", "bind"}});
  add(channel, "target", {{"type", "virtio"}, {"name", agent_channel}});
  if (!spec.planted_channel.empty()) {
    add(add(devices, "channel", {{"type", "null"}}), "target",
        {{"type", "virtio"}, {"name", spec.planted_channel}});
  }
  auto rng = add(devices, "rng", {{"model", "virtio"}});
  with(add(rng, "backend", "/dev/urandom"), "model", "random");
  add_bounced_driver(rng, spec);
  add(devices, "controller", {{"type", "usb"}, {"model", "none"}});
  add(devices, "memballoon", {{"model", "none"}});
  add(add(devices, "video"), "model", {{"type", "none"}});
}

}  // namespace

std::vector<int> host_nodes(const DomainSpec& spec) {
  std::vector<int> nodes;
  for (const auto& cell : spec.numa_cells) { nodes.push_back(cell.host_node); }
  return nodes;
}

std::string domain_xml(const DomainSpec& spec) {
  check(spec);
  pugi::xml_document document;
  auto domain = add(document, "domain", {{"type", uses_kvm(spec.virtualization) ? "kvm" : "qemu"}});
  add(domain, "name", spec.name);
  if (!spec.uuid.empty()) { add(domain, "uuid", spec.uuid); }
  add_mark(domain, spec.mark);
  add_memory(domain, spec);
  add_cpu_placement(domain, spec);
  add_memory_nodes(domain, spec);
  add_boot(domain, spec);
  auto features = add(domain, "features");
  add(features, "acpi");
  add(features, "apic");
  if (spec.memory_encryption == MemoryEncryption::tdx) { add(features, "ioapic", {{"driver", "qemu"}}); }
  add_cpu_model(domain, spec);
  // An agent that ends, a panic and a power-off all end the VM: nothing of ours ever reboots.
  add(domain, "on_poweroff", "destroy");
  add(domain, "on_reboot", "destroy");
  add(domain, "on_crash", "destroy");
  add_devices(domain, spec);
  add_launch_security(domain, spec.memory_encryption);
  if (!spec.domain_template.empty()) { lay_template(domain, spec.domain_template); }
  add_cliques(domain, spec.devices, spec.clique);
  for (std::size_t i = 0; i < spec.nics.size(); ++i) {
    if (spec.nics[i].kind == NicKind::multicast) {
      add_multicast_nic(domain, spec.nics[i], i, spec.memory_encryption != MemoryEncryption::none);
    }
  }
  return xml_text(document);
}

std::string network_xml(const NetworkSpec& spec) {
  if (spec.bridge.size() > device_name_limit || spec.bridge.empty()) {
    refuse("network " + spec.name, "bridge name '{}' must have 1 to {} characters", spec.bridge,
           device_name_limit);
  }
  pugi::xml_document document;
  auto network = add(document, "network");
  add(network, "name", spec.name);
  add_mark(network, spec.mark);
  add(network, "bridge", {{"name", spec.bridge}, {"stp", "off"}, {"delay", "0"}});
  add(network, "dns", {{"enable", "no"}});
  return xml_text(document);
}

std::optional<LeaseMark> read_lease_mark(std::string_view xml) {
  pugi::xml_document document;
  if (!document.load_buffer(xml.data(), xml.size())) { return std::nullopt; }
  for (const auto& entry : document.document_element().child("metadata").children()) {
    // libvirt keeps the prefix, but only the namespace says whose it is.
    const std::string_view name = entry.name();
    const auto colon = name.find(':');
    if (colon == std::string_view::npos || name.substr(colon + 1) != "lease") { continue; }
    const auto declared = entry.attribute(("xmlns:" + std::string(name.substr(0, colon))).c_str());
    if (std::string_view(declared.value()) != mark_namespace) { continue; }
    return LeaseMark{entry.attribute("experiment").value(), entry.attribute("node").value()};
  }
  return std::nullopt;
}

namespace {

/// The child of that name, made where there is none.
pugi::xml_node child_of(pugi::xml_node parent, const char* name) {
  const auto child = parent.child(name);
  return child ? child : parent.append_child(name);
}

/// In place of the one of that name, and of that type where it has one.
void replace_child(pugi::xml_node parent, pugi::xml_node with) {
  for (auto old = parent.child(with.name()); old;) {
    const auto next = old.next_sibling(with.name());
    if (std::string_view(old.attribute("type").value()) == with.attribute("type").value()) {
      parent.remove_child(old);
    }
    old = next;
  }
  parent.append_copy(with);
}

/// The NUMA cells are the plan's, and so is the topology where the template has none.
void lay_cpu(pugi::xml_node domain, pugi::xml_node wanted) {
  const auto ours = domain.child("cpu");
  auto cpu = domain.insert_copy_after(wanted, ours);
  if (!cpu.child("topology")) { cpu.append_copy(ours.child("topology")); }
  if (const auto numa = ours.child("numa")) { cpu.append_copy(numa); }
  domain.remove_child(ours);
}

void lay_machine(pugi::xml_node domain, pugi::xml_node wanted) {
  const auto machine = wanted.child("type").attribute("machine");
  if (machine) { domain.child("os").child("type").attribute("machine").set_value(machine.value()); }
}

}  // namespace

void lay_template(pugi::xml_node domain, const std::string& text) {
  if (!is_domain_template(text)) {
    throw Error("make a VM from a template", ErrorCode::bad_input, "the text is not one");
  }
  pugi::xml_document document;
  document.load_buffer(text.data(), text.size());
  for (const auto& wanted : document.document_element().children()) {
    const std::string_view name = wanted.name();
    if (name == "cpu") {
      lay_cpu(domain, wanted);
    } else if (name == "os") {
      lay_machine(domain, wanted);
    } else if (name == "features" || name == "memoryBacking" || name == "devices") {
      auto ours = child_of(domain, wanted.name());
      for (const auto& child : wanted.children()) {
        // libvirt gives a VM one of each but of input devices.
        if (std::string_view(child.name()) == "input") {
          ours.append_copy(child);
        } else if (std::string_view(child.name()) == "video" ||
                   std::string_view(child.name()) == "memballoon") {
          ours.remove_child(child.name());
          ours.append_copy(child);
        } else {
          replace_child(ours, child);
        }
      }
    } else {
      domain.append_copy(wanted);
    }
  }
}

}  // namespace virtrain::vmctl
