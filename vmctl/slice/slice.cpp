#include "vmctl/slice/slice.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "common/error.h"
#include "common/files/open_folder.h"
#include "common/system/log.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "common/text/cpu_list.h"
#include "common/text/text.h"
#include "vmctl/process/child.h"
#include "vmctl/process/containment.h"
#include "vmctl/process/paths.h"
#include "vmctl/process/signs_of_life.h"
#include "vmctl/slice/cgroups.h"
#include "vmctl/slice/net_devices.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

void check(const SliceSpec& spec) {
  const std::string operation = "start slice " + spec.name;
  if (spec.isolated && !may_isolate()) {
    throw Error(operation, ErrorCode::host_unable,
                "a bare-metal node with its own network needs root or a user namespace (the arm "
                "bare_metal_shared does not)");
  }
  if (!spec.name.starts_with("vt-") || spec.cores.empty() || spec.argv.empty() || spec.memory_bytes == 0 ||
      spec.temporary_folder.empty()) {
    throw Error(operation, ErrorCode::bad_input,
                "a slice needs a name vt-..., cores, memory, an agent and a folder for temporary files");
  }
  if (spec.isolated && spec.network.device.empty() &&
      (!spec.network.veth.starts_with("vt") || spec.network.veth.size() > 15)) {
    throw Error(operation, ErrorCode::bad_input,
                fmt::format("veth name '{}' must be vt... of at most 15 characters", spec.network.veth));
  }
}

void take_device(const SliceSpec& spec) {
  const auto& net = spec.network;
  run_ip({}, {"netns add " + spec.name, fmt::format("link set {} down", net.device),
              fmt::format("link set {} netns {} name eth0", net.device, spec.name)});
  std::vector<std::string> commands{"link set lo up", fmt::format("addr add {} dev eth0", net.address)};
  if (net.mtu) { commands.push_back(fmt::format("link set eth0 mtu {}", *net.mtu)); }
  commands.emplace_back("link set eth0 up");
  run_ip(spec.name, commands);
}

void make_network(const SliceSpec& spec) {
  const auto& net = spec.network;
  if (!net.device.empty()) { return take_device(spec); }
  const auto mtu = net.mtu ? fmt::format("mtu {} ", *net.mtu) : std::string();
  const auto mac = net.host_mac.empty() ? std::string() : fmt::format("address {} ", net.host_mac);
  run_ip({}, {"netns add " + spec.name,
              fmt::format("link add {} {}{}type veth peer name eth0 {}netns {}", net.veth, mac, mtu, mtu,
                          spec.name),
              fmt::format("link set {} master {}", net.veth, net.bridge),
              fmt::format("link set {} alias {} up", net.veth, link_alias(spec.experiment))});
  run_ip(spec.name, {"link set lo up", fmt::format("addr add {} dev eth0", net.address), "link set eth0 up"});
  // The host's end of the pair sends what the slice receives.
  if (spec.limits.network_in) { limit_sending({}, net.veth, *spec.limits.network_in); }
  if (spec.limits.network_out) { limit_sending(spec.name, "eth0", *spec.limits.network_out); }
}

/// A limit that does not hold would show as a mitigation that does nothing.
void require_limits(const SliceSpec& spec, const SliceCgroups& groups) {
  const auto refuse = [&](const char* why) {
    throw Error("start slice " + spec.name, ErrorCode::host_unable,
                fmt::format("{} ({})", why, limits_text(spec.limits)));
  };
  if (spec.limits.cpu_cores && !groups.cpu) { refuse("no cgroup bounds its CPU time"); }
  if (spec.limits.of_disk() && !groups.disk) { refuse("no cgroup bounds what it reads and writes"); }
  if (spec.limits.of_network() && !spec.isolated) { refuse("it has no network of its own to bound"); }
  if (spec.limits.of_network() && !spec.network.device.empty()) {
    refuse("a virtual function has no end on the host to bound");
  }
}

/// The folders of the agent and of what it may start, where the slice's fresh /tmp would hide them.
std::set<std::string> hidden_folders(const SliceSpec& spec) {
  std::vector<fs::path> folders = spec.program_folders;
  folders.push_back(fs::absolute(spec.argv[0]).parent_path());
  std::set<std::string> hidden;
  for (const auto& folder : folders) {
    if (folder.string().starts_with("/tmp/") || folder.string().starts_with("/dev/shm/")) {
      hidden.insert(folder.string());
    }
  }
  return hidden;
}

std::string hosts_file(const SliceSpec& spec) {
  std::string text = "127.0.0.1 localhost\n";
  for (const auto& host : spec.hosts) { text += host.address + " " + host.name + "\n"; }
  return text;
}

std::vector<std::string> helper_arguments(const SliceSpec& spec, const SliceCgroups& groups) {
  std::vector<std::string> words{sibling_program("virtrain-slice").string(), "--cores",
                                 format_cpu_list(spec.cores)};
  const auto add = [&](const char* option, const std::string& value) {
    words.emplace_back(option);
    words.push_back(value);
  };
  if (spec.isolated) {
    words.emplace_back("--isolated");
    add("--netns", spec.name);
    add("--hostname", spec.hostname);
    add("--hosts", hosts_file(spec));
    add("--temporary", spec.temporary_folder);
    for (const auto& folder : hidden_folders(spec)) { add("--keep", folder); }
  }
  if (!spec.payload.empty()) {
    add("--payload", spec.payload);
    add("--name", spec.name);
    if (!spec.isolated) { add("--temporary", spec.temporary_folder); }
  }
  if (spec.user) {
    add("--user", std::to_string(spec.user->user));
    add("--group", std::to_string(spec.user->group));
    for (const auto group : spec.user->groups) { add("--also-group", std::to_string(group)); }
  }
  if (groups.memory.empty()) { add("--memory-rlimit", std::to_string(spec.memory_bytes)); }
  for (const auto& folder : groups.folders) { add("--cgroup", folder.string()); }
  words.emplace_back("--");
  words.insert(words.end(), spec.argv.begin(), spec.argv.end());
  words.insert(words.end(), {"--fd", "3"});
  return words;
}

pid_t spawn(const SliceSpec& spec, const SliceCgroups& groups, int channel, int life_line, int status) {
  // Above the numbers that the helper expects, so that no dup2 of the spawn closes another's source.
  constexpr int least = 10;
  const auto lifted_channel = duplicate(channel, least), lifted_life_line = duplicate(life_line, least),
             lifted_status = duplicate(status, least);
  auto words = helper_arguments(spec, groups);
  auto environment = spec.environment;
  environment.push_back("TMPDIR=" + spec.temporary_folder.string());
  environment.push_back(fmt::format("{}={}", slice_variable, spec.name));
  environment.push_back(fmt::format("{}={}", experiment_variable, spec.experiment));
  environment = slice_environment_with(std::move(environment));
  if (spec.user) {  // root's folders are of no use to it
    std::erase_if(environment, [](const std::string& entry) { return entry.starts_with("XDG_"); });
  }
  const std::string log = spec.log.empty() ? "/dev/null" : spec.log.string();

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW,
                                   0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  posix_spawn_file_actions_adddup2(&actions, lifted_channel.get(), 3);
  posix_spawn_file_actions_adddup2(&actions, lifted_life_line.get(), 4);
  posix_spawn_file_actions_adddup2(&actions, lifted_status.get(), 5);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int failed = ::posix_spawn(&pid, words[0].c_str(), &actions, &attributes, pointers(words).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) { throw errno_error("start " + words[0], failed); }
  return pid;
}

/// Reads the helper's messages until it has started the agent.
std::map<std::string, std::string> read_status(const SliceSpec& spec, pid_t helper, const UniqueFd& status) {
  std::string text;
  WaitingTime waiting(helper);
  SignsOfLife life([&] { return cpu_time_of_tree(helper) + waiting.read(); }, 10s, 120s);
  while (true) {
    if (!becomes_readable(status.get(), 500ms)) {
      if (!life.gave_up()) { continue; }
      throw Error("start slice " + spec.name, ErrorCode::timeout,
                  "its helper did not get ready and stands still");
    }
    char buffer[4096];
    const auto got = ::read(status.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) { continue; }
    if (got <= 0) { break; }
    text.append(buffer, static_cast<std::size_t>(got));
  }
  std::map<std::string, std::string> applied;
  for (const auto& line : split(text, '\n')) {
    if (const auto equals = line.find('='); equals != std::string::npos) {
      applied[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  if (applied.contains("error")) {
    throw Error("start slice " + spec.name, ErrorCode::host_unable, applied["error"]);
  }
  return applied;
}

class RunningSlice final : public Slice {
 public:
  explicit RunningSlice(const SliceSpec& spec) : spec_(spec) {
    try {
      start();
    } catch (...) {
      end_quietly();
      throw;
    }
  }
  ~RunningSlice() override { end_quietly(); }

  UniqueFd take_channel() override { return std::move(channel_); }
  pid_t pid() const override { return pid_; }
  std::optional<pid_t> agent_pid() const override {
    const auto tree = process_tree(pid_);
    return tree.size() > 1 ? std::optional(tree[1]) : std::nullopt;
  }
  std::map<std::string, std::string> applied() const override { return applied_; }

  void destroy() override {
    const std::scoped_lock lock(mutex_);
    if (destroyed_) { return; }
    destroyed_ = true;
    life_line_.reset();
    if (pid_ > 0) { wait_for_helper(); }
    remove_rest_of_slice(spec_);
  }

 private:
  void start() {
    groups_ = make_slice_cgroups(spec_.name, spec_.cores, spec_.memory_bytes, spec_.limits);
    require_limits(spec_, groups_);
    if (spec_.isolated) { make_network(spec_); }
    auto [ours, theirs] = make_socketpair();
    auto life_line = make_pipe(), status = make_pipe();
    pid_ = spawn(spec_, groups_, theirs.get(), life_line.read.get(), status.write.get());
    channel_ = std::move(ours);
    life_line_ = std::move(life_line.write);
    status.write.reset();
    applied_ = read_status(spec_, pid_, status.read);
    applied_["memory"] = groups_.memory.empty() ? "rlimit" : groups_.memory;
    applied_["memory_bytes"] = std::to_string(spec_.memory_bytes);
    applied_["limits"] = limits_text(spec_.limits);
    applied_["namespaces"] = spec_.isolated ? "net uts ipc pid mount" : "";
  }

  void end_quietly() {
    try {
      destroy();
    } catch (const std::exception& error) {
      log::warning("a slice could not be removed", {{"slice", spec_.name}, {"reason", error.what()}});
    }
  }

  void wait_for_helper() {
    constexpr int tries = 7000;  // 35 s: it waits for its ranks' end
    for (int i = 0; i < tries; ++i) {
      if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
        return;  // ended, or somebody else reaped it
      }
      std::this_thread::sleep_for(5ms);
    }
    log::warning("a slice's helper did not end by itself", {{"pid", pid_}});
    for (const auto pid : process_tree(pid_)) { ::kill(pid, SIGKILL); }
    ::waitpid(pid_, nullptr, 0);
  }

  const SliceSpec spec_;
  SliceCgroups groups_;
  UniqueFd channel_;
  UniqueFd life_line_;
  pid_t pid_ = 0;
  std::map<std::string, std::string> applied_;
  std::mutex mutex_;
  bool destroyed_ = false;
};

/// Ends the processes in these groups, and those marked as this slice's: without namespaces nothing ends them
/// with their helper, if that one was killed.
void end_processes(const SliceSpec& spec, const std::vector<std::filesystem::path>& groups) {
  std::set<pid_t> members;
  for (const auto& group : groups) { members.merge(processes_in_cgroup(group)); }
  const auto is_of_slice = [&](std::optional<uid_t> user) {
    return user == ::geteuid() || (spec.user && user == spec.user->user);
  };
  for (const auto& process : all_processes()) {
    const bool is_in =
        members.contains(process.pid) ||
        (is_of_slice(user_of(process.pid)) && process_variable(process.pid, slice_variable) == spec.name);
    if (is_in && !kill_and_wait(process.pid, process.start_time)) {
      throw Error("end slice " + spec.name, ErrorCode::io,
                  fmt::format("process {} does not end", process.pid));
    }
  }
}

}  // namespace

void remove_rest_of_slice(const SliceSpec& spec) {
  auto groups = find_slice_cgroups();
  // Others may give groups of theirs any name.
  std::erase_if(groups, [&](const auto& group) {
    return group.filename() != spec.name || folder_owner(group) != ::geteuid();
  });
  std::vector<std::string> failures;
  const auto attempt = [&](const auto& step) {
    try {
      step();
    } catch (const std::exception& error) { failures.emplace_back(error.what()); }
  };
  attempt([&] { end_processes(spec, groups); });
  if (spec.isolated) {
    // The veth first: a namespace with lingering sockets would keep it, and its name, for a while.
    if (!spec.network.veth.empty()) {
      attempt([&] { delete_link(spec.network.veth); });
    }
    attempt([&] { delete_namespace(spec.name); });
  }
  for (const auto& group : groups) {
    if (!remove_cgroup(group)) { failures.push_back(group.string() + " is still in use"); }
  }
  if (!failures.empty()) { throw Error("remove slice " + spec.name, ErrorCode::io, join(failures, "; ")); }
}

std::unique_ptr<Slice> start_slice(const SliceSpec& spec) {
  check(spec);
  return std::make_unique<RunningSlice>(spec);
}

}  // namespace virtrain::vmctl
