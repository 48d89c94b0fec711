#include "vmctl/resources/devices/vgpu_scheduler.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <utility>

#include "common/error.h"
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

namespace {

/// nvmlVgpuSchedulerGetState_t and nvmlVgpuSchedulerSetState_t: a union of two numbers ends both.
struct SchedulerState {
  unsigned policy, mode, first_parameter, second_parameter;
};

using Device = void*;

/// The library, as long as it is needed: the driver counts who has it open.
class Library {
 public:
  explicit Library(std::string operation)
      : operation_(std::move(operation)), handle_(::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) { fail(::dlerror()); }
    try {
      call<>("nvmlInit_v2");
    } catch (...) {
      ::dlclose(handle_);
      throw;
    }
  }
  ~Library() {
    if (const auto shut_down = find<int()>("nvmlShutdown")) { shut_down(); }
    ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) const {
    const auto function = find<int(Arguments...)>(name);
    if (function == nullptr) { fail(fmt::format("the driver's NVML has no {}", name)); }
    if (const int status = function(arguments...); status != 0) {
      const auto words_of = find<const char*(int)>("nvmlErrorString");
      fail(fmt::format("{}: {}", name,
                       words_of == nullptr ? fmt::format("status {}", status) : words_of(status)));
    }
  }

  Device device(const std::string& address) const {
    Device found = nullptr;
    call("nvmlDeviceGetHandleByPciBusId_v2", address.c_str(), &found);
    return found;
  }

 private:
  template <typename Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(handle_, name));
  }
  [[noreturn]] void fail(const std::string& words) const {
    throw Error(operation_, ErrorCode::host_unable,
                words + " (it takes a card in vGPU mode that carries no vGPU: nvidia-smi vgpu -ss)");
  }

  std::string operation_;
  void* handle_;
};

VgpuScheduling read_from(const Library& nvml, Device device) {
  SchedulerState now{};
  nvml.call("nvmlDeviceGetVgpuSchedulerState", device, &now);
  return {now.policy, now.mode, now.first_parameter};
}

}  // namespace

VgpuScheduling read_vgpu_scheduling(const std::string& address) {
  const Library nvml("read the vGPU scheduler of " + address);
  return read_from(nvml, nvml.device(address));
}

void set_vgpu_scheduling(const std::string& address, const VgpuScheduling& wanted) {
  const auto operation = "set the vGPU scheduler of " + address;
  const Library nvml(operation);
  auto* const device = nvml.device(address);
  SchedulerState state{wanted.policy, wanted.mode, wanted.parameter, 0};
  nvml.call("nvmlDeviceSetVgpuSchedulerState", device, &state);
  if (const auto now = read_from(nvml, device); now.policy != wanted.policy) {
    throw Error(
        operation, ErrorCode::host_unable,
        fmt::format("asked for policy {}, it has {} (nvidia-smi vgpu -ss)", wanted.policy, now.policy));
  }
}

}  // namespace virtrain::vmctl
