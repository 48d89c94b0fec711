#include "vmctl/resources/devices/grant_effects.h"

#include <optional>
#include <string>

#include "common/subprocess.h"
#include "vmctl/devices/pci/sysfs.h"
#include "vmctl/resources/devices/binding.h"
#include "vmctl/resources/devices/device_settings.h"
#include "vmctl/resources/devices/guids.h"
#include "vmctl/resources/devices/mdev.h"
#include "vmctl/resources/devices/vgpu_type.h"

namespace virtrain::vmctl {
namespace {

/// The kernel's persistence mode holds the device with no file open: unbinding would wait for ever (USE-2).
std::optional<Effect> no_persistence(const std::string& address) {
  if (bound_driver(address) != "nvidia") { return std::nullopt; }
  DeviceSettings wanted;
  wanted.persistence = false;
  return settings_effect(address, wanted);
}

void load_vfio() {
  if (!is_there("/sys/bus/pci/drivers/vfio-pci")) { run_checked({"modprobe", "vfio-pci"}); }
}

}  // namespace

std::vector<Effect> effects_of(const DeviceGrant& grant) {
  std::vector<Effect> effects;
  switch (grant.kind) {
    case GrantKind::mdev:
      effects.push_back(mdev_effect(grant));
      break;
    case GrantKind::vendor_vfio:
      effects.push_back(vgpu_type_effect(grant));
      break;
    case GrantKind::virtual_function:
    case GrantKind::passthrough:
      load_vfio();
      if (auto guids = guids_effect(grant)) { effects.push_back(std::move(*guids)); }
      if (auto settings = no_persistence(grant.address)) { effects.push_back(std::move(*settings)); }
      for (const auto& function : functions_to_bind(grant.address)) {
        effects.push_back(binding_effect(function));
      }
  }
  return effects;
}

}  // namespace virtrain::vmctl
