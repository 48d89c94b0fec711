#pragma once

#include <string>
#include <vector>

#include "vmctl/devices/device_grant.h"
#include "vmctl/devices/host_device.h"
#include "vmctl/journal/leases.h"
#include "vmctl/resources/devices/device_settings.h"

namespace virtrain::vmctl {

/// Whether this kind of effect changes a device, and undo_device_effect() knows how to put it back.
bool is_device_effect(EffectKind kind);
/// Whether it outlives a reboot; bindings, mdevs, vGPU types and virtual functions do not.
bool survives_reboot(EffectKind kind);
/// The device to blame when it cannot be undone.
std::string device_of(const Effect& effect);

/// What is still there of the effect, in words, from sysfs alone; empty: nothing.
std::string what_is_left(const Effect& effect);

/// Puts back what was there before. Idempotent: looks at what is, not at how far anybody came. Throws Error.
void undo_device_effect(const Effect& effect);

/// An effect that a grant needs, ready to be journalled.
struct PlannedEffect {
  EffectKind kind;
  std::string name;
  std::string state;  ///< JSON, see Effect
};

/// What has to be done for a grant, in order, given what is now. Throws Error(not_found) where the device
/// does not exist, Error(busy) where it is in use or carries a vGPU already.
std::vector<PlannedEffect> effects_of(const DeviceGrant& grant);

/// That a GPU of the host's own driver becomes as wanted.
PlannedEffect settings_effect(const std::string& address, const DeviceSettings& wanted);

/// Makes a planned effect happen, and sees that it did. Throws Error.
void do_device_effect(const PlannedEffect& effect);

/// Every function that goes to a VM together: those of the IOMMU group, bridges aside. Throws
/// Error(not_found), and Error(host_unable) where the function is in no group.
std::vector<std::string> functions_to_bind(const std::string& address);

}  // namespace virtrain::vmctl
