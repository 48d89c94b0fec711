#include "vmctl/libvirt_handles.h"

#include <mutex>

namespace virtrain::vmctl {
namespace {

ErrorCode classify(const virError& error) {
  const std::string_view words = error.message ? error.message : "";
  if (error.code == VIR_ERR_NO_DOMAIN || error.code == VIR_ERR_NO_NETWORK) return ErrorCode::not_found;
  if (words.find("Active channel stream exists") != std::string_view::npos) return ErrorCode::busy;
  return ErrorCode::io;
}

void keep_quiet(void*, virErrorPtr) {}

}  // namespace

void throw_libvirt_error(const std::string& operation) {
  const virError* const error = virGetLastError();
  if (error == nullptr) throw Error(operation, ErrorCode::io, "libvirt failed without a message");
  throw Error(operation, classify(*error), error->message ? error->message : "libvirt gave no message");
}

void start_libvirt_event_loop() {
  static std::once_flag once;
  std::call_once(once, [] {
    virSetErrorFunc(nullptr, keep_quiet);
    if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0)
      throw_libvirt_error("start libvirt's events");
    std::thread([] {
      while (true)
        if (virEventRunDefaultImpl() < 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }).detach();
  });
}

ConnectionHandle open_libvirt(const std::string& uri) {
  start_libvirt_event_loop();
  virConnectPtr raw = virConnectOpen(uri.c_str());
  if (raw == nullptr) throw_libvirt_error("connect to " + uri);
  // Closing talks to the daemon; a daemon that hangs must not hang us.
  ConnectionHandle connection(raw,
                              [](virConnectPtr c) { std::thread([c] { virConnectClose(c); }).detach(); });
  constexpr int kIntervalSeconds = 5;
  constexpr unsigned kMissed = 3;
  virConnectSetKeepAlive(raw, kIntervalSeconds, kMissed);
  return connection;
}

}  // namespace virtrain::vmctl
