#include "harness/hosts/host_client.h"

#include <boost/asio/post.hpp>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "common/error.h"
#include "common/frames/frame_link.h"
#include "common/system/log.h"
#include "common/text/printable.h"
#include "common/version.h"
#include "harness/hosts/launcher.h"
#include "harness/hosts/slurm.h"
#include "vmctl/api/protocol/calls.h"
#include "vmctl/api/protocol/messages.h"

namespace virtrain::harness {
namespace {

using namespace vmctl;
using nlohmann::json;

constexpr std::chrono::seconds greeting_deadline{30};
/// How long a host process may take to undo what a failed run has left there.
constexpr std::chrono::minutes undo_deadline{5};
/// The same for a launcher that has not started one: it has nothing to undo.
constexpr std::chrono::seconds never_started_deadline{3};

/// The decoder's words where something else than frames comes.
constexpr const char* garbled = "read frame";

thread_local bool must_not_wait = false;

class HostClient final : public Host {
 public:
  explicit HostClient(HostProcess process)
      : name_(std::move(process.name)),
        allocated_(std::move(process.allocated)),
        pid_(process.pid),
        words_(io_, std::move(process.err), name_),
        link_(io_, std::move(process.in), std::move(process.out),
              {.message = [this](const json& message) { take(message); },
               .end = [this](const std::string& why) { lose(why); }},
              {.first = greeting_deadline}) {
    auto greeted = greeting_.get_future();
    link_.send(to_json(Hello{virtrain_version, protocol_digest()}));
    link_.start();
    words_.start();
    thread_ = std::thread([this] { io_.run(); });
    try {
      if (greeted.wait_for(greeting_deadline) != std::future_status::ready) {
        throw Error("talk to virtrain-host", ErrorCode::timeout, "no greeting came within 30 s");
      }
      greeted.get();
      works_ = true;
    } catch (const Error& error) {
      stop();
      throw Error(named(error.operation()), error.code(), why_not_started(error));
    }
  }

  ~HostClient() override { stop(); }

  Inventory inventory(bool with_users) override {
    auto inventory = ask<&Host::inventory>(with_users);
    if (allocated_) { keep_allocated(inventory, *allocated_, name_); }
    return inventory;
  }
  std::map<std::string, std::string> fingerprint() override { return ask<&Host::fingerprint>(); }
  DeviceListing devices() override { return ask<&Host::devices>(); }
  std::vector<int> numa_nodes_of(const std::vector<int>& cores) override {
    return ask<&Host::numa_nodes_of>(cores);
  }
  HostAddresses addresses() override { return ask<&Host::addresses>(); }
  HostNetworkFacts look_at_network(const HostNetwork& network) override {
    return ask<&Host::look_at_network>(network);
  }
  std::string planned_xml(const NodeGroupSpec& group, std::size_t tenant, std::size_t node, NodeId number,
                          bool emulated) override {
    // Nodes of other tenants are not in it, and a plan asks for each node of a thousand tenants.
    NodeGroupSpec own{group.kind, group.guest, {}, group.network};
    own.tenants.resize(tenant + 1);
    own.tenants[tenant] = group.tenants.at(tenant);
    return ask<&Host::planned_xml>(own, tenant, node, number, emulated);
  }
  std::string nccl_topology_of(const std::string& xml) override { return ask<&Host::nccl_topology_of>(xml); }
  std::string domain_xml_of(const std::string& domain) override { return ask<&Host::domain_xml_of>(domain); }
  std::filesystem::path log_root() override { return ask<&Host::log_root>(); }
  void record(const std::filesystem::path& folder) override { ask<&Host::record>(folder); }

  std::vector<Finding> examine(HostMode mode) override { return ask<&Host::examine>(mode); }
  std::vector<CheckDescription> checks() override { return ask<&Host::checks>(); }
  std::vector<Finding> examine_devices(const std::optional<std::vector<DeviceDemand>>& demands) override {
    return ask<&Host::examine_devices>(demands);
  }
  Privileges privileges() override { return ask<&Host::privileges>(); }
  std::string lacks_user_namespaces() override { return ask<&Host::lacks_user_namespaces>(); }
  std::string lacks_system_libvirt() override { return ask<&Host::lacks_system_libvirt>(); }
  std::string closed_to_qemu() override { return ask<&Host::closed_to_qemu>(); }
  std::vector<std::string> lacks_limits(NodeKind kind, const NodeLimits& limits) override {
    return ask<&Host::lacks_limits>(kind, limits);
  }
  void check_guest(const GuestSpec& guest) override { ask<&Host::check_guest>(guest); }
  CudaHost look_at_cuda(const std::string& trainer) override { return ask<&Host::look_at_cuda>(trainer); }
  bool has_image(const ImageSpec& spec, const std::vector<std::string>& programs) override {
    return ask<&Host::has_image>(spec, programs);
  }

  std::filesystem::path begin(const RunSpec& run) override { return ask<&Host::begin>(run); }
  void acquire(const std::vector<std::string>& resources) override { ask<&Host::acquire>(resources); }
  void end(bool stored) override { ask<&Host::end>(stored); }
  std::string take_payload(const std::string& path) override { return ask<&Host::take_payload>(path); }
  ImageFacts make_image(const ImageSpec& spec) override { return ask<&Host::make_image>(spec); }
  void cancel() override { tell<&Host::cancel>(); }

  void keep_services_away(const std::vector<DeviceGrant>& grants) override {
    ask<&Host::keep_services_away>(grants);
  }
  std::size_t lend(const std::vector<DeviceGrant>& grants, const CardSettings& cards) override {
    return ask<&Host::lend>(grants, cards);
  }
  void set(const std::vector<DeviceGrant>& grants, const DeviceSettings& wanted) override {
    ask<&Host::set>(grants, wanted);
  }
  std::vector<std::string> give_back() override { return ask<&Host::give_back>(); }
  std::vector<std::string> end_lending() override { return ask<&Host::end_lending>(); }

  NodeGroup plan_nodes(const NodeGroupSpec& spec) override { return ask<&Host::plan_nodes>(spec); }
  void make_networks(NodeGroupId group) override { ask<&Host::make_networks>(group); }
  NodeStream start(NodeId node) override;
  NodeCounters counters(NodeId node) override { return ask<&Host::counters>(node); }
  LastWords last_words(NodeId node) override { return ask<&Host::last_words>(node); }
  void kill(NodeId node) override { ask<&Host::kill>(node); }
  void await_end(NodeId node) override { ask<&Host::await_end>(node); }
  GuestTopology check_topology(NodeId node, const std::vector<PciFunction>& guest,
                               const std::string& peers) override {
    return ask<&Host::check_topology>(node, guest, peers);
  }
  Removal remove(NodeGroupId group) override { return ask<&Host::remove>(group); }

  void watch_devices(const std::vector<std::string>& addresses) override {
    ask<&Host::watch_devices>(addresses);
  }
  DeviceEvidence watched() override { return ask<&Host::watched>(); }
  HostCounters look() override {
    const std::lock_guard lock(mutex_);
    return counters_;
  }

  std::vector<std::filesystem::path> plant(const Canary& canary) override {
    return ask<&Host::plant>(canary);
  }
  void remove_planted() override { ask<&Host::remove_planted>(); }
  std::uint64_t plant_in_memory(const Canary& canary) override { return ask<&Host::plant_in_memory>(canary); }
  SearchReport search_leftovers(const std::vector<Canary>& canaries, const Canary& control) override {
    return ask<&Host::search_leftovers>(canaries, control);
  }
  ModeReport check_modes() override { return ask<&Host::check_modes>(); }

  Leftovers leftovers(const std::string& libvirt, const std::string& experiment) override {
    return ask<&Host::leftovers>(libvirt, experiment);
  }
  Cleaned clean() override { return ask<&Host::clean>(); }
  void forget(const std::vector<std::string>& experiments) override { ask<&Host::forget>(experiments); }
  bool lift_quarantine(const std::string& address) override { return ask<&Host::lift_quarantine>(address); }

 private:
  /// The answer to a call, and the local end of the stream that came with it.
  struct Answer {
    json value;
    UniqueFd stream;
  };

  template <auto method, typename... Argument>
  json call_of(std::int64_t id, const Argument&... argument) const {
    using Arguments = typename CallOf<decltype(method)>::Arguments;
    static_assert(std::is_constructible_v<Arguments, const Argument&...> && call_name<method> != nullptr);
    return to_json(HostCall{id, call_name<method>, json::array({wire::write(argument)...})});
  }

  template <auto method, typename... Argument>
  Answer answer_to(const Argument&... argument) {
    if (must_not_wait) {
      throw Error(named(fmt::format("call {} of the host", call_name<method>)), ErrorCode::protocol,
                  "on a thread that must not wait for the answer");
    }
    std::promise<Answer> promise;
    auto answer = promise.get_future();
    std::int64_t id = 0;
    {
      const std::lock_guard lock(mutex_);
      if (!lost_.empty()) { throw lost(call_name<method>); }
      id = next_++;
      waiting_.emplace(id, std::pair(call_name<method>, std::move(promise)));
    }
    link_.send(call_of<method>(id, argument...));
    return answer.get();
  }

  template <auto method, typename... Argument>
  typename CallOf<decltype(method)>::Result ask(const Argument&... argument) {
    using Result = typename CallOf<decltype(method)>::Result;
    const auto answer = answer_to<method>(argument...);
    if constexpr (!std::is_void_v<Result>) { return wire::read<Result>(answer.value, call_name<method>); }
  }

  /// Nobody waits for the answer.
  template <auto method>
  void tell() {
    link_.send(call_of<method>(0));
  }

  /// "gpu-b: make a bridge", where there are several hosts.
  std::string named(const std::string& operation) const {
    return name_.empty() ? operation : name_ + ": " + operation;
  }
  Error error_of(const HostFailure& failure) const {
    return {named(failure.operation), failure.code, failure.message};
  }
  Error lost(const char* call) const {
    return {named(fmt::format("call {} of the host", call)), ErrorCode::io,
            fmt::format(
                "virtrain-host is gone: {} (what it had made it removes by itself; virtrain clean --verify "
                "shows whether something is left)",
                lost_)};
  }

  // On the link's thread.
  void take(const json& message);
  void lose(const std::string& why);
  void greet(const Hello& hello);
  void fail(const HostFailure& failure);
  /// The promise of a call that is answered now; nothing of one that nobody waits for.
  std::optional<std::promise<Answer>> taken(std::int64_t id);
  /// The launcher's words where it said any, for it knows best; once it has ended, its exit status as well.
  std::string why_not_started(const Error& error);
  /// Ends the connection, and waits for the process. Of a launcher it is never killed: srun would kill what
  /// it has started without warning.
  void stop();

  const std::string name_;  ///< of one of several hosts; empty: it is the only one
  const std::optional<AllocatedNode> allocated_;
  const pid_t pid_;
  boost::asio::io_context io_;
  LauncherWords words_;
  FrameLink link_;
  std::thread thread_;
  std::promise<void> greeting_;
  bool is_greeted_ = false;
  bool is_stopping_ = false;
  bool works_ = false;         ///< it may have something to undo
  std::optional<int> status_;  ///< of the process that has ended, as waitpid() has it
  std::mutex mutex_;
  std::string lost_;       ///< why the host is gone; empty: it is not
  HostCounters counters_;  ///< as last told
  std::int64_t next_ = 1;
  std::map<std::int64_t, std::pair<const char*, std::promise<Answer>>> waiting_;
};

NodeStream HostClient::start(NodeId node) {
  auto answer = answer_to<&Host::start>(node);
  auto started = wire::read<NodeStream>(answer.value, "start");
  started.agent = std::move(answer.stream);
  return started;
}

void HostClient::take(const json& message) {
  const auto type = string_field(message, "type");
  if (type == Hello::type) { return greet(message_of<Hello>(message)); }
  if (type == HostLog::type) {
    auto line = message_of<HostLog>(message);
    if (!name_.empty()) {
      if (!line.fields.is_object()) { line.fields = json::object(); }
      line.fields["host"] = name_;
    }
    return log::write(line.level, line.message, line.fields);
  }
  if (type == HostFailure::type) { return fail(message_of<HostFailure>(message)); }
  if (type == HostCounters::type) {
    auto counters = message_of<HostCounters>(message);
    for (const auto& [node, time] : counters.waiting) {
      if (time.count() < 0) { wire::refuse("counters.waiting", "times that are not negative"); }
    }
    const std::lock_guard lock(mutex_);
    return void(counters_ = std::move(counters));
  }
  if (type != HostAnswer::type) {
    throw Error("read a message of the host protocol", ErrorCode::protocol,
                fmt::format("'{}' is not expected", excerpt(type, 64)));
  }
  auto answer = message_of<HostAnswer>(message);
  auto promise = taken(answer.id);
  if (!promise) { return; }
  Answer given{std::move(answer.value), {}};
  if (answer.stream) {
    auto [ours, theirs] = make_socketpair();
    link_.open(*answer.stream, std::move(theirs));
    given.stream = std::move(ours);
  }
  promise->set_value(std::move(given));
}

void HostClient::fail(const HostFailure& failure) {
  if (failure.id == 0 && !is_greeted_) { return lose(failure.message); }
  if (auto promise = taken(failure.id)) {
    promise->set_exception(std::make_exception_ptr(error_of(failure)));
  }
}

std::optional<std::promise<HostClient::Answer>> HostClient::taken(std::int64_t id) {
  const std::lock_guard lock(mutex_);
  const auto found = waiting_.find(id);
  if (found == waiting_.end()) { return std::nullopt; }
  auto promise = std::move(found->second.second);
  waiting_.erase(found);
  return promise;
}

void HostClient::greet(const Hello& hello) {
  if (std::exchange(is_greeted_, true)) { return; }
  try {
    require_same_build("virtrain-host", hello.version, hello.digest);
    words_.log_from_now_on();
    greeting_.set_value();
  } catch (const Error&) { greeting_.set_exception(std::current_exception()); }
}

void HostClient::lose(const std::string& why) {
  std::map<std::int64_t, std::pair<const char*, std::promise<Answer>>> waiting;
  const auto said = is_stopping_ ? "" : words_.said();
  {
    const std::lock_guard lock(mutex_);
    if (!lost_.empty()) { return; }
    lost_ = said.empty() ? why : fmt::format("{} (the launcher said: {})", why, said);
    waiting = std::move(waiting_);
  }
  if (!std::exchange(is_greeted_, true)) {
    greeting_.set_exception(std::make_exception_ptr(Error("talk to virtrain-host", ErrorCode::io, why)));
  }
  for (auto& [id, call] : waiting) { call.second.set_exception(std::make_exception_ptr(lost(call.first))); }
}

std::string HostClient::why_not_started(const Error& error) {
  if (name_.empty() || error.code() == ErrorCode::host_unable) { return error.message(); }
  const auto said = words_.said();
  const bool is_garbled = error.message().starts_with(garbled);
  auto words = is_garbled ? error.message() + " (does a start-up file of the shell there print something?)"
               : !said.empty() ? said
               : status_       ? std::string("the launcher ended without a word")
                               : error.message();
  if (status_ && WIFEXITED(*status_) && WEXITSTATUS(*status_) != 0) {
    words += fmt::format(" (exit status {})", WEXITSTATUS(*status_));
  } else if (status_ && WIFSIGNALED(*status_)) {
    words += fmt::format(" (ended by signal {})", WTERMSIG(*status_));
  }
  return words;
}

void HostClient::stop() {
  boost::asio::post(io_, [this] {
    is_stopping_ = true;
    link_.end("this side ended");
    words_.stop();
  });
  if (thread_.joinable()) { thread_.join(); }
  if (pid_ <= 0) { return; }
  const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0U)));
  const std::chrono::milliseconds deadline = works_ ? undo_deadline : never_started_deadline;
  if (process && !becomes_readable(process.get(), deadline)) {
    if (!works_) { return; }  // it ends when it finds that nobody listens
    return log::warning(
        named("virtrain-host still undoes what the run has left; see: virtrain clean --verify"),
        {{"pid", pid_}});
  }
  int status = 0;
  if (::waitpid(pid_, &status, 0) == pid_) { status_ = status; }
}

}  // namespace

LoopThread::LoopThread() : before_(std::exchange(must_not_wait, true)) {}
LoopThread::~LoopThread() {
  must_not_wait = before_;
}

std::unique_ptr<Host> host_client(HostProcess process) {
  return std::make_unique<HostClient>(std::move(process));
}

std::unique_ptr<Host> local_host(const HostRequest& request) {
  return host_client(start_host(request));
}

}  // namespace virtrain::harness
