#include "harness/security/security_run.h"

#include <boost/asio/awaitable.hpp>
#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "common/contains.h"
#include "common/error.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/job/guest_gpus.h"
#include "harness/job/programs.h"
#include "harness/plan/node_group.h"
#include "harness/security/canary_tool.h"
#include "harness/security/device_memory.h"
#include "harness/security/device_peer.h"
#include "harness/security/foreign_devices.h"
#include "harness/security/guest_channels.h"
#include "harness/security/network_searches.h"
#include "harness/security/node_memory.h"
#include "harness/security/searched_nodes.h"
#include "harness/trial/live_nodes.h"

namespace virtrain::harness {
namespace {

/// Canaries of one arm that its nodes and the host have to do with.
struct ArmCanaries {
  Canary host = make_canary("a file of the host");                    ///< must not travel
  Canary image = make_canary("the image's own canary");               ///< travels in mirror images
  Canary secret = make_canary("a secret of tenant-a's environment");  ///< must not be left behind
  std::vector<std::string> host_files = {};                           ///< where `host` is planted
};

/// The tenants of the plan's placement: the first one has what the second one looks for.
inline constexpr const char* owner_tenant = "tenant-a";

inline constexpr const char* looking_tenant = "tenant-b";

constexpr std::chrono::seconds search_deadline{240};
constexpr std::chrono::seconds canary_deadline{60};
constexpr std::chrono::seconds reach_deadline{100};  // it scans ports for up to 40 s
constexpr std::int64_t search_seconds = 180;
constexpr std::uint64_t guest_bytes = std::uint64_t{64} << 30, slice_bytes = std::uint64_t{2} << 30;

/// The same file for both: only its canary tells whose it is.
constexpr const char* shared_memory_file = "/dev/shm/virtrain-canary";

class TenantSearches {
 public:
  TenantSearches(RunContext& context, std::vector<LiveNode>& nodes, const ArmCanaries& canaries, bool mirror,
                 std::function<void(results::LeakSearch)> done)
      : context_(context), canaries_(canaries), mirror_(mirror), done_(std::move(done)) {
    for (auto& node : nodes) {
      if (node.made.tenant == 0) { owner_ = &node; }
      if (node.made.tenant == 1) { (looking_ == nullptr ? looking_ : peer_) = &node; }
    }
  }

  asio::awaitable<void> run() {
    const std::string at_owner = fmt::format("{} at {}", looking_tenant, owner_tenant);
    const std::string at_host = fmt::format("{} at the host", looking_tenant);
    say("networks");
    co_await network(at_owner, at_host);
    say("shared memory");
    co_await attempt("shared_memory", at_owner, [this] { return shared_memory(); });
    if (looking_->made.has_own_kernel) {
      co_await attempt(channels_search, at_owner, [this] { return channels(); });
    }
    say("devices");
    co_await attempt(foreign_devices_search, at_host, [this] { return devices(); });
    say("files of the host");
    co_await attempt("host_files", at_host, [this] { return host_files(); });
    co_await leave_secret();
  }

 private:
  void say(const std::string& what) const {
    if (context_.progress) { context_.progress("leak searches: " + what); }
  }

  void tell(const LeakEvidence& evidence, const std::string& name, const std::string& tenants) {
    done_(to_record(evidence, name, tenants));
  }

  template <typename Look>
  asio::awaitable<void> attempt(const char* name, std::string tenants, Look look) {
    LeakEvidence evidence;
    try {
      evidence = co_await look();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted || looking_->agent->is_lost()) { throw; }
      evidence.failure = error.what();
    }
    tell(evidence, name, tenants);
  }

  asio::awaitable<canary::Searched> search(std::vector<Canary> canaries, std::vector<std::string> roots,
                                           std::uint64_t bytes) {
    canary::SearchRequest request{texts_of(canaries), std::move(roots), bytes, search_seconds};
    co_return co_await ask_canary(context_, *looking_, std::move(request), search_deadline);
  }

  asio::awaitable<void> network(std::string at_owner, std::string at_host) {
    std::string failure;
    try {
      const auto addresses = co_await context_.hosts.ask_only(&vmctl::Host::addresses);
      NetworkSearches searches(addresses, looking_->placement->address, peer_->placement->address);
      for (auto& [node, listener] : searches.listeners(*owner_, *peer_, *looking_)) {
        listener.said = co_await ask_canary(context_, *node, listener.request, canary_deadline);
      }
      const bool own_kernel = looking_->made.has_own_kernel;
      auto request = searches.request(own_kernel);
      const auto reach = co_await ask_canary(context_, *looking_, std::move(request), reach_deadline);
      for (const auto& [name, evidence] : searches.judge(reach, own_kernel)) {
        tell(evidence, name, name == host_addresses_search ? at_host : at_owner);
      }
      co_return;
    } catch (const Error& error) {
      if (error.code() == ErrorCode::interrupted || looking_->agent->is_lost()) { throw; }
      failure = error.what();
    }
    for (const auto& name : network_search_names()) {
      LeakEvidence evidence;
      evidence.failure = failure;
      tell(evidence, name, name == host_addresses_search ? at_host : at_owner);
    }
  }

  asio::awaitable<LeakEvidence> shared_memory() {
    const auto theirs = make_canary(std::string(owner_tenant) + "'s canary");
    const auto own = make_canary(std::string(looking_tenant) + "'s own");
    const std::string control_file = std::string(shared_memory_file) + "-control";
    co_await owner_->agent->write_file(shared_memory_file, theirs.text);
    co_await owner_->agent->write_file("/tmp/virtrain-canary", theirs.text);
    co_await looking_->agent->write_file(control_file, own.text);
    std::vector<Canary> canaries{theirs, own};
    std::vector<std::string> roots{"/dev/shm", "/tmp"};
    const auto found = co_await search(std::move(canaries), std::move(roots), slice_bytes);
    co_return evidence_of(found, {own.name});
  }

  asio::awaitable<LeakEvidence> channels() {
    const std::string folder = "/sys/class/virtio-ports";
    std::vector<std::string> list{"ls", folder};
    const auto listed = co_await run_in_node(context_.io, looking_->agent, std::move(list), canary_deadline);
    std::vector<GuestPort> ports;
    constexpr std::size_t most_ports = 64;  // what virtrain gives a guest are two
    for (const auto& port : split(listed, '\n')) {
      if (trim(port).empty()) { continue; }
      if (ports.size() == most_ports) {
        throw Error("list the guest's channels", ErrorCode::protocol,
                    fmt::format("it claims to have more than {}", most_ports));
      }
      const auto name = co_await looking_->agent->read_file(fmt::format("{}/{}/name", folder, trim(port)));
      ports.push_back({excerpt(trim(port)), excerpt(trim(name))});
    }
    co_return channel_evidence(ports, looking_->placement->planted_channel);
  }

  asio::awaitable<LeakEvidence> devices() {
    const bool own_kernel = looking_->made.has_own_kernel;
    canary::FunctionsRequest request;
    if (own_kernel) { request.known = functions_of_machine(); }
    const auto seen = co_await ask_canary(context_, *looking_, std::move(request), canary_deadline);
    co_return foreign_devices(seen, own_kernel);
  }

  asio::awaitable<LeakEvidence> host_files() {
    const auto own = make_canary(std::string(looking_tenant) + "'s own file");
    const std::string own_file = "/tmp/virtrain-canary-own";
    co_await looking_->agent->write_file(own_file, own.text);
    std::vector<Canary> canaries{canaries_.host, own};
    std::vector<std::string> controls{own.name}, roots{"/tmp", "/dev/shm"};
    if (!looking_->made.has_own_kernel) {
      roots.insert(roots.end(), canaries_.host_files.begin(), canaries_.host_files.end());
      const auto seen = co_await search(std::move(canaries), std::move(roots), slice_bytes);
      co_return evidence_of(seen, controls);
    }
    if (mirror_) {
      canaries.push_back(canaries_.image);
      controls.push_back(canaries_.image.name);
      roots.insert(roots.end(), {"/dev/vda", "/etc", "/root", "/home", "/run", "/var"});
    } else {
      roots = {"/"};
    }
    const auto seen = co_await search(std::move(canaries), std::move(roots), guest_bytes);
    co_return evidence_of(seen, controls);
  }

  /// As a workload's environment has licence keys and passwords, and a guest its vGPU's licence token; and in
  /// files of the node that go with it.
  asio::awaitable<void> leave_secret() {
    NodeInput input;
    input.environment["VIRTRAIN_SECRET"] = canaries_.secret.text;
    const canary::SearchRequest request{texts_of({canaries_.secret}), {"/dev/null"}, 1, 1};
    input.standard_input = request_text(request);
    std::vector<std::string> argv{owner_->made.programs.at(canary_program), "search"};
    co_await run_in_node(context_.io, owner_->agent, std::move(argv), canary_deadline, std::move(input));
    std::vector<std::string> files{"/tmp/secret", "/dev/shm/secret"};
    if (owner_->made.has_own_kernel) {
      files.emplace_back("/root/secret");
      co_await write_licence_token(context_.io, owner_->agent, canaries_.secret.text);
    }
    for (const auto& file : files) { co_await owner_->agent->write_file(file, canaries_.secret.text, 0600); }
  }

  RunContext& context_;
  const ArmCanaries& canaries_;
  bool mirror_;
  std::function<void(results::LeakSearch)> done_;
  LiveNode* owner_ = nullptr;
  LiveNode* looking_ = nullptr;
  LiveNode* peer_ = nullptr;
};

/// Searches of one arm while its nodes are up. `done` gets each record as soon as it is there. A search that
/// fails is `inconclusive` and does not stop the others; throws only what ends the arm (a stop, a lost node).
asio::awaitable<void> run_tenant_searches(RunContext& context, std::vector<LiveNode>& nodes,
                                          const ArmCanaries& canaries, bool mirror,
                                          std::function<void(results::LeakSearch)> done) {
  TenantSearches searches(context, nodes, canaries, mirror, std::move(done));
  co_await searches.run();
}

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
