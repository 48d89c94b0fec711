#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <string>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "vmctl/api/host_mode.h"
#include "vmctl/process/signs_of_life.h"

namespace virtrain::vmctl {

/// A daemon's first look at QEMU takes minutes on a busy host; it is waited for while the daemon moves.
inline constexpr std::chrono::minutes first_look{15};
/// Where /dev/kvm is there and does not work, QEMU hangs in that look for 80 s, and the daemon waits for it.
inline constexpr std::chrono::seconds qemu_stands_still{150};

/// Makes sure that a libvirt daemon answers at `uri` for as long as it lives. Where none does and we are root
/// it starts virtlogd and libvirtd (or the modular daemons), and the last virtrain to go stops again exactly
/// what virtrain started, unless domains still run. A daemon whose starter was killed is adopted by the next:
/// state_dir() remembers.
class LibvirtDaemon {
 public:
  /// Throws Error(host_unable) with what to install or start; without `may_start` also where one would be
  /// started.
  explicit LibvirtDaemon(std::string uri = system_libvirt, bool may_start = true,
                         const Cancelled& cancelled = {},
                         std::chrono::milliseconds deadline = std::chrono::seconds(20));
  ~LibvirtDaemon();
  LibvirtDaemon(const LibvirtDaemon&) = delete;
  LibvirtDaemon& operator=(const LibvirtDaemon&) = delete;

  /// Whether this virtrain or one before it started the daemon.
  bool started_by_us() const;

 private:
  std::string uri_;
  UniqueFd users_;  ///< shared lock while somebody uses the daemon
};

enum class DaemonState {
  answers,
  busy,   ///< somebody listens, and did not answer within the deadline
  absent  ///< nobody does, or it refuses us
};

/// Looks at the libvirt daemon at `uri` and starts nothing. `why` receives libvirt's words if it does not
/// answer.
DaemonState look_at_libvirt(const std::string& uri, std::string* why = nullptr,
                            std::chrono::milliseconds deadline = std::chrono::seconds(5));

/// Whether a libvirt daemon answers at `uri` right now; starts nothing. `why` receives libvirt's words if
/// not.
bool libvirt_answers(const std::string& uri, std::string* why = nullptr);

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
