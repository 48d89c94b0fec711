#pragma once

#include <string>

namespace virtrain::vmctl {

/// How a run without root's privileges is contained.
enum class Containment {
  processes_only,  ///< no namespace: its processes are only kept together
  user_namespace,  ///< a user, network and mount namespace of its own, with all capabilities in them
};

/// Goes on in a child that is contained so. This process waits for it, passes signals on, kills whatever the
/// child left running (QEMU, libvirt's daemon) and exits with its status: nothing outlives a run, however it
/// ends. Returns in the child only; must come before the process has threads. Throws Error(host_unable).
void continue_contained(Containment containment);

/// Whether this process has the capabilities for namespaces, mounts and network devices.
bool may_isolate();

/// Makes what a slice needs (namespaces, mounts, a bridge) in a child, with this process's own privileges or
/// in a user namespace. Empty if all of it worked, else what failed and why.
std::string try_isolation();
std::string try_isolation_in_user_namespace();

}  // namespace virtrain::vmctl
