#include "vmctl/resources/cleanup.h"

#include <filesystem>
#include <set>
#include <string>

#include "common/error.h"
#include "vmctl/process/process_info.h"
#include "vmctl/resources/device_lender.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/net_devices.h"
#include "vmctl/slice/slice.h"

namespace virtrain::vmctl {
namespace {

void need(bool worked, const Leftover& leftover) {
  if (!worked) { throw Error("remove " + leftover.name, ErrorCode::io, "it is still there"); }
}

void remove_domain(const Leftover& leftover, Hypervisor* hypervisor) {
  if (hypervisor == nullptr) {
    throw Error("remove " + leftover.name, ErrorCode::host_unable, "libvirt does not answer");
  }
  if (leftover.kind == EffectKind::domain) { return hypervisor->destroy_domain(leftover.name); }
  hypervisor->destroy_network(leftover.name);
}

void remove_one(const Leftover& leftover, Hypervisor* hypervisor, LeaseJournal* journal) {
  if (leftover.effect && journal != nullptr) { return undo_and_forget(*journal, *leftover.effect); }
  switch (leftover.kind) {
    case EffectKind::process:
    case EffectKind::slice: {
      const auto pid = static_cast<pid_t>(std::stol(leftover.name));
      return need(kill_and_wait(pid, leftover.start_time), leftover);
    }
    case EffectKind::domain:
    case EffectKind::network:
      return remove_domain(leftover, hypervisor);
    case EffectKind::veth:
    case EffectKind::bridge:
      return delete_link(leftover.name);
    case EffectKind::netns:
      return delete_namespace(leftover.name);
    case EffectKind::cgroup:
      return need(remove_cgroup(leftover.name), leftover);
    case EffectKind::file:
      std::filesystem::remove_all(leftover.name);
      return;
    default:
      throw Error("remove " + leftover.name, ErrorCode::usage, "a device is put back by its journal only");
  }
}

}  // namespace

CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal,
                    const MarkInterrupted& mark) {
  CleanupResult result;
  std::set<std::string> failed_experiments;
  for (const auto& leftover : view.leftovers) {
    try {
      remove_one(leftover, hypervisor, journal);
      result.removed.push_back(leftover);
    } catch (const std::exception& error) {
      result.failed.emplace_back(leftover, error.what());
      failed_experiments.insert(leftover.experiment);
    }
  }
  // A live run may hold the very device that a dead one left changed. What it was before stays in the journal
  // until it can be put back.
  for (const auto& used : view.in_use) {
    if (used.effect && !is_alive(used.effect->owner)) {
      failed_experiments.insert(used.effect->owner.experiment);
    }
  }
  std::set<std::string> known;
  for (const auto& owner : view.dead_owners) {
    known.insert(owner.experiment);
    // Marked first: a forgotten owner's experiment would read "running" for ever.
    const bool marked = mark && mark(owner.results_db, owner.experiment);
    if (journal != nullptr && marked && !failed_experiments.contains(owner.experiment)) {
      journal->release_all(owner);
    }
  }
  // With the journal lost the metadata still names the experiment, though not its database.
  for (const auto& leftover : view.leftovers) {
    if (mark && !leftover.experiment.empty() && known.insert(leftover.experiment).second) {
      mark("", leftover.experiment);
    }
  }
  return result;
}

}  // namespace virtrain::vmctl
