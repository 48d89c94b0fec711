#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "harness/job/mpi_dialect.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "harness/trial/awaited_hosts.h"
#include "harness/trial/event_detail.h"
#include "results/store/store.h"

namespace virtrain::harness {

/// Everything one experiment's trials share. Lives on the thread of `io`; only blocking calls go to `pool`.
struct RunContext {
  asio::io_context& io;
  asio::thread_pool& pool;
  StopSource& stop;
  results::Store& store;
  AwaitedHosts hosts;
  const Scenario& scenario;
  const Plan& plan;
  std::string experiment;               ///< "20261120t083012-7f3a2b"
  std::set<std::string> boot_ids = {};  ///< of the hosts
  MpiDialect mpi = {};  ///< of the hosts, and so of their guests, which are made of their packages
  std::map<std::string, std::string> payloads = {};   ///< of jobs: the SHA-256 of each, by its path
  std::optional<Virtualization> virtualization = {};  ///< of VMs, once their image is there

  /// One line for people about what happens now.
  std::function<void(const std::string& line)> progress = {};

  /// Stores an event and logs it.
  void event(std::optional<std::int64_t> trial, const std::string& stage, const std::string& message,
             const EventDetail& detail = {});
};

}  // namespace virtrain::harness
