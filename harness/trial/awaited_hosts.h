#pragma once

#include <boost/asio/thread_pool.hpp>

#include <chrono>

#include "harness/hosts/run_hosts.h"
#include "harness/trial/offload.h"

namespace virtrain::harness {

/// The hosts of a run as the loop of an experiment may use them: calls that wait for a host are made on the
/// pool and awaited here, so that one that stands still holds up nothing else.
class AwaitedHosts {
 public:
  AwaitedHosts(RunHosts& hosts, asio::thread_pool& pool) : hosts_(hosts), pool_(pool) {}

  /// Makes the call, a method of RunHosts with its arguments, and resumes with what it returns or throws.
  template <typename Method, typename... Argument>
  auto ask(Method method, const Argument&... argument) {
    return offload(pool_, call(method, argument...));
  }
  /// The call, to be made on another thread: for LooseCalls.
  template <typename Method, typename... Argument>
  auto call(Method method, const Argument&... argument) {
    return [&hosts = hosts_, method, ... argument = argument] { return (hosts.*method)(argument...); };
  }
  /// A method of vmctl::Host, of a run that has one host.
  template <typename Method, typename... Argument>
  auto ask_only(Method method, const Argument&... argument) {
    return offload(pool_, [&host = hosts_.only(), method, ... argument = argument] {
      return (host.*method)(argument...);
    });
  }

  std::chrono::nanoseconds waiting_time(vmctl::NodeId node) const { return hosts_.waiting_time(node); }

 private:
  RunHosts& hosts_;
  asio::thread_pool& pool_;
};

}  // namespace virtrain::harness
