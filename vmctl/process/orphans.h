#pragma once

namespace virtrain::vmctl {

/// From now on what daemons of ours leave behind (QEMU) is this process's child, and reaped as soon as it
/// ends. Else it is process 1's, which in many containers reaps late or never, and until then libvirt takes
/// it for alive and its end for stuck. Nothing changes where the kernel does not list children, nor for a
/// daemon that another process has started.
void adopt_orphans();

}  // namespace virtrain::vmctl
