#include "harness/security/device_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/security/node_memory.h"
#include "harness/security/searched_nodes.h"

namespace virtrain::harness {
namespace {

using vmctl::BetweenTenants;

constexpr std::uint64_t all_bytes = std::uint64_t{1} << 50, control_bytes = std::uint64_t{64} << 20;

class DeviceSearches {
 public:
  DeviceSearches(RunContext& context, const Placement& placement, const SecurityOptions& options,
                 std::function<void(results::LeakSearch)> done)
      : context_(context),
        placement_(placement),
        device_(placement.tenants[0].nodes[0].devices.at(0)),
        options_(options),
        done_(std::move(done)) {}

  asio::awaitable<void> run() {
    const auto begin = [this](LiveNode& node) { return look_and_fill_first(node); };
    co_await as_tenant("fill", begin);
    if (options_.filled || context_.stop.requested()) { co_return; }
    if (!lacks_.empty()) {
      tell_lack();
      co_return;
    }
    const auto look_and_die = [this](LiveNode& node) { return look_fill_and_die(node); };
    co_await as_tenant("search", look_and_die);
    if (context_.stop.requested()) { co_return; }
    const auto look_and_end = [this](LiveNode& node) { return look_fill_and_shut_down(node); };
    co_await as_tenant("search after kill -9", look_and_end);
    if (context_.stop.requested()) { co_return; }
    const auto look_last = [this](LiveNode& node) {
      return look(node, shutdown_device_memory_search, shut_down);
    };
    co_await as_tenant("search after a shutdown", look_last);
  }

 private:
  static constexpr const char* owner = "tenant-a's canary";
  static constexpr const char* torn_down = "tenant-b after tenant-a's end";
  static constexpr const char* shut_down = "tenant-b after tenant-a's shutdown";
  static constexpr const char* killed = "tenant-b after tenant-a's kill -9";
  static constexpr const char* run_killed = "tenant-b after kill -9 of tenant-a's run";

  /// One VM that gets the device, as a tenant's would in a trial of its own.
  template <typename Work>
  asio::awaitable<void> as_tenant(const char* what, Work work) {
    if (context_.progress) { context_.progress(std::string("leak searches: device memory, ") + what); }
    const auto live = [this, &work](LiveNodes& nodes) -> asio::awaitable<void> {
      co_await lend_and_boot(context_, placement_, nodes);
      co_await work(nodes.nodes().front());
    };
    const std::string base = arm_vm;
    const auto failure = co_await on_searched_nodes(context_, placement_, base, live);
    if (failure) { std::rethrow_exception(failure); }
  }

  /// The first tenant: what a disk's owner keeps there is not overwritten.
  asio::awaitable<void> look_and_fill_first(LiveNode& node) {
    const auto memory = co_await memory_in_node(context_, node, {&device_, 1});
    if (!memory.lacks.empty()) {
      lacks_ = memory.lacks;
    } else if (memory.paths.empty()) {
      lacks_ = "the guest sees no memory of the device: no NVMe namespace, no prefetchable region";
    } else if (memory.holds_data) {
      lacks_ = fmt::format(
          "the disk {} holds data, which the search would overwrite (between_tenants: erase allows it; or "
          "overwrite it yourself: blkdiscard --zeroout)",
          device_.grant.address);
    }
    paths_ = memory.paths;
    if (options_.filled) {
      if (lacks_.empty()) { co_await fill(node); }
      options_.filled({context_.experiment, device_.grant.address, canary_, filled_, lacks_});
    } else if (lacks_.empty()) {
      co_await look_after_killed_run(node);
    }
  }

  /// Fills the device, too.
  asio::awaitable<void> look_after_killed_run(LiveNode& node) {
    LeakEvidence evidence;
    if (!options_.killed) {
      evidence.lacks = "only virtrain isolate --security FILE kills a run to see what it leaves";
    } else {
      evidence.lacks = options_.killed->lacks;
      evidence.failure = options_.killed->failure;
      if (evidence.lacks.empty() && evidence.failure.empty() &&
          options_.killed->device != device_.grant.address) {
        evidence.failure =
            "the run that was killed had another device, " + printable(options_.killed->device);
      }
    }
    if (!evidence.lacks.empty() || !evidence.failure.empty()) {
      done_(to_record(evidence, killed_run_device_memory_search, run_killed));
      co_await fill(node);
      co_return;
    }
    canary_ = options_.killed->canary;
    filled_ = options_.killed->filled;
    co_await look(node, killed_run_device_memory_search, run_killed);
  }

  /// All of it, with the canary that the next tenant looks for.
  asio::awaitable<void> fill(LiveNode& node) {
    canary_ = make_canary(owner);
    filled_ = co_await fill_in_node(context_, node, paths_, canary_);
  }

  asio::awaitable<void> look(LiveNode& node, const char* name, const char* tenants) {
    paths_ = (co_await memory_in_node(context_, node, {&device_, 1})).paths;
    const auto found = co_await search_in_node(context_, node, paths_, canary_, all_bytes);
    const auto filled = filled_;
    co_await fill(node);
    const auto own = co_await search_in_node(context_, node, paths_, canary_, control_bytes);
    const bool found_own = own.has(owner) || filled_.read_back;
    done_(to_record(device_evidence(device_, filled, found, found_own), name, tenants));
  }

  /// The canary that was its control is what the next one looks for.
  asio::awaitable<void> look_fill_and_die(LiveNode& node) {
    co_await look(node, device_memory_search, torn_down);
    co_await context_.hosts.ask(&RunHosts::kill, node.made.id);
  }

  /// The guest's own way out: its kernel lets go of the device, and QEMU ends by itself.
  asio::awaitable<void> look_fill_and_shut_down(LiveNode& node) {
    co_await look(node, killed_device_memory_search, killed);
    ProcessSpec command;
    command.argv = {"sh", "-c", vmctl::power_off_command};
    ProcessEvents unheard;  // it ends with its agent
    unheard.on_output = [](OutputStream, std::string_view, std::int64_t) {};
    unheard.on_exit = [](int) {};
    co_await node.agent->start(command, std::move(unheard));
    co_await context_.hosts.ask(&RunHosts::await_end, node.made.id);
  }

  void tell_lack() {
    LeakEvidence evidence;
    evidence.lacks = lacks_;
    done_(to_record(evidence, killed_run_device_memory_search, run_killed));
    done_(to_record(evidence, device_memory_search, torn_down));
    done_(to_record(evidence, killed_device_memory_search, killed));
    done_(to_record(evidence, shutdown_device_memory_search, shut_down));
  }

  RunContext& context_;
  const Placement& placement_;
  const vmctl::PlacedDevice& device_;
  const SecurityOptions& options_;
  std::function<void(results::LeakSearch)> done_;
  std::vector<std::string> paths_;
  canary::Filled filled_;
  Canary canary_;
  std::string lacks_;
};

}  // namespace

std::string cure_for(const vmctl::DeviceGrant& grant, const std::string& path) {
  if (vmctl::is_made_for_each_vm(grant)) {
    return "the vGPU manager did not clear it: assign all vGPUs of this card to one tenant only";
  }
  const auto policy = grant.between_tenants;
  const bool is_disk = path.starts_with("/dev/");
  if (policy == BetweenTenants::erase || (policy == BetweenTenants::reset && !is_disk)) {
    return fmt::format("devices.between_tenants: {} did not clear it: assign it to one tenant only",
                       to_string(policy));
  }
  return is_disk ? "cure: devices.between_tenants: erase"
                 : "cure, if a reset clears it: devices.between_tenants: reset";
}

LeakEvidence device_evidence(const vmctl::PlacedDevice& device, const canary::Filled& filled,
                             const canary::Searched& search, bool found_own) {
  LeakEvidence evidence;
  evidence.unit = "B";
  evidence.total = static_cast<double>(std::max(filled.total, search.total_bytes));
  evidence.scanned = static_cast<double>(std::min(filled.bytes, search.scanned_bytes));
  evidence.control = found_own;
  for (const auto& one : search.found) {
    evidence.leaks.push_back(
        fmt::format("{} on {} ({}) in {}", one.canary, device.grant.address, device.name, words_of(one)));
  }
  if (!evidence.leaks.empty()) { evidence.limits = cure_for(device.grant, search.found[0].path); }
  return evidence;
}

asio::awaitable<void> run_device_searches(RunContext& context, const Placement& placement,
                                          const SecurityOptions& options,
                                          std::function<void(results::LeakSearch)> done) {
  DeviceSearches searches(context, placement, options, std::move(done));
  co_await searches.run();
}

}  // namespace virtrain::harness
