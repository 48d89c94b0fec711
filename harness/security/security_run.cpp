#include "harness/security/security_run.h"

#include <fmt/format.h>

#include <set>

#include "common/error.h"
#include "common/system/log.h"
#include "common/text/units.h"
#include "harness/plan/node_group.h"
#include "harness/security/device_memory.h"
#include "harness/security/device_peer.h"
#include "harness/security/foreign_devices.h"
#include "harness/security/guest_channels.h"
#include "harness/security/network_searches.h"
#include "harness/security/searched_nodes.h"
#include "harness/security/tenant_searches.h"

namespace virtrain::harness {
namespace {

constexpr const char* leftovers_search = "leftovers";
constexpr const char* modes_search = "file_modes";
constexpr const char* image_canary_file = "/usr/share/virtrain-canary";

std::vector<std::string> names_of_tenants_searches(const SecurityArm& arm) {
  auto names = network_search_names();
  names.emplace_back("shared_memory");
  if (runs_in_vms(arm.base)) { names.emplace_back(channels_search); }
  for (const char* name : {foreign_devices_search, "host_files", leftovers_search, modes_search}) {
    names.emplace_back(name);
  }
  return names;
}

std::vector<std::string> search_names(const SecurityArm& arm, bool devices_only) {
  auto names = devices_only ? std::vector<std::string>{} : names_of_tenants_searches(arm);
  if (arm.device_placement) {
    names.insert(names.end(),
                 {killed_run_device_memory_search, device_memory_search, killed_device_memory_search,
                  shutdown_device_memory_search, device_peer_search});
  }
  return names;
}

/// The searches of one arm.
class SecurityArmRun {
 public:
  SecurityArmRun(RunContext& context, const SecurityArm& arm, const SecurityOptions& options)
      : context_(context), arm_(arm), options_(options), placement_(context.plan.placements[arm.placement]) {}

  /// False: its nodes could not be had to the end.
  asio::awaitable<bool> run() {
    if (!arm_.lacks.empty()) {
      LeakEvidence evidence;
      evidence.lacks = arm_.lacks;
      tell_missing(evidence);
      co_return true;
    }
    if (is_for_device_only()) { co_return co_await search_device(); }
    const auto work = [this](LiveNodes& nodes) { return search_tenants(nodes); };
    const auto failure = co_await on_searched_nodes(context_, placement_, arm_.base, work);
    co_await context_.hosts.ask_only(&vmctl::Host::remove_planted);
    if (context_.stop.requested()) { co_return true; }
    if (failure) {
      tell_failure(failure);
      co_return false;
    }
    co_await look_at_leftovers();
    co_return co_await search_device();
  }

 private:
  void say(const std::string& line) const {
    if (context_.progress) { context_.progress(line); }
  }

  bool is_for_device_only() const { return options_.devices_only || options_.filled; }

  void tell(results::LeakSearch record) {
    record.arm = arm_.arm;
    told_.insert(record.name);
    if (!runs_in_vms(arm_.base)) {
      record.virtualization = to_string(Virtualization::none);
    } else if (context_.virtualization) {
      record.virtualization = to_string(*context_.virtualization);
    }
    context_.store.add_leak_searches(context_.experiment, {&record, 1});
    log::debug("leak search", {{"arm", record.arm}, {"search", record.name}, {"result", record.result}});
  }

  void tell_missing(const LeakEvidence& evidence) {
    for (const auto& name : search_names(arm_, is_for_device_only())) {
      if (!told_.contains(name)) { tell(to_record(evidence, name, "")); }
    }
  }

  void tell_failure(const std::exception_ptr& failure) {
    LeakEvidence evidence;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) { evidence.failure = error.what(); }  // anything else is no fault of a node
    evidence.failure = evidence.failure.substr(0, evidence.failure.find('\n'));
    log::error("leak searches failed", {{"arm", arm_.arm}, {"reason", evidence.failure}});
    context_.event(std::nullopt, "security", "leak searches failed",
                   {.reason = evidence.failure, .arm = arm_.arm});
    tell_missing(evidence);
  }

  /// Searches data that a tenant leaves in a device for the next one; false: its VMs could not be had to the
  /// end.
  asio::awaitable<bool> search_device() {
    if (!arm_.device_placement) { co_return true; }
    const auto done = [this](results::LeakSearch record) { tell(std::move(record)); };
    std::exception_ptr failure;
    try {
      if (is_for_device_only()) { co_await prepare_image({}); }
      co_await run_device_searches(context_, context_.plan.placements[*arm_.device_placement], options_,
                                   done);
      if (!options_.filled && !context_.stop.requested()) { co_await search_peers(); }
    } catch (...) { failure = std::current_exception(); }
    if (context_.stop.requested()) { co_return true; }
    if (failure) { tell_failure(failure); }
    co_return !failure;
  }

  /// Searches memory of others that one of its devices can read.
  asio::awaitable<void> search_peers() {
    auto evidence = no_known_engine();
    if (arm_.peer_placement) {
      evidence = co_await run_peer_search(context_, context_.plan.placements[*arm_.peer_placement]);
    }
    if (!context_.stop.requested()) {
      tell(to_record(evidence, device_peer_search, "tenant-b at tenant-a and the host"));
    }
  }

  asio::awaitable<void> search_tenants(LiveNodes& nodes) {
    for (const auto& path : co_await context_.hosts.ask_only(&vmctl::Host::plant, canaries_.host)) {
      canaries_.host_files.push_back(path.string());
    }
    if (runs_in_vms(arm_.base)) {
      std::map<std::string, std::string> texts;
      if (placement_.guest.is_mirror()) { texts[image_canary_file] = canaries_.image.text + "\n"; }
      co_await prepare_image(std::move(texts));
    }
    say("define");
    co_await nodes.define();
    say("boot");
    co_await nodes.boot();
    say("agent");
    co_await nodes.reach_agents();
    const auto done = [this](results::LeakSearch record) { tell(std::move(record)); };
    co_await run_tenant_searches(context_, nodes.nodes(), canaries_, placement_.guest.is_mirror(), done);
  }

  /// Made while the host's canaries are there, so that they would be in it if they could.
  asio::awaitable<void> prepare_image(std::map<std::string, std::string> texts) {
    say("image");
    const vmctl::ImageSpec spec{placement_.guest.image, lends_nvidia_devices(context_.plan), std::move(texts),
                                placement_.guest.packages};
    const auto image = co_await context_.hosts.ask(&RunHosts::make_image, spec);
    context_.virtualization = image.virtualization;
    context_.event(std::nullopt, "security", "guest image ready",
                   {.hash = image.hash, .virtualization = image.virtualization});
  }

  asio::awaitable<void> look_at_leftovers() {
    say("leak searches: leftovers");
    const auto control = make_canary("control");
    const std::vector<Canary> secrets{canaries_.secret};
    const auto found = co_await context_.hosts.ask_only(&vmctl::Host::search_leftovers, secrets, control);
    LeakEvidence evidence;
    evidence.unit = "B";
    evidence.control = found.has(control.name);
    evidence.scanned = static_cast<double>(found.scanned_bytes);
    evidence.total = static_cast<double>(found.total_bytes);
    for (const auto& one : found.found) {
      if (one.canary == control.name) { continue; }
      evidence.leaks.push_back(
          one.canary + " in " +
          words_of(canary::Finding{one.canary, one.path.string(), one.count, one.first, one.last}));
    }
    if (found.unreadable > 0) { evidence.limits = counted(found.unreadable, "file") + " could not be read"; }
    tell(to_record(evidence, leftovers_search, "the host after both tenants"));

    const auto modes = co_await context_.hosts.ask_only(&vmctl::Host::check_modes);
    LeakEvidence loose;
    loose.unit = "files";
    loose.control = modes.found_control;
    loose.scanned = loose.total = static_cast<double>(modes.files);
    for (const auto& one : modes.loose) {
      loose.leaks.push_back(
          fmt::format("{} has mode {:04o} (allowed: {:04o})", one.path.string(), one.mode, one.allowed));
    }
    tell(to_record(loose, modes_search, "other users of the host"));
  }

  RunContext& context_;
  const SecurityArm& arm_;
  const SecurityOptions& options_;
  const Placement& placement_;
  ArmCanaries canaries_;
  std::set<std::string> told_;
};

}  // namespace

asio::awaitable<std::int64_t> run_security(RunContext& context, const SecurityOptions& options) {
  std::int64_t failed = 0;
  for (const auto& arm : context.plan.security) {
    if (context.stop.requested()) { break; }
    SecurityArmRun run(context, arm, options);
    failed += co_await run.run() ? 0 : 1;
  }
  co_return failed;
}

}  // namespace virtrain::harness
