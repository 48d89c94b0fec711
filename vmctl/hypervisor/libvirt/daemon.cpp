#include "vmctl/hypervisor/libvirt/daemon.h"

#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "common/files/file_lock.h"
#include "common/files/reading.h"
#include "common/files/user_folders.h"
#include "common/system/log.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/hypervisor/libvirt/handles.h"
#include "vmctl/process/host_claims.h"
#include "vmctl/process/signs_of_life.h"

namespace virtrain::vmctl {
namespace {

/// Reaps orphans that lead sessions of their own: a child that this process starts and waits for stays in its
/// session.
void reap_daemons() {
  for (const auto& task : entries_of("/proc/self/task")) {
    for (const auto& word : split(read_file(task / "children").value_or(""), ' ')) {
      const auto child = static_cast<pid_t>(parse_integer(word).value_or(0));
      if (child > 0 && ::getsid(child) != ::getsid(0)) { ::waitpid(child, nullptr, WNOHANG); }
    }
  }
}

void reap_until(const std::stop_token& stop) {
  constexpr std::chrono::milliseconds pause{100};
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  while (!never.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); })) { reap_daemons(); }
}

/// From now on what daemons of ours leave behind (QEMU) is this process's child, and reaped as soon as it
/// ends. Else it is process 1's, which in many containers reaps late or never, and until then libvirt takes
/// it for alive and its end for stuck. Nothing changes where the kernel does not list children, nor for a
/// daemon that another process has started.
void adopt_orphans() {
  if (!std::filesystem::exists("/proc/thread-self/children")) { return; }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  static const std::jthread reaper(reap_until);
}

namespace fs = std::filesystem;
using namespace std::chrono_literals;

struct Daemon {
  const char* name;
  bool needed;
};
constexpr Daemon monolithic[] = {{"virtlogd", false}, {"libvirtd", true}};
constexpr Daemon modular[] = {{"virtlogd", false}, {"virtnetworkd", true}, {"virtqemud", true}};

fs::path program_of(const std::string& daemon) {
  return fs::path("/usr/sbin") / daemon;
}

/// In the environment of a daemon that virtrain started: the state folder of its virtrain. It is there from
/// the daemon's first moment, so that one whose virtrain was killed beside it is known all the same.
constexpr const char* started_for = "VIRTRAIN_STARTED_FOR";

/// Other users' libvirtds serve their own sessions, and those of containers listen in a /run of their own.
bool is_ours(pid_t pid) {
  struct stat status {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &status) == 0 && status.st_uid == ::geteuid() &&
         link_name(fmt::format("/proc/{}/ns/mnt", pid)) == link_name("/proc/self/ns/mnt");
}

/// The oldest of that name: those it forks bear it too, for a moment.
std::optional<ProcessInfo> running(const std::string& daemon) {
  std::optional<ProcessInfo> oldest;
  for (const auto& process : all_processes()) {
    if (process.name != daemon || !is_ours(process.pid)) { continue; }
    if (!oldest || process.start_time < oldest->start_time) { oldest = process; }
  }
  return oldest;
}

/// One that a virtrain of this user started.
std::optional<ProcessInfo> started(const std::string& daemon) {
  auto process = running(daemon);
  const bool by_us = process && process_variable(process->pid, started_for) == claims_folder().string();
  return by_us ? process : std::nullopt;
}

void start(const std::string& daemon) {
  if (running(daemon)) {
    return;  // it runs but does not answer yet, or was there before us
  }
  CommandOptions options;
  options.deadline = 120s;  // it returns once it listens, which a busy host delays
  options.environment = {fmt::format("{}={}", started_for, claims_folder().string())};
  options.plain_environment = true;  // it may outlive us, and starts what runs as other users
  adopt_orphans();
  run_checked({program_of(daemon).string(), "-d"}, options);
  if (const auto process = started(daemon)) {
    log::info("started a daemon, to be stopped again at the end",
              {{"daemon", daemon}, {"pid", process->pid}});
  }
}

void stop(const std::string& daemon) {
  const auto process = started(daemon);
  if (!process) { return; }
  ::kill(process->pid, SIGTERM);
  for (int i = 0; i < 100 && started(daemon); ++i) { std::this_thread::sleep_for(100ms); }
  if (started(daemon)) { kill_and_wait(process->pid, process->start_time); }
  log::info("stopped the daemon that virtrain started", {{"daemon", daemon}});
}

bool any_domain_runs(const std::string& uri) {
  try {
    return with_deadline("list domains", 5s, [uri] {
      const auto connection = open_libvirt(uri);
      return virConnectNumOfDomains(connection.get()) != 0;
    });
  } catch (const Error&) {
    return true;  // not known, so nothing is stopped
  }
}

std::vector<Daemon> available_daemons() {
  if (fs::exists(program_of("libvirtd"))) { return {std::begin(monolithic), std::end(monolithic)}; }
  if (fs::exists(program_of("virtqemud"))) { return {std::begin(modular), std::end(modular)}; }
  throw Error("start libvirt", ErrorCode::host_unable,
              "neither libvirtd nor virtqemud is installed: apt-get install libvirt-daemon-system");
}

/// Where dnsmasq is not installed its folder is missing, and the first interface on a network then fails to
/// start, whoever has started the daemon.
void make_folder_for_networks() {
  std::error_code ignored;
  fs::create_directories("/var/lib/libvirt/dnsmasq", ignored);
}

void start_daemons() {
  for (const auto& daemon : available_daemons()) {
    if (daemon.needed || fs::exists(program_of(daemon.name))) { start(daemon.name); }
  }
}

/// Until it answers. One that was there may have been about to end, as whoever stopped it was killed: then it
/// is started again.
void wait_for_daemon(const std::string& uri, std::chrono::milliseconds deadline, bool may_start,
                     const Cancelled& cancelled) {
  SignsOfLife listening(SignsOfLibvirt(), deadline, first_look);
  SignsOfLife answering(SignsOfLibvirt(), qemu_stands_still, first_look);
  while (true) {
    end_if(cancelled, "start libvirt");
    std::string why;
    const auto state = look_at_libvirt(uri, &why);
    if (state == DaemonState::answers) { return; }
    if (state == DaemonState::absent && may_start) { start_daemons(); }
    const bool never_listens = listening.gave_up() && state == DaemonState::absent;
    if (answering.gave_up() || never_listens) {
      throw Error("start libvirt", ErrorCode::host_unable,
                  "the daemon runs but does not answer: " + why + " (see journalctl or libvirtd -v)");
    }
    std::this_thread::sleep_for(50ms);
  }
}

/// Starting libvirt takes others that long at most, stopping it less.
constexpr std::chrono::seconds others_start = first_look + 1min;

/// The lock belongs to the host: runs with other state folders use the same daemon.
UniqueFd lock_state(const char* name, LockKind kind, const Cancelled& cancelled = {}) {
  constexpr unsigned owner_only = 0700;
  make_own_folder(claims_folder(), owner_only);
  return lock_file(claims_folder() / name, kind, others_start, cancelled);
}

constexpr const char* start_lock = "libvirt-start.lock";
constexpr const char* users_lock = "libvirt-users.lock";

constexpr std::array names_of_daemons{"libvirtd", "virtqemud", "virtnetworkd", "virtlogd"};

void stop_started() {
  for (const auto* name : names_of_daemons) { stop(name); }
}

bool started_any() {
  return std::ranges::any_of(names_of_daemons, [](const char* name) { return started(name).has_value(); });
}

}  // namespace

DaemonState look_at_libvirt(const std::string& uri, std::string* why, std::chrono::milliseconds deadline) {
  try {
    with_deadline("connect to " + uri, deadline, [uri] { open_libvirt(uri); });
    return DaemonState::answers;
  } catch (const Error& error) {
    if (why != nullptr) { *why = error.message(); }
    return error.code() == ErrorCode::timeout ? DaemonState::busy : DaemonState::absent;
  }
}

bool libvirt_answers(const std::string& uri, std::string* why) {
  return look_at_libvirt(uri, why) == DaemonState::answers;
}

LibvirtDaemon::LibvirtDaemon(std::string uri, bool may_start, const Cancelled& cancelled,
                             std::chrono::milliseconds deadline)
    : uri_(std::move(uri)) {
  const UniqueFd starting = lock_state(start_lock, LockKind::exclusive, cancelled);
  users_ = lock_state(users_lock, LockKind::shared, cancelled);
  std::string why;
  const auto state = look_at_libvirt(uri_, &why);
  const bool forbidden = !may_start;
  may_start = may_start && uri_ == "qemu:///system" && ::geteuid() == 0;
  if (may_start) { make_folder_for_networks(); }
  if (state == DaemonState::answers) { return; }
  if (forbidden && state == DaemonState::absent) {
    throw Error("reach libvirt at " + uri_, ErrorCode::host_unable,
                why + " (start libvirtd; --no-host-changes forbids virtrain to do it)");
  }
  if (!may_start && state == DaemonState::absent) {
    throw Error("reach libvirt at " + uri_, ErrorCode::host_unable,
                why +
                    " (start libvirtd, or run as root and virtrain starts it; your user may have to join "
                    "group libvirt)");
  }
  const bool were_started = started_any();
  try {
    wait_for_daemon(uri_, deadline, may_start, cancelled);
  } catch (const Error&) {
    // Nobody else has used what does not answer.
    if (!were_started) { stop_started(); }
    throw;
  }
}

LibvirtDaemon::~LibvirtDaemon() {
  try {
    const UniqueFd starting = lock_state(start_lock, LockKind::exclusive);
    const bool last_user = ::flock(users_.get(), LOCK_EX | LOCK_NB) == 0;
    if (!last_user || !started_any() || any_domain_runs(uri_)) { return; }
    stop_started();
  } catch (const std::exception& error) {
    log::warning("could not stop libvirt again", {{"reason", error.what()}});
  }
}

bool LibvirtDaemon::started_by_us() const {
  return started_any();
}

namespace {

bool is_daemon(const ProcessInfo& process) {
  constexpr std::array<std::string_view, 3> names = {"libvirtd", "virtqemud", "virtnetworkd"};
  return std::ranges::find(names, process.name) != names.end();
}

/// QEMU as libvirt asks it what it can do (qemuProcessQMPLaunch in src/qemu/qemu_process.c). It is no child
/// of the daemon's, which stands still until it answers.
bool answers_libvirt(const ProcessInfo& process) {
  const auto arguments = process_arguments(process.pid);
  return process.name.starts_with("qemu") &&
         std::ranges::any_of(arguments, [](const auto& one) { return one.starts_with("none,accel="); });
}

}  // namespace

std::chrono::nanoseconds SignsOfLibvirt::operator()() {
  std::chrono::nanoseconds sum{};
  std::map<pid_t, WaitingTime> waiting;
  for (const auto& process : all_processes()) {
    if (!is_daemon(process) && !answers_libvirt(process)) { continue; }
    for (const auto pid : process_tree(process.pid)) {
      const auto before = waiting_.find(pid);
      auto& own = waiting[pid] = before == waiting_.end() ? WaitingTime(pid) : before->second;
      sum += cpu_time_of(pid) + own.read("RD");
    }
  }
  waiting_ = std::move(waiting);
  constexpr std::chrono::milliseconds tick{10};
  return sum / tick * tick;
}

}  // namespace virtrain::vmctl
