#pragma once

namespace virtrain {

/// PCI ids, as sysfs says them, of QEMU's device for teaching, "edu", whose DMA engine we can drive.
inline constexpr const char* edu_vendor = "0x1234";
inline constexpr const char* edu_device = "0x11e8";

}  // namespace virtrain
