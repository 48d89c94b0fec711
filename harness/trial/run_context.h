#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "harness/job/programs.h"
#include "harness/plan/plan.h"
#include "harness/scenario/scenario.h"
#include "harness/trial/offload.h"
#include "results/store/store.h"
#include "vmctl/guest/cloud/cloud_image.h"
#include "vmctl/guest/mirror/guest_image.h"
#include "vmctl/hypervisor/hypervisor.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/private_libvirt.h"
#include "vmctl/journal/leases.h"
#include "vmctl/process/privileges.h"
#include "vmctl/resources/device_lender.h"

namespace virtrain::harness {

/// What VM trials need, made when the first of them comes.
struct VmHost {
  std::unique_ptr<vmctl::LibvirtDaemon> daemon;           ///< the host's, in mode `system`
  std::unique_ptr<vmctl::PrivateLibvirt> private_daemon;  ///< this run's own, in the other modes
  std::unique_ptr<vmctl::Hypervisor> hypervisor;
  vmctl::GuestImage image;
  std::optional<vmctl::CloudImage> cloud_image;  ///< what guests boot from, if not from `image`
  vmctl::Virtualization virtualization = vmctl::Virtualization::tcg;
  std::string virtualization_reason;
  bool hide_arch_capabilities = false;  ///< see vmctl::DomainSpec
};

/// Everything one experiment's trials share. Lives on the thread of `io`; only blocking calls go to `pool`.
struct RunContext {
  asio::io_context& io;
  asio::thread_pool& pool;
  StopSource& stop;
  results::Store& store;
  vmctl::LeaseJournal& journal;
  vmctl::Owner owner;
  vmctl::DeviceLender& lender;
  const Scenario& scenario;
  const Plan& plan;
  std::string experiment;  ///< "20261120t083012-7f3a2b"
  std::string tag;         ///< its last six characters, for device names of at most 15
  vmctl::HostMode mode;
  std::filesystem::path log_dir;  ///< console and agent logs of this experiment
  Programs programs;
  std::optional<VmHost> vm_host;
  std::int64_t next_node_number = 1;

  /// One line for people about what happens now.
  std::function<void(const std::string& line)> progress;

  bool may_change_host = true;  ///< see ExperimentOptions

  /// Stores an event and logs it.
  void event(std::optional<std::int64_t> trial, const std::string& stage, const std::string& message,
             const nlohmann::json& detail = nullptr);
};

}  // namespace virtrain::harness
