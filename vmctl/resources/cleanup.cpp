#include "vmctl/resources/cleanup.h"

#include <set>
#include <string>

#include "common/error.h"
#include "common/system/process_info.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"

namespace virtrain::vmctl {
namespace {

/// Whether it is still for us to undo: since the search another `clean` may have done it, or a run begun that
/// needs it as it is.
bool is_still_left(const Effect& effect, const LeaseJournal& journal) {
  bool is_journalled = false;
  for (const auto& one : journal.effects()) {
    is_journalled = is_journalled || one.id == effect.id;
    if (one.id != effect.id && one.kind == effect.kind && one.name == effect.name && is_alive(one.owner)) {
      throw Error("put " + effect.name + " back", ErrorCode::busy,
                  "experiment " + one.owner.experiment + " has it now");
    }
  }
  return is_journalled;
}

void remove_one(const Leftover& leftover, Hypervisor* hypervisor, LeaseJournal* journal) {
  if (leftover.effect && journal != nullptr) {
    if (is_still_left(*leftover.effect, *journal)) { undo_and_forget(*journal, *leftover.effect); }
    return;
  }
  const auto remove = handler_of(leftover.kind).remove;
  if (remove == nullptr) {
    throw Error("remove " + leftover.name, ErrorCode::usage, "a device is put back by its journal only");
  }
  remove(leftover, hypervisor);
}

}  // namespace

void undo_and_forget(LeaseJournal& journal, const Effect& effect) {
  const auto& handler = handler_of(effect.kind);
  UniqueFd unused;
  if (handler.is_shared) {
    unused = try_keep_unused(effect.name);
    if (!unused) { throw Error("put " + effect.name + " back", ErrorCode::busy, "another run uses it"); }
  }
  try {
    handler.undo(effect);
  } catch (const std::exception& failure) {
    if (handler.device != nullptr) { journal.quarantine(handler.device(effect), failure.what()); }
    throw;
  }
  journal.undone(effect.id);
}

CleanupResult clean(const CleanupView& view, Hypervisor* hypervisor, LeaseJournal* journal) {
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
  // Nor is what nobody could look at known to be gone.
  if (hypervisor == nullptr && journal != nullptr) {
    for (const auto& effect : journal->effects()) {
      if (effect.kind == EffectKind::domain || effect.kind == EffectKind::network) {
        failed_experiments.insert(effect.owner.experiment);
      }
    }
  }
  std::set<std::string> known;
  for (const auto& owner : view.dead_owners) {
    known.insert(owner.experiment);
    result.dead.push_back({owner.experiment, owner.results_db});
    if (!failed_experiments.contains(owner.experiment)) { result.forgettable.push_back(owner); }
  }
  // With the journal lost the metadata still names the experiment, though not its database.
  for (const auto& leftover : view.leftovers) {
    if (!leftover.experiment.empty() && known.insert(leftover.experiment).second) {
      result.dead.push_back({leftover.experiment, ""});
    }
  }
  return result;
}

namespace {

/// An effect that cannot be looked at is not known to be undone; the others are to be cleaned all the same.
std::string left_of(const Handler& handler, const Effect& effect) {
  try {
    return handler.left(effect);
  } catch (const Error& failure) { return failure.what(); }
}

/// The journal says what is ours, sysfs whether it is still so. A reboot undoes most of it by itself.
void find_changes(Search& search) {
  for (const auto& effect : search.effects) {
    const auto& handler = handler_of(effect.kind);
    if (handler.left == nullptr) { continue; }
    if (effect.owner.boot_id != boot_id() && !handler.survives_reboot) { continue; }
    const auto left = left_of(handler, effect);
    if (left.empty()) { continue; }
    const bool used = is_alive(effect.owner) || (handler.is_shared && !try_keep_unused(effect.name)) ||
                      (handler.device != nullptr && search.is_live_device(handler.device(effect)));
    search.add({effect.kind, effect.name, effect.owner.experiment, left, effect}, used);
  }
}

}  // namespace

CleanupView find_leftovers(Hypervisor* hypervisor, const LeaseJournal* journal, const Caller& caller) {
  Search search(hypervisor, journal, caller);
  for (const auto* handler : handlers()) {
    if (handler->find != nullptr) { handler->find(search); }
  }
  find_changes(search);
  return search.sorted();
}

}  // namespace virtrain::vmctl
