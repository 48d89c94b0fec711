#pragma once

namespace virtrain::harness {

/// Where this program is process 1 (of a container started with it), orphans come to it and somebody must
/// reap them: libvirt waits for a QEMU that nobody reaped as for one that does not die. Then a child goes on
/// with the program, and process 1 reaps, passes signals on and ends with the child's status. Elsewhere
/// nothing happens. Call before threads start.
void leave_first_process();

}  // namespace virtrain::harness
