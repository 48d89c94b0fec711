#include "vmctl/resources/leftovers.h"

#include "common/error.h"
#include "common/system/process_info.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/search.h"
#include "vmctl/resources/kind/shared_use.h"

namespace virtrain::vmctl {
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
