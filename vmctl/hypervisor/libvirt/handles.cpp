#include "vmctl/hypervisor/libvirt/handles.h"

#include <map>
#include <mutex>
#include <vector>

namespace virtrain::vmctl {
namespace {

ErrorCode classify(const virError& error) {
  const std::string_view words = error.message ? error.message : "";
  if (error.code == VIR_ERR_NO_DOMAIN || error.code == VIR_ERR_NO_NETWORK) { return ErrorCode::not_found; }
  if (words.find("Active channel stream exists") != std::string_view::npos) { return ErrorCode::busy; }
  return ErrorCode::io;
}

void keep_quiet(void*, virErrorPtr) {}

/// Actions for the end of a connection; libvirt allows one callback for each connection.
std::mutex actions_mutex;
std::multimap<virConnectPtr, std::function<void()>> actions;

std::vector<std::function<void()>> take_actions(virConnectPtr connection) {
  const std::scoped_lock lock(actions_mutex);
  std::vector<std::function<void()>> taken;
  const auto [first, last] = actions.equal_range(connection);
  for (auto at = first; at != last; ++at) { taken.push_back(std::move(at->second)); }
  actions.erase(first, last);
  return taken;
}

void on_closed(virConnectPtr connection, int, void*) {
  // Not here: libvirt holds locks of the connection during this call.
  detach_if_possible([todo = take_actions(connection)] {
    for (const auto& action : todo) { action(); }
  });
}

}  // namespace

void throw_libvirt_error(const std::string& operation) {
  const virError* const error = virGetLastError();
  if (error == nullptr) { throw Error(operation, ErrorCode::io, "libvirt failed without a message"); }
  throw Error(operation, classify(*error), error->message ? error->message : "libvirt gave no message");
}

void start_libvirt_event_loop() {
  static std::once_flag once;
  std::call_once(once, [] {
    virSetErrorFunc(nullptr, keep_quiet);
    if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0) {
      throw_libvirt_error("start libvirt's events");
    }
    detach([] {
      while (true) {
        if (virEventRunDefaultImpl() < 0) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
      }
    });
  });
}

ConnectionHandle open_libvirt(const std::string& uri) {
  start_libvirt_event_loop();
  virConnectPtr raw = virConnectOpen(uri.c_str());
  if (raw == nullptr) { throw_libvirt_error("connect to " + uri); }
  // Closing talks to the daemon; a daemon that hangs must not hang us.
  ConnectionHandle connection(raw, [](virConnectPtr c) {
    take_actions(c);
    detach_if_possible([c] {
      virConnectUnregisterCloseCallback(c, on_closed);
      virConnectClose(c);
    });
  });
  virConnectRegisterCloseCallback(raw, on_closed, nullptr, nullptr);
  constexpr int interval_seconds = 5;
  constexpr unsigned missed = 3;
  virConnectSetKeepAlive(raw, interval_seconds, missed);
  return connection;
}

void when_closed(const ConnectionHandle& connection, std::function<void()> action) {
  const std::scoped_lock lock(actions_mutex);
  actions.emplace(connection.get(), std::move(action));
}

}  // namespace virtrain::vmctl
