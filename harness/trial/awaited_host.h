#pragma once

#include <boost/asio/thread_pool.hpp>

#include <chrono>

#include "harness/trial/offload.h"
#include "vmctl/api/host.h"

namespace virtrain::harness {

/// A host as the loop of an experiment may use it: calls that wait for the host are made on the pool and
/// awaited here, so that one that stands still holds up nothing else.
class AwaitedHost {
 public:
  AwaitedHost(vmctl::Host& host, asio::thread_pool& pool) : host_(host), pool_(pool) {}

  /// Makes the call, a method of vmctl::Host with its arguments, and resumes with what it returns or throws.
  template <typename Method, typename... Argument>
  auto ask(Method method, const Argument&... argument) {
    return offload(pool_, call(method, argument...));
  }
  /// The call, to be made on another thread: for LooseCalls.
  template <typename Method, typename... Argument>
  auto call(Method method, const Argument&... argument) {
    return [&host = host_, method, ... argument = argument] { return (host.*method)(argument...); };
  }

  /// As the host has last told; see vmctl::HostCounters.
  std::chrono::nanoseconds waiting_time(vmctl::NodeId node) const {
    const auto seen = host_.look();
    const auto found = seen.waiting.find(node);
    return found == seen.waiting.end() ? std::chrono::nanoseconds(0) : found->second;
  }

 private:
  vmctl::Host& host_;
  asio::thread_pool& pool_;
};

}  // namespace virtrain::harness
