#include "harness/plan/domain_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/sha256.h"
#include "common/text.h"

namespace virtrain::harness {
namespace {

/// A VM as far as it is known before it runs.
VmFacts planned_facts(std::int64_t number, const HostNames& names, const Guest& guest,
                      const PlannedHost& host) {
  const std::string image = "/var/cache/virtrain/images/IMAGE/";
  VmFacts facts;
  facts.number = number;
  facts.kernel = image + "kernel";
  facts.initrd = image + "initrd";
  facts.root_image = image + "root";
  facts.console_log = "/var/lib/virtrain/logs/EXPERIMENT/" + names.domain(number) + ".console";
  const std::string disk = "/var/lib/virtrain/logs/EXPERIMENT/" + names.domain(number);
  if (!guest.is_mirror()) {
    facts.boot_disk = vmctl::BootDisk{disk + ".qcow2", guest.image, "FORMAT", disk + "-seed.iso"};
  }
  facts.virtualization = host.emulates ? vmctl::Virtualization::tcg : vmctl::Virtualization::kvm;
  facts.hide_arch_capabilities = host.hide_arch_capabilities;
  return facts;
}

/// A UUID that says the same thing twice: the words' SHA-256 in the form of version 8 (RFC 9562).
std::string uuid_of(const std::string& words) {
  auto digits = sha256(words);
  digits[12] = '8';
  digits[16] = '8';
  return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                     digits.substr(16, 4), digits.substr(20, 12));
}

/// Memory of each of `shares` parts of a whole, in whole GiB where that comes out even (for huge pages), else
/// in MiB; the first gets what is left over.
std::vector<std::uint64_t> memory_shares(std::uint64_t bytes, const std::vector<std::size_t>& shares) {
  std::size_t all = 0;
  for (const auto share : shares) { all += share; }
  const std::uint64_t gib = 1ULL << 30;
  const std::uint64_t unit = bytes % (gib * all) == 0 ? gib : 1ULL << 20;
  std::vector<std::uint64_t> parts;
  std::uint64_t given = 0;
  for (const auto share : shares) {
    parts.push_back(bytes / all * share / unit * unit);
    given += parts.back();
  }
  parts[0] += bytes - given;
  return parts;
}

/// A guest with devices has a NUMA cell for each host node of its cores, so that the devices can be on one.
std::vector<vmctl::NumaCell> numa_cells(const NodePlacement& node) {
  std::vector<vmctl::NumaCell> cells;
  const bool any_known = std::any_of(node.devices.begin(), node.devices.end(),
                                     [](const auto& device) { return device.numa_node >= 0; });
  if (!any_known) { return cells; }
  for (std::size_t vcpu = 0; vcpu < node.core_numa_nodes.size(); ++vcpu) {
    const int host_node = node.core_numa_nodes[vcpu];
    auto cell =
        std::find_if(cells.begin(), cells.end(), [&](const auto& one) { return one.host_node == host_node; });
    if (cell == cells.end()) { cell = cells.insert(cells.end(), vmctl::NumaCell{host_node, {}, 0}); }
    cell->vcpus.push_back(static_cast<int>(vcpu));
  }
  if (cells.empty()) { return cells; }
  std::vector<std::size_t> shares(cells.size());
  std::transform(cells.begin(), cells.end(), shares.begin(),
                 [](const auto& cell) { return cell.vcpus.size(); });
  const auto memory = memory_shares(node.memory_bytes, shares);
  for (std::size_t i = 0; i < cells.size(); ++i) { cells[i].memory_bytes = memory[i]; }
  return cells;
}

}  // namespace

std::string HostNames::domain(std::int64_t number) const {
  return fmt::format("virtrain-{}-{}", experiment, number);
}

std::string HostNames::network(std::size_t tenant) const {
  return fmt::format("virtrain-{}-t{}", experiment, tenant);
}

std::string HostNames::bridge(std::size_t tenant) const {
  return fmt::format("vtb{}{}", tag, tenant);
}

std::string HostNames::tap(std::int64_t number) const {
  return fmt::format("vtt{}{}", tag, number);
}

std::string HostNames::slice(std::int64_t number) const {
  return fmt::format("vt-{}-{}", tag, number);
}

std::string HostNames::slice_nic(std::int64_t number) const {
  return fmt::format("vtv{}{}", tag, number);
}

std::string HostNames::slice_bridge(std::size_t tenant) const {
  return fmt::format("vtb{}s{}", tag, tenant);
}

std::vector<vmctl::DeviceGrant> grants_of(const NodePlacement& node, const HostNames& names) {
  std::vector<vmctl::DeviceGrant> grants;
  for (const auto& device : node.devices) {
    auto grant = device.grant;
    if (grant.kind == vmctl::GrantKind::mdev) {
      grant.uuid = uuid_of(fmt::format("{} {} {} {} {}", names.experiment, node.hostname, grant.address,
                                       grant.vgpu_type, grants.size()));
    }
    grants.push_back(std::move(grant));
  }
  return grants;
}

std::vector<vmctl::DeviceGrant> grants_of(const Placement& placement, const HostNames& names) {
  std::vector<vmctl::DeviceGrant> grants;
  for (const auto& tenant : placement.tenants) {
    for (const auto& node : tenant.nodes) {
      for (auto& grant : grants_of(node, names)) { grants.push_back(std::move(grant)); }
    }
  }
  return grants;
}

vmctl::GuestBoot guest_boot(const TenantPlacement& tenant, const NodePlacement& node, bool networked) {
  vmctl::GuestBoot boot{node.hostname, networked ? node.address : "", {}};
  for (const auto& peer : tenant.nodes) {
    boot.hosts.push_back({peer.hostname, split(peer.address, '/')[0]});
  }
  return boot;
}

std::map<int, std::uint64_t> memory_by_host_node(const Guest& guest, const NodePlacement& node) {
  if (guest.pinning != Pinning::numa) { return {}; }
  if (node.numa_node) { return {{*node.numa_node, node.memory_bytes}}; }
  std::map<int, std::uint64_t> memory;
  for (const auto& cell : numa_cells(node)) { memory[cell.host_node] = cell.memory_bytes; }
  return memory;
}

vmctl::DomainSpec domain_spec(const Guest& guest, const TenantPlacement& tenant, std::size_t tenant_index,
                              const NodePlacement& node, const HostNames& names, const VmFacts& facts) {
  vmctl::DomainSpec spec;
  spec.name = names.domain(facts.number);
  spec.uuid = facts.uuid;
  spec.mark = {names.experiment, node.hostname};
  spec.vcpus = static_cast<int>(guest.vcpus);
  spec.memory_bytes = node.memory_bytes;
  if (guest.pinning != Pinning::none) {
    spec.vcpu_cores = node.cores;
    spec.emulator_cores = node.emulator_cores.empty() ? node.cores : node.emulator_cores;
  }
  if (guest.pinning == Pinning::numa) { spec.numa_node = node.numa_node; }
  spec.hugepages = guest.hugepages;
  spec.virtualization = facts.virtualization;
  spec.kernel = facts.kernel;
  spec.initrd = facts.initrd;
  spec.root_image = facts.root_image;
  spec.boot_disk = facts.boot_disk;
  if (!spec.boot_disk) {
    spec.kernel_command_line = vmctl::guest_command_line(guest_boot(tenant, node, facts.nic.has_value()));
  }
  spec.in_session = facts.in_session;
  if (facts.nic) {
    const auto network = *facts.nic == vmctl::NicKind::network ? names.network(tenant_index) : "";
    spec.nics.push_back({*facts.nic, network, node.mac, names.tap(facts.number), facts.multicast_port});
  }
  spec.console_log = facts.console_log;
  if (guest.pinning != Pinning::none) { spec.numa_cells = numa_cells(node); }
  spec.memory_by_cell = guest.pinning == Pinning::numa && spec.numa_cells.size() > 1;
  spec.hide_arch_capabilities = facts.hide_arch_capabilities && uses_kvm(facts.virtualization);
  spec.clique = node.clique;
  spec.devices = node.devices;
  const auto grants = grants_of(node, names);
  for (std::size_t i = 0; i < grants.size(); ++i) { spec.devices[i].grant = grants[i]; }
  return spec;
}

void add_domain_xml(nlohmann::json& plan_json, const Plan& plan, const Scenario& scenario,
                    const PlannedHost& host) {
  const HostNames names{"EXPERIMENT", "TAG"};
  std::int64_t number = 0;
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const auto& trial = plan.trials[i];
    const auto& placement = plan.placements[trial.placement];
    for (std::size_t t = 0; t < placement.tenants.size(); ++t) {
      const auto& tenant = placement.tenants[t];
      for (std::size_t n = 0; n < tenant.nodes.size(); ++n) {
        // Slices take numbers too; in the shared arm one stands for all nodes of its tenant.
        if (trial.arm != arm_bare_metal_shared || n == 0) { ++number; }
        if (trial.arm != arm_vm) { continue; }
        const auto facts = planned_facts(number, names, scenario.guest, host);
        plan_json["trials"][i]["tenants"][t]["nodes"][n]["xml"] =
            vmctl::domain_xml(domain_spec(scenario.guest, tenant, t, tenant.nodes[n], names, facts));
      }
    }
  }
}

std::string domain_xml_text(const nlohmann::json& plan_json) {
  std::string out;
  std::set<std::string> shown;
  for (const auto& trial : plan_json.at("trials")) {
    const auto name = trial.at("case").get<std::string>();
    if (trial.at("arm") != arm_vm || !shown.insert(name).second) { continue; }
    for (const auto& tenant : trial.at("tenants")) {
      for (const auto& node : tenant.at("nodes")) {
        out += fmt::format("\n<!-- {} pair {}, {} {} -->\n{}", name, trial.at("pair").get<std::int64_t>(),
                           tenant.at("name").get<std::string>(), node.at("hostname").get<std::string>(),
                           node.at("xml").get<std::string>());
      }
    }
  }
  return out;
}

}  // namespace virtrain::harness
