#pragma once

#include <chrono>
#include <string>

namespace virtrain::vmctl {

/// Makes sure that a libvirt daemon answers at `uri` for as long as it lives. Where none does and we are root
/// it starts virtlogd and libvirtd (or the modular daemons), and stops again exactly what it started, unless
/// domains still run. A daemon whose starter was killed is adopted: the pid files under state_dir() say that
/// virtrain started it.
class LibvirtDaemon {
 public:
  /// Throws Error(host_unable) with what to install or start.
  explicit LibvirtDaemon(std::string uri = "qemu:///system",
                         std::chrono::milliseconds deadline = std::chrono::seconds(20));
  ~LibvirtDaemon();
  LibvirtDaemon(const LibvirtDaemon&) = delete;
  LibvirtDaemon& operator=(const LibvirtDaemon&) = delete;

  /// Whether this object (or a killed virtrain before it) started the daemon.
  bool started_by_us() const { return started_by_us_; }

 private:
  std::string uri_;
  bool started_by_us_ = false;
};

/// Whether a libvirt daemon answers at `uri` right now; starts nothing. `why` receives libvirt's words.
bool libvirt_answers(const std::string& uri, std::string* why = nullptr);

}  // namespace virtrain::vmctl
