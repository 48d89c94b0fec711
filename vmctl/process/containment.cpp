#include "vmctl/process/containment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>

#include "common/error.h"
#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/files/user_folders.h"
#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "vmctl/process/host_claims.h"

namespace virtrain::vmctl {
namespace {

/// The step that failed and the kernel's reason, or nothing.
using Failure = std::optional<std::string>;

Failure failed(const char* step) {
  return fmt::format("{}: {}", step, std::strerror(errno));
}

// --- user namespaces

bool put(const std::string& file, const std::string& text) {
  const UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

/// Every id as it is, which takes CAP_SETUID; users have it for their own id only.
std::string identity_map(const char* own_map, unsigned id) {
  if (::geteuid() != 0) { return fmt::format("{} {} 1\n", id, id); }
  std::string map;  // lines of "first here, first outside, count"
  for (const auto& line : split(read_file(own_map).value_or(""), '\n')) {
    if (const auto words = words_of(line); words.size() == 3) {
      map += fmt::format("{} {} {}\n", words[0], words[0], words[2]);
    }
  }
  return map;
}

/// Written from outside: root's map needs a capability that the child no longer has there.
Failure map_ids(pid_t child) {
  const auto folder = fmt::format("/proc/{}/", child);
  if (::geteuid() != 0 && !put(folder + "setgroups", "deny")) { return failed("deny setgroups"); }
  if (!put(folder + "uid_map", identity_map("/proc/self/uid_map", ::geteuid()))) {
    return failed("map user ids");
  }
  if (!put(folder + "gid_map", identity_map("/proc/self/gid_map", ::getegid()))) {
    return failed("map group ids");
  }
  return std::nullopt;
}

/// Capabilities in a user namespace are lost with the next exec unless they are ambient.
Failure keep_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  if (::syscall(SYS_capget, &header, data) != 0) { return failed("read capabilities"); }
  for (auto& part : data) { part.inheritable = part.permitted; }
  if (::syscall(SYS_capset, &header, data) != 0) { return failed("make capabilities inheritable"); }
  for (unsigned capability = 0; capability <= CAP_LAST_CAP; ++capability) {
    const bool permitted = (data[capability / 32].permitted >> (capability % 32) & 1) != 0;
    if (permitted && ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) {
      return failed("keep capabilities");
    }
  }
  return std::nullopt;
}

/// In the child: `sync` tells the parent to map the ids and is told when that is done.
Failure enter_user_namespace(int sync) {
  char byte = 0;
  if (::unshare(CLONE_NEWUSER) != 0) { return failed("make a user namespace"); }
  if (::write(sync, &byte, 1) != 1 || ::read(sync, &byte, 1) != 1) {
    return failed("wait for the map of ids");
  }
  if (byte != 0) { return "map user ids in a user namespace: not permitted"; }
  return keep_capabilities();
}

/// Forks; the child runs `body`, in a user namespace of its own if `in_user_namespace`. What fails before
/// `body` goes to it as its argument.
pid_t fork_into(bool in_user_namespace, const std::function<void(const Failure&)>& body) {
  auto [ours, theirs] = make_socketpair();
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error("start a child process", errno); }
  if (child == 0) {
    ours.reset();
    body(in_user_namespace ? enter_user_namespace(theirs.get()) : Failure());
    return 0;
  }
  theirs.reset();
  char byte = 0;
  if (in_user_namespace && ::read(ours.get(), &byte, 1) == 1) {
    byte = map_ids(child) ? 1 : 0;
    [[maybe_unused]] const auto told = ::write(ours.get(), &byte, 1);
  }
  return child;
}

// --- what runs in it

Failure mount_fresh(const char* type, const char* target, const char* data) {
  if (::mount(type, target, type, MS_NOSUID | MS_NODEV, data) != 0) {
    return failed((std::string("mount ") + target).c_str());
  }
  return std::nullopt;
}

Failure make_mounts_private() {
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return failed("make mounts private");
  }
  return std::nullopt;
}

/// A new mount hides what lies below; this puts back what is still needed, where it was there.
class KeptFolder {
 public:
  explicit KeptFolder(const char* path) : path_(path), fd_(::open(path, O_PATH | O_CLOEXEC)) {}
  Failure bind_back() const {
    if (!fd_) { return std::nullopt; }
    ::mkdir(path_, 0755);
    const auto source = fmt::format("/proc/self/fd/{}", fd_.get());
    if (::mount(source.c_str(), path_, nullptr, MS_BIND | MS_REC, nullptr) != 0) {
      return failed("keep a folder");
    }
    return std::nullopt;
  }

 private:
  const char* path_;
  UniqueFd fd_;
};

Failure bring_loopback_up() {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  if (!socket || ::ioctl(socket.get(), SIOCSIFFLAGS, &request) != 0) {
    return failed("bring the loopback device up");
  }
  return std::nullopt;
}

/// Network devices, the names of network namespaces and /sys are the run's own from here on.
Failure enter_network_and_mounts() {
  try {
    constexpr unsigned owner_only = 0700;
    if (::geteuid() == 0) { make_own_folder(claims_folder(), owner_only); }
  } catch (const Error&) {}  // in a user namespace of somebody else's, who has no claims there
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) { return failed("make network and mount namespaces"); }
  if (auto why = make_mounts_private()) { return why; }
  // Below the last two are the claims that other runs have to see.
  const KeptFolder cgroups("/sys/fs/cgroup"), users("/run/user"), ours("/run/virtrain");
  if (auto why = mount_fresh("sysfs", "/sys", nullptr)) { return why; }
  if (auto why = cgroups.bind_back()) { return why; }
  if (auto why = mount_fresh("tmpfs", "/run", "mode=0755")) { return why; }
  if (auto why = users.bind_back()) { return why; }
  if (auto why = ours.bind_back()) { return why; }
  // For ip, and for libvirt's locks on consoles.
  for (const auto* folder : {"/run/netns", "/run/lock"}) {
    if (::mkdir(folder, 0755) != 0) { return failed("make a folder in /run"); }
  }
  return bring_loopback_up();
}

/// As virtrain-slice does it, and a bridge as for its network.
Failure isolate_once() {
  if (::unshare(CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID) != 0) {
    return failed("make namespaces");
  }
  if (auto why = make_mounts_private()) { return why; }
  if (auto why = mount_fresh("sysfs", "/sys", nullptr)) { return why; }
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket || ::ioctl(socket.get(), SIOCBRADDBR, "vtprobe") != 0) { return failed("make a bridge"); }
  return std::nullopt;
}

/// The PID namespace is the next child's, whose /proc is mounted anew.
Failure mount_proc_in_child() {
  const pid_t child = ::fork();
  if (child < 0) { return failed("start a process in a PID namespace"); }
  if (child == 0) {
    const bool mounted = ::mount("proc", "/proc", "proc", 0, nullptr) == 0;
    std::_Exit(mounted ? 0 : errno);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  errno = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
  return errno == 0 ? Failure() : failed("mount /proc");
}

std::string try_isolation_in(bool in_user_namespace) {
  auto [read_end, write_end] = make_socketpair();
  const pid_t child = fork_into(in_user_namespace, [&, out = write_end.get()](const Failure& before) {
    auto why = before;
    if (!why && in_user_namespace) { why = enter_network_and_mounts(); }
    if (!why) { why = isolate_once(); }
    if (!why) { why = mount_proc_in_child(); }
    const auto words = why.value_or("");
    [[maybe_unused]] const auto told = ::write(out, words.data(), words.size());
    std::_Exit(0);
  });
  write_end.reset();
  char words[512];
  std::string why;
  for (ssize_t got = 0; (got = ::read(read_end.get(), words, sizeof words)) > 0;) {
    why.append(words, static_cast<std::size_t>(got));
  }
  ::waitpid(child, nullptr, 0);
  return why;
}

// --- the parent that stays behind

[[noreturn]] void wait_for(pid_t child, const sigset_t& signals) {
  while (true) {
    siginfo_t signal{};
    if (::sigwaitinfo(&signals, &signal) < 0) { continue; }
    if (signal.si_signo != SIGCHLD) {
      if (is_passed_on(signal)) { ::kill(child, signal.si_signo); }
      continue;
    }
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended != child) { continue; }
      end_descendants(std::chrono::seconds(5));  // what the child left running
      std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
  }
}

}  // namespace

void continue_contained(Containment containment) {
  const bool namespaces = containment == Containment::user_namespace;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  sigset_t signals, before;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) { sigaddset(&signals, signal); }
  sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = ::getpid();
  Failure why;
  const pid_t child = fork_into(namespaces, [&](const Failure& failure) { why = failure; });
  if (child > 0) { wait_for(child, signals); }
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) { std::raise(SIGKILL); }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (!why && namespaces) { why = enter_network_and_mounts(); }
  if (why) { throw Error("make namespaces for this run", ErrorCode::host_unable, *why); }
}

bool may_isolate() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2] = {};
  constexpr unsigned needed = 1U << CAP_NET_ADMIN | 1U << CAP_SYS_ADMIN;
  return ::syscall(SYS_capget, &header, data) == 0 && (data[0].effective & needed) == needed;
}

std::string try_isolation() {
  return try_isolation_in(false);
}

std::string try_isolation_in_user_namespace() {
  return try_isolation_in(true);
}

}  // namespace virtrain::vmctl
