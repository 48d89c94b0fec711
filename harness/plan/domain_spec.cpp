#include "harness/plan/domain_spec.h"

#include <fmt/format.h>

#include <set>

#include "common/text.h"

namespace virtrain::harness {
namespace {

/// A VM as far as it is known before it runs.
VmFacts planned_facts(std::int64_t number, const HostNames& names, bool emulated) {
  const std::string image = "/var/cache/virtrain/images/IMAGE/";
  VmFacts facts;
  facts.number = number;
  facts.kernel = image + "kernel";
  facts.initrd = image + "initrd";
  facts.root_image = image + "root";
  facts.console_log = "/var/lib/virtrain/logs/EXPERIMENT/" + names.domain(number) + ".console";
  facts.virtualization = emulated ? vmctl::Virtualization::tcg : vmctl::Virtualization::kvm;
  return facts;
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
  if (guest.pinning == Pinning::numa) spec.numa_node = node.numa_node;
  spec.hugepages = guest.hugepages;
  spec.virtualization = facts.virtualization;
  spec.kernel = facts.kernel;
  spec.initrd = facts.initrd;
  spec.root_image = facts.root_image;
  vmctl::GuestBoot boot{node.hostname, facts.in_session ? "" : node.address, {}};
  for (const auto& peer : tenant.nodes) boot.hosts.push_back({peer.hostname, split(peer.address, '/')[0]});
  spec.kernel_command_line = vmctl::guest_command_line(boot);
  spec.in_session = facts.in_session;
  if (!facts.in_session)
    spec.nics.push_back({names.network(tenant_index), "", node.mac, names.tap(facts.number)});
  spec.console_log = facts.console_log;
  return spec;
}

void add_domain_xml(nlohmann::json& plan_json, const Plan& plan, const Scenario& scenario, bool emulated) {
  const HostNames names{"EXPERIMENT", "TAG"};
  std::int64_t number = 0;
  for (std::size_t i = 0; i < plan.trials.size(); ++i) {
    const auto& trial = plan.trials[i];
    const auto& placement = plan.placements[trial.placement];
    for (std::size_t t = 0; t < placement.tenants.size(); ++t) {
      const auto& tenant = placement.tenants[t];
      for (std::size_t n = 0; n < tenant.nodes.size(); ++n) {
        // Slices take numbers too; in the shared arm one stands for all nodes of its tenant.
        if (trial.arm != kArmBareMetalShared || n == 0) ++number;
        if (trial.arm != kArmVm) continue;
        const auto facts = planned_facts(number, names, emulated);
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
    if (trial.at("arm") != kArmVm || !shown.insert(name).second) continue;
    for (const auto& tenant : trial.at("tenants"))
      for (const auto& node : tenant.at("nodes"))
        out += fmt::format("\n<!-- {} pair {}, {} {} -->\n{}", name, trial.at("pair").get<std::int64_t>(),
                           tenant.at("name").get<std::string>(), node.at("hostname").get<std::string>(),
                           node.at("xml").get<std::string>());
  }
  return out;
}

}  // namespace virtrain::harness
