#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/model/described.h"
#include "common/model/virtualization.h"
#include "harness/job/rank_command.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "harness/trial/offload.h"
#include "results/store/store.h"

namespace virtrain::harness {

/// Facts beside an event's message, each where it applies: the column `detail` has those that are there.
struct EventDetail {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, reason, {}, .text = "Why it happened");
  VIRTRAIN_FIELD(std::optional<std::string>, node, {}, .text = "Name of the node");
  VIRTRAIN_FIELD(std::optional<std::string>, arm, {}, .text = "Name of the arm");
  VIRTRAIN_FIELD(std::optional<std::string>, case_name, {}, .text = "Name of the case", .name = "case");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, count, {}, .text = "Devices or processes");
  VIRTRAIN_FIELD(std::optional<double>, seconds, {}, .text = "How long it took");
  VIRTRAIN_FIELD(std::optional<std::uint64_t>, graphs, {}, .text = "Graphs whose engines differ");
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, failures, {},
                 .text = "Devices that could not be given back, and why");
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, left, {}, .text = "What could not be removed");
  VIRTRAIN_FIELD(std::optional<std::string>, xml_that_mends_it, {},
                 .text = "XML with which the guest's devices would be as planned");
  VIRTRAIN_FIELD(std::optional<std::string>, hash, {}, .text = "Hash of the guest image");
  VIRTRAIN_FIELD(std::optional<std::string>, kernel, {}, .text = "Kernel of the guest image");
  VIRTRAIN_FIELD(std::optional<std::string>, boots, {}, .text = "Kernel and root that guests boot");
  VIRTRAIN_FIELD(std::optional<bool>, from_cache, {}, .text = "Whether the image was there already");
  VIRTRAIN_FIELD(std::optional<Virtualization>, virtualization, {}, .text = "What VMs run on");
};

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
