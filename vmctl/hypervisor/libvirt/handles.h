#pragma once

#include <fmt/format.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <signal.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "common/error.h"

namespace virtrain::vmctl {

struct LibvirtRelease {
  void operator()(virDomainPtr domain) const { virDomainFree(domain); }
  void operator()(virNetworkPtr network) const { virNetworkFree(network); }
  void operator()(virNodeDevicePtr device) const { virNodeDeviceFree(device); }
};
using DomainHandle = std::unique_ptr<virDomain, LibvirtRelease>;
using NetworkHandle = std::unique_ptr<virNetwork, LibvirtRelease>;
using NodeDeviceHandle = std::unique_ptr<virNodeDevice, LibvirtRelease>;
using ConnectionHandle = std::shared_ptr<virConnect>;

/// Throws the calling thread's last libvirt error in libvirt's own words.
[[noreturn]] void throw_libvirt_error(const std::string& operation);

/// Starts the process-wide libvirt event loop thread; must come before any connection. Also stops libvirt
/// from printing errors to stderr.
void start_libvirt_event_loop();

/// Opens a connection with keepalive. Blocks as long as libvirt does: call it inside with_deadline().
ConnectionHandle open_libvirt(const std::string& uri);

/// Runs `action` once, on a thread of its own, when the connection to the daemon breaks. libvirt itself tells
/// calls, but not the streams that wait for something to come.
void when_closed(const ConnectionHandle& connection, std::function<void()> action);

/// A thread of its own for libvirt's calls. They write to the daemon's socket, and a daemon that has just
/// gone must not end this process by SIGPIPE.
template <typename Work>
void detach(Work work) {
  std::thread([work = std::move(work)]() mutable {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, nullptr);
    work();
  }).detach();
}

/// Whether to wait on for a call past its deadline: true once the daemon has used CPU time while this looked,
/// so that it is slow (a busy host, its first look at QEMU) and not stuck.
bool libvirt_still_moves();

/// Runs a blocking libvirt call on a thread of its own and gives it up after the deadline: libvirt has no
/// timeouts. While the daemon moves, the deadline is extended up to five times.
/// `work` must own all it uses, since it may outlive the caller.
template <typename Work>
auto with_deadline(const std::string& operation, std::chrono::milliseconds deadline, Work work)
    -> decltype(work()) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  detach(std::move(task));
  constexpr int extensions = 5;
  for (int extended = 0; result.wait_for(deadline) != std::future_status::ready; ++extended) {
    if (extended == extensions || !libvirt_still_moves()) {
      throw Error(operation, ErrorCode::timeout,
                  fmt::format("libvirt did not answer within {} ms; is the daemon stuck?",
                              deadline.count() * (extended + 1)));
    }
  }
  return result.get();
}

}  // namespace virtrain::vmctl
