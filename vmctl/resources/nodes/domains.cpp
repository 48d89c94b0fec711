#include <fmt/format.h>

#include <filesystem>

#include "common/error.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

/// Domains, or networks: both carry our mark, or at least a name like ours.
template <typename Info>
void add_of_libvirt(Search& search, EffectKind kind, const Info& one) {
  const auto what = std::string("libvirt ") + to_string(kind) + " with virtrain's ";
  if (one.mark) {
    search.add_held(search.libvirt_holder(), {kind, one.name, one.mark->experiment, what + "metadata"});
  } else if (one.name.starts_with(domain_prefix)) {
    search.add_unmarked(search.libvirt_holder(),
                        {kind, one.name, experiment_in_name(one.name), what + "name"});
  }
}

/// Such a QEMU is a container's, whose libvirt knows it; of contained runs nothing outlives the run.
bool is_in_another_pid_namespace(pid_t pid) {
  std::error_code unreadable;
  const auto theirs = std::filesystem::read_symlink(fmt::format("/proc/{}/ns/pid", pid), unreadable);
  return !unreadable && theirs != std::filesystem::read_symlink("/proc/self/ns/pid");
}

/// QEMUs of domains that libvirt has forgotten.
void find_lost_qemus(Search& search) {
  for (const auto& [pid, process] : search.processes) {
    if (!process.name.starts_with("qemu-system") || is_in_another_pid_namespace(pid)) { continue; }
    for (const auto& argument : process_arguments(pid)) {
      constexpr std::string_view guest = "guest=virtrain-";
      if (!argument.starts_with(guest)) { continue; }
      const auto name = argument.substr(6, argument.find(',') - 6);
      if (search.has_domain(name) || !search.is_named_by_us(name)) { continue; }
      search.add_held(holder_of(user_of(pid)),
                      {.kind = EffectKind::process,
                       .name = std::to_string(pid),
                       .experiment = experiment_in_name(name),
                       .detail = "QEMU of domain " + name + ", which libvirt does not know",
                       .start_time = process.start_time});
    }
  }
}

void find_domains(Search& search) {
  for (const auto& domain : search.domains) { add_of_libvirt(search, EffectKind::domain, domain); }
}

void find_networks(Search& search) {
  for (const auto& network : search.networks) { add_of_libvirt(search, EffectKind::network, network); }
  find_lost_qemus(search);
}

Hypervisor& needed(Hypervisor* hypervisor, const Leftover& found) {
  if (hypervisor != nullptr) { return *hypervisor; }
  throw Error("remove " + found.name, ErrorCode::host_unable, "libvirt does not answer");
}

void remove_domain(const Leftover& found, Hypervisor* hypervisor) {
  needed(hypervisor, found).destroy_domain(found.name);
}

void remove_network(const Leftover& found, Hypervisor* hypervisor) {
  needed(hypervisor, found).destroy_network(found.name);
}

}  // namespace

const Handler domain_handler{.kind = EffectKind::domain, .find = find_domains, .remove = remove_domain};

const Handler network_handler{.kind = EffectKind::network, .find = find_networks, .remove = remove_network};

}  // namespace virtrain::vmctl
