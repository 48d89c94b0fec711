#pragma once

#include "common/enum_text.h"

namespace virtrain {

/// The layer between a node and the hardware.
VIRTRAIN_ENUM_CLASS(Virtualization, none, kvm, kvm_nested, kvm_on_emulated, tcg)

/// Whether libvirt's domain type is "kvm" (otherwise "qemu", TCG).
constexpr bool uses_kvm(Virtualization virtualization) {
  return virtualization == Virtualization::kvm || virtualization == Virtualization::kvm_nested ||
         virtualization == Virtualization::kvm_on_emulated;
}

/// Whether a processor was emulated below the guest, so that its speed says nothing of a real one's.
constexpr bool is_emulated(Virtualization virtualization) {
  return virtualization == Virtualization::tcg || virtualization == Virtualization::kvm_on_emulated;
}

}  // namespace virtrain
