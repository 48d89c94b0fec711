#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "vmctl/journal/leases.h"

namespace virtrain::vmctl {

inline constexpr const char* kvm_device = "/dev/kvm";

/// Whether a mode lets QEMU's user, who is of group kvm, open a device.
bool lets_qemu_open(mode_t mode, bool of_group_kvm);
/// Effect that lets QEMU's user open the device (group kvm, mode 0660); nothing where it can, where there is
/// no such device or group, and where we are not root. Else libvirt probes QEMU anew at each start, which
/// takes 80 s where KVM does not work, and QEMU's user could not use KVM.
std::optional<Effect> kvm_device_effect(const std::string& device);

}  // namespace virtrain::vmctl
