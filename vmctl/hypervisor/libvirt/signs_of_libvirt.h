#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>

#include "vmctl/process/signs_of_life.h"

namespace virtrain::vmctl {

/// Shows that libvirt's daemons on this host are alive, by growth since the last look: the CPU time that they
/// and their questions to QEMU have used, and how long these have waited for a core or for the disk. The VMs
/// that they started do not count.
class SignsOfLibvirt {
 public:
  /// In hundredths of a second: a daemon that hangs still answers keepalive, in much less.
  std::chrono::nanoseconds operator()();

 private:
  std::map<pid_t, WaitingTime> waiting_;
};

}  // namespace virtrain::vmctl
