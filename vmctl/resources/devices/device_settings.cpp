#include "vmctl/resources/devices/device_settings.h"

#include <nlohmann/json.hpp>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/json.h"
#include "common/text/text.h"
#include "vmctl/devices/pci.h"
#include "vmctl/resources/kind/handler.h"
#include "vmctl/resources/kind/state.h"

namespace virtrain::vmctl {

DeviceSettings read_settings(const std::string& gpu) {
  return parse_settings_answer(run_checked(settings_query(gpu)).out);
}

void apply_settings(const std::string& gpu, const DeviceSettings& wanted, const DeviceSettings& locked) {
  auto now = read_settings(gpu);
  now.graphics_clock_mhz = locked.graphics_clock_mhz;
  now.memory_clock_mhz = locked.memory_clock_mhz;
  for (const auto& command : settings_commands(gpu, now, wanted)) { run_checked(command); }
  const auto differences = settings_differences(wanted, read_settings(gpu));
  if (!differences.empty()) {
    throw Error("set GPU " + gpu, ErrorCode::host_unable,
                join(differences, ", ") +
                    " (ECC and MIG mode change with a reset: nvidia-smi --gpu-reset, or a reboot)");
  }
}

std::string power_limits(const std::set<std::string>& gpus) {
  auto limits = nlohmann::json::object();
  for (const auto& gpu : gpus) {
    try {
      if (const auto watts = read_settings(gpu).power_limit_watts) { limits[gpu] = *watts; }
    } catch (const Error& error) {
      log::warning("the GPU's power limit cannot be read", {{"gpu", gpu}, {"reason", error.what()}});
    }
  }
  return limits.dump();
}

void restore_power_limits(const std::string& limits) {
  const auto known = parse_json_or_null(limits);
  if (!known.is_object()) {
    return;  // of an older journal
  }
  for (const auto& [gpu, watts] : known.items()) {
    try {
      DeviceSettings wanted;
      wanted.power_limit_watts = watts.get<double>();
      apply_settings(gpu, wanted);
    } catch (const std::exception& error) {
      log::warning("the GPU's power limit is not what it was",
                   {{"gpu", gpu}, {"watts", watts}, {"reason", error.what()}});
    }
  }
}

Effect settings_effect(const std::string& address, const DeviceSettings& wanted) {
  return {.kind = EffectKind::device_settings,
          .name = address,
          .state = to_state(Change<DeviceSettings>{read_settings(address), wanted})};
}

namespace {

/// The kernel's persistence mode holds the device with no file open: unbinding would wait for ever (USE-2).
std::vector<Effect> plan_no_persistence(const DeviceGrant& grant) {
  if (is_made_for_each_vm(grant) || bound_driver(grant.address) != "nvidia") { return {}; }
  DeviceSettings wanted;
  wanted.persistence = false;
  return {settings_effect(grant.address, wanted)};
}

}  // namespace

const Handler device_settings_handler{
    .kind = EffectKind::device_settings,
    .plan = plan_no_persistence,
    .make =
        [](const Effect& effect) {
          apply_settings(effect.name, from_state<Change<DeviceSettings>>(effect.state).wanted);
        },
    .left = [](const Effect& /*effect*/) { return std::string("settings that may have changed"); },
    .undo =
        [](const Effect& effect) {
          const auto change = from_state<Change<DeviceSettings>>(effect.state);
          apply_settings(effect.name, change.before, change.wanted);
        },
    .device = named_device,
    .survives_reboot = true};

}  // namespace virtrain::vmctl
