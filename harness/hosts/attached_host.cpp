#include "harness/hosts/attached_host.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>
#include <utility>

#include "common/contains.h"
#include "common/error.h"
#include "common/files/file_hash.h"
#include "common/system/log.h"
#include "common/system/time.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/hosts/attach_script.h"
#include "harness/hosts/launcher.h"
#include "harness/scenario/payload_image.h"
#include "vmctl/api/payload.h"

namespace virtrain::harness {
namespace {

using namespace vmctl;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds answer_deadline{30};
/// Slower links than this are not for programs of tens of MB.
constexpr std::uint64_t least_bytes_per_second = 128 << 10;
/// Slower disks than this are not for payloads.
constexpr std::uint64_t least_disk_bytes_per_second = 4 << 20;
constexpr seconds end_deadline{20};
/// The agent takes its coordinator for gone after this silence; longer than a coordinator waits for its
/// database at most would leave a machine busy for long, so that such a wait may cost the trial.
constexpr milliseconds silence_limit{60'000};
/// Beside the programs: shared memory of ranks, and what they write.
constexpr std::uint64_t working_bytes = 64ULL << 20;

std::string random_name() {
  unsigned char bytes[8];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes) { throw errno_error("draw a random name", errno); }
  return fmt::format("{:02x}", fmt::join(bytes, ""));
}

std::string own_architecture() {
  utsname names{};
  ::uname(&names);
  return names.machine;
}

LocalPayload look_at_payload(const std::string& path) {
  return {sha256_of_file(path), std::filesystem::file_size(path), unpacked_payload_bytes(path)};
}

/// A running launcher, with a shell at its other end.
class Shell {
 public:
  Shell(const AttachedMachine& machine, const std::atomic<bool>& cancelled)
      : name_(machine.name),
        cancelled_(cancelled),
        process_(start_launcher(attach_words(machine.launcher), name_)) {
    words_ = std::thread([this] { read_words(); });
  }
  Shell(const Shell&) = delete;
  Shell& operator=(const Shell&) = delete;
  ~Shell() {
    end();
    has_ended_ = true;
    words_.join();
  }

  const std::string& nonce() const { return nonce_; }
  UniqueFd stream() const { return duplicate(process_.out.get()); }

  void send(std::string_view bytes, milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (!bytes.empty()) {
      const auto sent = ::send(process_.out.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent > 0) {
        bytes.remove_prefix(static_cast<std::size_t>(sent));
      } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        throw failed("the launcher ended");
      } else {
        wait(POLLOUT, end, "it takes no more bytes");
      }
    }
  }

  /// The next line of the shell's; no more of the stream is read than that.
  std::string line(std::chrono::steady_clock::time_point end) {
    constexpr std::size_t longest = 4096;
    std::string text;
    for (char letter = 0;;) {
      wait(POLLIN, end, "it does not answer");
      if (++bytes_ > most_bytes || std::chrono::steady_clock::now() > end) {
        throw failed("it prints other words, and no answer (a start-up file of the shell there?)");
      }
      const auto got = ::recv(process_.in.get(), &letter, 1, MSG_DONTWAIT);
      if (got == 0) { throw failed("the launcher ended"); }
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) { continue; }
      if (got < 0) { throw failed("the launcher ended"); }
      if (letter == '\n') { return text; }
      // A terminal, which is refused once it has said that it is one, ends lines with both.
      if (letter != '\r' && text.size() < longest) { text += letter; }
    }
  }

  /// Lines between begin_line() and end_line().
  std::vector<std::string> answer(milliseconds deadline = answer_deadline) {
    constexpr std::size_t most_lines = 200;
    const auto end = std::chrono::steady_clock::now() + deadline;
    std::vector<std::string> lines;
    bool has_begun = false;
    while (lines.size() < most_lines) {
      auto text = line(end);
      if (text == end_line(nonce_)) { return lines; }
      const bool begins = text == begin_line(nonce_);
      if (has_begun) { lines.push_back(std::move(text)); }
      has_begun = has_begun || begins;
    }
    throw failed("it says more than was asked for");
  }

  /// Reads until one of the shell's own words comes; returns the line.
  std::string until(std::initializer_list<const char*> words, milliseconds deadline) {
    const auto end = std::chrono::steady_clock::now() + deadline;
    while (true) {
      auto text = line(end);
      for (const char* word : words) {
        if (text.starts_with(fmt::format("{} {}", word, nonce_))) { return text; }
      }
    }
  }

  /// The shell's input ends; whether it then says that all has gone.
  bool finish() {
    ::shutdown(process_.out.get(), SHUT_WR);
    const auto wanted = fmt::format("\n{} {}", is_gone, nonce_);
    const auto end = std::chrono::steady_clock::now() + end_deadline;
    std::string tail;
    char bytes[4096];
    while (std::chrono::steady_clock::now() < end) {
      pollfd one{process_.in.get(), POLLIN, 0};
      ::poll(&one, 1, 200);
      const auto got = ::recv(process_.in.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) { continue; }
      if (got <= 0) { return false; }
      tail.append(bytes, static_cast<std::size_t>(got));
      if (tail.find(wanted) != std::string::npos) { return true; }
      if (tail.size() > sizeof bytes) { tail.erase(0, tail.size() - wanted.size()); }
    }
    return false;
  }

  /// The end of what the launcher said on standard error, in one line.
  std::string said() {
    std::this_thread::sleep_for(milliseconds(100));  // a launcher that has ended may have said why just now
    const std::scoped_lock lock(mutex_);
    std::vector<std::string> lines;
    for (const auto& text : split(kept_, '\n')) {
      if (const auto words = trim(text); !words.empty()) { lines.emplace_back(words); }
    }
    return excerpt(join(lines, "; "), most_kept_bytes);
  }

  Error failed(const std::string& why) {
    const auto words = said();
    if (asks_for_password(words)) {
      return {name_ + ": start a shell by its launcher", ErrorCode::host_unable,
              "the launcher asks for a password or a key that it has not, and nobody can be asked (give ssh "
              "a key "
              "without a passphrase or an agent, and sudo -n a rule): " +
                  words};
    }
    return {name_ + ": start a shell by its launcher", ErrorCode::host_unable,
            words.empty() ? why : why + "; its output: " + words};
  }

 private:
  static constexpr std::size_t most_kept_bytes = 2048;
  /// Bounds its words before the agent's: a start-up file may print a banner, but not without end.
  static constexpr std::size_t most_bytes = std::size_t{1} << 20;

  void wait(short events, std::chrono::steady_clock::time_point end, const char* why) {
    constexpr int look_period_ms = 200;
    while (true) {
      if (cancelled_) { throw Error(name_ + ": talk to its shell", ErrorCode::interrupted, "stopped"); }
      pollfd one{process_.out.get(), events, 0};
      if (::poll(&one, 1, look_period_ms) > 0) { return; }
      if (std::chrono::steady_clock::now() > end) { throw failed(why); }
    }
  }

  void read_words() {
    char bytes[1024];
    constexpr int look_period_ms = 100;
    // Children of the launcher may hold its standard error open for ever.
    while (!has_ended_) {
      pollfd one{process_.err.get(), POLLIN, 0};
      if (::poll(&one, 1, look_period_ms) <= 0) { continue; }
      const auto got = ::read(process_.err.get(), bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) { continue; }
      if (got <= 0) { return; }
      const std::string_view more(bytes, static_cast<std::size_t>(got));
      log::debug(excerpt(trim(more), most_kept_bytes), {{"machine", name_}});
      const std::scoped_lock lock(mutex_);
      kept_ += more;
      if (kept_.size() > most_kept_bytes) { kept_.erase(0, kept_.size() - most_kept_bytes); }
    }
  }

  /// A launcher ends when its input does. One that does not is ended.
  void end() {
    ::shutdown(process_.out.get(), SHUT_RDWR);
    constexpr milliseconds step{20};
    constexpr int steps_each = 100;
    for (const int number : {0, SIGTERM, SIGKILL}) {
      if (number != 0) { ::kill(-process_.pid, number); }
      for (int i = 0; i < steps_each; ++i) {
        if (::waitpid(process_.pid, nullptr, WNOHANG) != 0) { return; }
        std::this_thread::sleep_for(step);
      }
    }
  }

  const std::string name_;
  const std::atomic<bool>& cancelled_;
  const std::string nonce_ = random_name();
  HostProcess process_;
  std::atomic<bool> has_ended_ = false;
  std::thread words_;
  std::mutex mutex_;
  std::string kept_;
  std::size_t bytes_ = 0;
};

class Attached final : public AttachedHost {
 public:
  Attached(AttachedMachine machine, std::shared_ptr<AttachedRun> run)
      : machine_(std::move(machine)), run_(std::move(run)) {
    const auto& needs = run_->needs.of_machine;
    if (const auto found = needs.find(machine_.name); found != needs.end()) { needs_ = found->second; }
  }

  std::vector<std::string> folders() const override { return fit_folders(far_, needed_bytes()); }
  void use_folder(const std::string& above) override { folder_ = above + "/" + run_->folder_name; }
  const std::string& identity() const override { return far_.identity; }

  /// Looks at the machine; nothing is left there.
  std::filesystem::path begin(const RunSpec& run) override {
    programs_ = run.programs;
    cancelled_ = false;
    Shell shell(machine_, cancelled_);
    far_ = look(shell, 0);
    std::call_once(run_->packed, [&] {
      run_->bundle = make_bundle(run.programs, run_->needs.libraries);
      for (const auto& [name, needs] : run_->needs.of_machine) {
        for (const auto& path : needs.payloads) { run_->payloads.emplace(path, look_at_payload(path)); }
      }
    });
    if (run_->needs.mpirun && !run_->bundle.has_mpi) {
      throw Error(machine_.name + ": pack Open MPI", ErrorCode::host_unable,
                  "several ranks need the mpirun and orted of Open MPI 4, and this host has none that could "
                  "travel (install openmpi-bin)");
    }
    require_fit(far_, needed_bytes());
    return {};
  }
  void cancel() override { cancelled_ = true; }

  NodeGroup plan_nodes(const NodeGroupSpec& spec) override {
    NodeGroup group{++last_id_, {}};
    for (std::size_t t = 0; t < spec.tenants.size(); ++t) {
      for (std::size_t n = 0; n < spec.tenants[t].size(); ++n) {
        const auto& planned = spec.tenants[t][n];
        if (planned.host != machine_.name) { continue; }
        NodeFacts facts;
        facts.id = last_id_;
        facts.tenant = t;
        facts.placed = n;
        facts.name = machine_.name;
        facts.kind = "slice";
        facts.starting = "start the agent on " + machine_.name;
        facts.memory_bytes = planned.memory_bytes;
        facts.temporary_folder = folder_ + "/tmp";
        facts.cache_home = folder_ + "/cache";
        // By their names: the agent's PATH leads to them. A command does not have that PATH.
        for (const auto& name : programs_) {
          facts.programs[name] = name == payload_program ? folder_ + "/bin/" + name
                                                         : std::filesystem::path(name).filename().string();
        }
        payload_ = planned.payload;
        if (!payload_.empty()) { facts.payload_folder = folder_ + far_payload_folder; }
        group.nodes.push_back(std::move(facts));
      }
    }
    return group;
  }
  void make_networks(NodeGroupId /*group*/) override {}

  NodeStream start(NodeId /*node*/) override {
    const auto started_ns = monotonic_ns();
    auto shell = std::make_unique<Shell>(machine_, cancelled_);
    far_ = look(*shell, needed_bytes());
    const auto& bundle = run_->bundle;
    StartScript script{shell->nonce(),
                       folder_,
                       bundle.archive.size(),
                       bundle.manifest_digest,
                       bundle_environment(folder_),
                       silence_limit.count()};
    seconds unpacking{0};
    for (const auto& [path, local] : run_->payloads) {
      if (payload_.empty() || local.sha256 != payload_) { continue; }
      script.payload = path;
      script.payload_sha256 = local.sha256;
      unpacking = seconds((local.bytes + local.unpacked_bytes) / least_disk_bytes_per_second);
    }
    is_started_ = true;
    try {
      shell->send(start_script(script), answer_deadline);
      const auto copying = seconds(static_cast<std::int64_t>(bundle.archive.size() / least_bytes_per_second));
      expect(*shell, wants_archive, answer_deadline);
      shell->send(bundle.archive, answer_deadline + copying);
      expect(*shell, has_started, answer_deadline + copying + unpacking);
    } catch (const Error&) {
      said_last_ = shell->said();
      shell.reset();
      remove_far_side(false);
      throw;
    }
    auto stream = shell->stream();
    shell_ = std::move(shell);
    return {std::move(stream), started_ns, ""};
  }

  LastWords last_words(NodeId /*node*/) override { return {shell_ ? shell_->said() : said_last_, ""}; }

  Removal remove(NodeGroupId /*group*/) override {
    if (!is_started_) { return {}; }
    bool has_gone = false;
    if (shell_) {
      has_gone = shell_->finish();
      said_last_ = shell_->said();
      shell_.reset();
    }
    const auto left = remove_far_side(has_gone);
    return left.empty() ? Removal{} : Removal{{left}, {}};
  }

  void end(bool /*stored*/) override { remove(0); }

  // --- there is nothing of a host's to be asked

  Inventory inventory(bool /*with_users*/) override { return {}; }
  std::map<std::string, std::string> fingerprint() override { return {}; }
  DeviceListing devices() override { return {}; }
  std::vector<int> numa_nodes_of(const std::vector<int>& /*cores*/) override { return {}; }
  HostAddresses addresses() override { return {}; }
  HostNetworkFacts look_at_network(const HostNetwork& /*network*/) override { return {}; }
  std::string planned_xml(const NodeGroupSpec& /*group*/, std::size_t /*tenant*/, std::size_t /*node*/,
                          NodeId /*number*/, bool /*emulated*/) override {
    return "";
  }
  std::string nccl_topology_of(const std::string& /*domain_xml*/) override { return ""; }
  std::string domain_xml_of(const std::string& /*domain*/) override { return ""; }
  std::filesystem::path log_root() override { return {}; }
  void record(const std::filesystem::path& /*folder*/) override {}
  std::vector<Finding> examine(HostMode /*mode*/) override { return {}; }
  std::vector<CheckDescription> checks() override { return {}; }
  std::vector<Finding> examine_devices(const std::optional<std::vector<DeviceDemand>>& /*demands*/) override {
    return {};
  }
  Privileges privileges() override { return {}; }
  std::string lacks_user_namespaces() override { return ""; }
  std::string lacks_system_libvirt() override { return ""; }
  std::string closed_to_qemu() override { return ""; }
  std::vector<std::string> lacks_limits(NodeKind /*kind*/, const NodeLimits& /*limits*/) override {
    return {};
  }
  void check_guest(const GuestSpec& /*guest*/) override {}
  CudaHost look_at_cuda(const std::string& /*trainer*/) override { return {}; }
  bool has_image(const ImageSpec& /*spec*/, const std::vector<std::string>& /*programs*/) override {
    return false;
  }
  void acquire(const std::vector<std::string>& /*resources*/) override {}
  /// Nothing is copied: the image lies there. Empty where no node here runs in it.
  std::string take_payload(const std::string& path) override {
    if (!contains(needs_.payloads, path)) { return ""; }
    const auto& local = run_->payloads.at(path);
    Shell shell(machine_, cancelled_);
    shell.send(payload_script(shell.nonce(), path), answer_deadline);
    const auto reading = seconds(local.bytes / least_disk_bytes_per_second);
    const auto why = why_no_payload(shell.answer(answer_deadline + reading), path, local.sha256);
    if (!why.empty()) { throw Error(machine_.name + ": take the payload", ErrorCode::host_unable, why); }
    return local.sha256;
  }
  ImageFacts make_image(const ImageSpec& /*spec*/) override { throw not_ours("make an image"); }
  void keep_services_away(const std::vector<DeviceGrant>& /*grants*/) override {}
  std::size_t lend(const std::vector<DeviceGrant>& /*grants*/, const CardSettings& /*cards*/) override {
    throw not_ours("assign devices");
  }
  void set(const std::vector<DeviceGrant>& /*grants*/, const DeviceSettings& /*wanted*/) override {
    throw not_ours("set devices");
  }
  std::vector<std::string> give_back() override { return {}; }
  std::vector<std::string> end_lending() override { return {}; }
  void watch_devices(const std::vector<std::string>& /*addresses*/) override {}
  DeviceEvidence watched() override { return {}; }
  Leftovers leftovers(const std::string& /*libvirt*/, const std::string& /*experiment*/) override {
    return {};
  }
  Cleaned clean() override { return {}; }
  void forget(const std::vector<std::string>& /*experiments*/) override {}
  bool lift_quarantine(const std::string& /*address*/) override { return false; }
  NodeCounters counters(NodeId /*node*/) override { return {}; }
  void kill(NodeId /*node*/) override { throw not_ours("kill a node"); }
  void await_end(NodeId /*node*/) override { throw not_ours("wait for a node's end"); }
  GuestTopology check_topology(NodeId /*node*/, const std::vector<PciFunction>& /*guest*/,
                               const std::string& /*peers*/) override {
    return {};
  }
  std::vector<std::filesystem::path> plant(const Canary& /*canary*/) override {
    throw not_ours("plant a canary");
  }
  void remove_planted() override {}
  std::uint64_t plant_in_memory(const Canary& /*canary*/) override { throw not_ours("plant a canary"); }
  SearchReport search_leftovers(const std::vector<Canary>& /*canaries*/, const Canary& /*control*/) override {
    throw not_ours("search leftovers");
  }
  ModeReport check_modes() override { throw not_ours("check modes"); }
  HostCounters look() override { return {}; }

 private:
  Error not_ours(const char* what) const {
    return {what, ErrorCode::host_unable, machine_.name + " is attached, and nothing of its host is ours"};
  }

  /// Has the machine described, and refuses one on which the programs cannot run.
  FarMachine look(Shell& shell, std::uint64_t bytes) const {
    shell.send(probe_script(shell.nonce(), needs_), answer_deadline);
    auto found = parse_probe(shell.answer());
    require_fit(found, bytes);
    return found;
  }

  void require_fit(const FarMachine& found, std::uint64_t bytes) const {
    auto why = why_unfit(found, own_architecture(), bytes);
    if (why.empty()) { why = why_lacking(found, needs_); }
    if (!why.empty()) { throw Error(machine_.name + ": look at the machine", ErrorCode::host_unable, why); }
  }

  /// The room that the programs take there, and what they write.
  std::uint64_t needed_bytes() const {
    std::uint64_t of_payload = 0;
    for (const auto& path : needs_.payloads) {
      const auto found = run_->payloads.find(path);
      if (found != run_->payloads.end()) { of_payload = std::max(of_payload, found->second.unpacked_bytes); }
    }
    return run_->bundle.unpacked_bytes + working_bytes + of_payload;
  }

  static void expect(Shell& shell, const char* word, milliseconds deadline) {
    const auto said = shell.until({word, has_failed}, deadline);
    if (said.starts_with(has_failed)) {
      const auto words = split(said, ' ');
      const auto why = said.substr(std::min(said.size(), words[0].size() + shell.nonce().size() + 2));
      throw shell.failed(printable(why));
    }
  }

  /// Sees that all has gone from the machine, by a shell of its own where that was not said; a sentence where
  /// it has not, or nobody can tell.
  std::string remove_far_side(bool has_gone) {
    is_started_ = false;
    if (has_gone) { return ""; }
    const std::atomic<bool> never = false;
    try {
      Shell shell(machine_, never);
      shell.send(clean_script(shell.nonce(), folder_), answer_deadline);
      if (shell.until({is_gone, has_failed}, answer_deadline).starts_with(is_gone)) { return ""; }
    } catch (const Error& error) {
      return fmt::format(
          "{}: whether {} has gone there is not known, for it cannot be reached again ({}); its own "
          "watcher removes it",
          machine_.name, folder_, error.message());
    }
    return fmt::format("{}: {} could not be removed there", machine_.name, folder_);
  }

  const AttachedMachine machine_;
  const std::shared_ptr<AttachedRun> run_;
  FarNeeds needs_;
  std::atomic<bool> cancelled_ = false;
  std::vector<std::string> programs_;
  FarMachine far_;
  std::string folder_;
  std::string payload_;  ///< of the planned node, by its SHA-256
  std::int64_t last_id_ = 0;
  std::unique_ptr<Shell> shell_;
  std::string said_last_;
  bool is_started_ = false;
};

}  // namespace

std::vector<std::unique_ptr<AttachedHost>> attached_hosts(const std::vector<AttachedMachine>& machines,
                                                          AttachedNeeds needs) {
  std::vector<std::unique_ptr<AttachedHost>> hosts;
  const auto run = std::make_shared<AttachedRun>();
  run->needs = std::move(needs);
  run->folder_name = "virtrain-" + random_name();
  hosts.reserve(machines.size());
  for (const auto& machine : machines) { hosts.push_back(std::make_unique<Attached>(machine, run)); }
  return hosts;
}

}  // namespace virtrain::harness
