#pragma once

#include <fmt/format.h>
#include <libvirt/libvirt.h>
#include <libvirt/virterror.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>

#include "common/error.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/process/signs_of_life.h"

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

/// As detach(), from libvirt's callbacks and from destructors, which must not throw: where no thread can be
/// made, the work is not done. What it would have closed ends with this process.
template <typename Work>
void detach_if_possible(Work work) noexcept {
  try {
    detach(std::move(work));
  } catch (const std::system_error&) {}
}

/// Runs a blocking libvirt call on a thread of its own and gives it up once no daemon has shown a sign of
/// life for as long as the deadline: libvirt has no timeouts. One that is slow (a busy host, its first look
/// at QEMU) has six times as long. `work` must own all it uses, since it may outlive the caller.
template <typename Work>
auto with_deadline(const std::string& operation, std::chrono::milliseconds deadline, Work work)
    -> decltype(work()) {
  std::packaged_task<decltype(work())()> task(std::move(work));
  auto result = task.get_future();
  detach(std::move(task));
  const auto began = std::chrono::steady_clock::now();
  const auto period = std::min<std::chrono::milliseconds>(deadline / 5, std::chrono::seconds(1));
  if (result.wait_for(period) == std::future_status::ready) { return result.get(); }
  SignsOfLife life(SignsOfLibvirt(), deadline - period, deadline * 6 - period);
  while (result.wait_for(period) != std::future_status::ready) {
    if (!life.gave_up()) { continue; }
    const auto waited = std::chrono::steady_clock::now() - began;
    throw Error(operation, ErrorCode::timeout,
                fmt::format("libvirt did not answer within {:.1f} s; is the daemon stuck?",
                            std::chrono::duration<double>(waited).count()));
  }
  return result.get();
}

}  // namespace virtrain::vmctl
