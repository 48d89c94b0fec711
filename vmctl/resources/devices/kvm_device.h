#pragma once

#include <optional>
#include <string>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

inline constexpr const char* kvm_device = "/dev/kvm";

/// What lets QEMU's user open the device (group kvm, mode 0660); nothing where it can, where there is no such
/// device or group, and where we are not root. Else libvirt probes QEMU anew at each start, which takes 80 s
/// where KVM does not work, and QEMU's user could not use KVM.
std::optional<Effect> kvm_device_effect(const std::string& device);

}  // namespace virtrain::vmctl
