#include "harness/security/tenant_searches.h"

#include <fmt/format.h>

#include "common/contains.h"
#include "common/error.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/agent/client/run_in_node.h"
#include "harness/job/guest_gpus.h"
#include "harness/job/programs.h"
#include "harness/security/foreign_devices.h"
#include "harness/security/guest_channels.h"
#include "harness/security/network_searches.h"
#include "harness/security/node_memory.h"

namespace virtrain::harness {
namespace {

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

}  // namespace

asio::awaitable<void> run_tenant_searches(RunContext& context, std::vector<LiveNode>& nodes,
                                          const ArmCanaries& canaries, bool mirror,
                                          std::function<void(results::LeakSearch)> done) {
  TenantSearches searches(context, nodes, canaries, mirror, std::move(done));
  co_await searches.run();
}

}  // namespace virtrain::harness
