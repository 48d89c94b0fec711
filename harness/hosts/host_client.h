#pragma once

#include <memory>

#include "harness/hosts/launcher.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// The host at the other end; starting it is done. Calls may be made from several threads.
std::unique_ptr<vmctl::Host> host_client(HostProcess process);

/// While it lives, its thread has a loop that nothing may hold up: a call of a host there that waits for an
/// answer ends in Error(protocol), and the host hears nothing of it.
class LoopThread {
 public:
  LoopThread();
  ~LoopThread();
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

 private:
  const bool before_;
};

/// This machine, or a recorded one.
std::unique_ptr<vmctl::Host> local_host(const HostRequest& request);

}  // namespace virtrain::harness
