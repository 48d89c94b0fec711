#include "vmctl/resources/devices/vgpu_scheduler.h"

#include "vmctl/devices/vgpu_scheduling.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {
namespace {

using SchedulingChange = Change<VgpuScheduling>;

/// A card that shares its time in that way already keeps its time slice.
bool is_new(const SchedulingChange& change) {
  return change.before.policy != change.wanted.policy;
}

void make(const Effect& effect) {
  const auto change = from_state<SchedulingChange>(effect.state);
  if (is_new(change)) { set_vgpu_scheduling(effect.name, change.wanted); }
}

void undo(const Effect& effect) {
  const auto change = from_state<SchedulingChange>(effect.state);
  if (!is_new(change)) { return; }
  // Never made, put back already, or changed by somebody else since.
  if (read_vgpu_scheduling(effect.name).policy != change.wanted.policy) { return; }
  set_vgpu_scheduling(effect.name, change.before);
}

}  // namespace

Effect vgpu_scheduler_effect(const std::string& card, VgpuScheduler wanted) {
  return {.kind = EffectKind::vgpu_scheduler,
          .name = card,
          .state = to_state(
              SchedulingChange{read_vgpu_scheduling(card), {.policy = static_cast<unsigned>(wanted)}})};
}

/// After a reboot the driver's own is in force again.
const Handler vgpu_scheduler_handler{
    .kind = EffectKind::vgpu_scheduler,
    .make = make,
    .left = [](const Effect& /*effect*/) { return std::string("a vGPU scheduler that may have changed"); },
    .undo = undo,
    .device = named_device};

}  // namespace virtrain::vmctl
