// virtrain-slice: the parent of everything in a bare-metal slice. It puts itself into the slice's cgroups,
// makes the namespaces, starts the agent in them, and ends all of it as soon as its life line (descriptor 4)
// closes: that is when the harness lets go of the slice, or dies in any way. What it applied goes to
// descriptor 5, one "key=value" a line, or "error=..."; the end of that stream says that the agent was
// started.

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "common/files/reading.h"
#include "common/files/unique_fd.h"
#include "common/system/process_info.h"
#include "common/text/cpu_list.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "vmctl/guest/node_settings.h"
#include "vmctl/process/child.h"
#include "vmctl/slice/loop_mount.h"

namespace {

using namespace virtrain;

constexpr int channel_fd = 3, life_line_fd = 4, status_fd = 5;

struct Options {
  bool isolated = false;
  std::string netns;
  std::string hostname;
  std::string hosts;  ///< whole /etc/hosts
  std::vector<int> cores;
  rlim_t memory_rlimit = 0;
  std::vector<std::string> cgroups;
  std::string temporary;                ///< its TMPDIR; isolated: a folder to make in the slice's own /tmp
  std::string name, payload;            ///< see SliceSpec; empty: none
  std::vector<std::string> keep;        ///< folders below /tmp or /dev/shm that the agent still needs to see
  std::optional<vmctl::Identity> user;  ///< whom the agent runs as; nothing: whom we run as
  std::vector<char*> agent;
};

unsigned number(const std::string& word) {
  return static_cast<unsigned>(parse_integer(word).value_or(0));
}

void report(const std::string& line) {
  const std::string text = line + "\n";
  if (::write(status_fd, text.data(), text.size()) < 0) { std::_Exit(1); }
}

[[noreturn]] void give_up(const std::string& what) {
  report(fmt::format("error={}: {}", what, std::strerror(errno)));
  std::_Exit(1);
}

void need(bool worked, const std::string& what) {
  if (!worked) { give_up(what); }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (word == "--isolated") { options.isolated = true; }
    if (word == "--netns") { options.netns = value(); }
    if (word == "--hostname") { options.hostname = value(); }
    if (word == "--hosts") { options.hosts = value(); }
    if (word == "--cores") { options.cores = parse_cpu_list(value()); }
    if (word == "--memory-rlimit") {
      options.memory_rlimit = static_cast<rlim_t>(parse_integer(value()).value_or(0));
    }
    if (word == "--cgroup") { options.cgroups.push_back(value()); }
    if (word == "--temporary") { options.temporary = value(); }
    if (word == "--name") { options.name = value(); }
    if (word == "--payload") { options.payload = value(); }
    if (word == "--keep") { options.keep.push_back(value()); }
    if (word == "--user") { options.user.emplace().user = number(value()); }
    if (word == "--group") { options.user.value().group = number(value()); }
    if (word == "--also-group") { options.user.value().groups.push_back(number(value())); }
    if (word == "--") {
      options.agent.assign(argv + i + 1, argv + argc);
      break;
    }
  }
  options.agent.push_back(nullptr);
  return options;
}

bool put(const std::string& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) { return false; }
  const bool whole = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  ::close(fd);
  return whole;
}

void bound_resources(const Options& options) {
  for (const auto& group : options.cgroups) {
    need(put(group + "/cgroup.procs", "0"), "join cgroup " + group);
  }
  const int highest = *std::ranges::max_element(options.cores);
  std::vector<cpu_set_t> mask(static_cast<std::size_t>(highest) / CPU_SETSIZE + 1);
  const std::size_t bytes = mask.size() * sizeof mask[0];
  for (const int core : options.cores) { CPU_SET_S(static_cast<std::size_t>(core), bytes, mask.data()); }
  need(::sched_setaffinity(0, bytes, mask.data()) == 0, "bind to cores " + format_cpu_list(options.cores));
  if (options.memory_rlimit > 0) {
    const rlimit limit{options.memory_rlimit, options.memory_rlimit};
    need(::setrlimit(RLIMIT_DATA, &limit) == 0, "bound the memory");
  }
}

void enter_namespaces(const Options& options) {
  const int net = ::open(("/run/netns/" + options.netns).c_str(), O_RDONLY | O_CLOEXEC);
  need(net >= 0 && ::setns(net, CLONE_NEWNET) == 0, "enter network namespace " + options.netns);
  ::close(net);
  need(::unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID) == 0, "make namespaces");
  need(::sethostname(options.hostname.data(), options.hostname.size()) == 0, "set the host name");
}

void make_folders(const std::string& path) {
  for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    ::mkdir(path.substr(0, slash).c_str(), 0755);
    if (slash == std::string::npos) { return; }
  }
}

void mount_fresh(const char* type, const char* target, const char* data) {
  need(::mount(type, target, type, 0, data) == 0, std::string("mount ") + target);
}

/// Puts a folder or file that is open as `fd` to where a fresh mount now hides it.
void bind_back(int fd, const std::string& target) {
  need(::mount(fmt::format("/proc/self/fd/{}", fd).c_str(), target.c_str(), nullptr, MS_BIND | MS_REC,
               nullptr) == 0,
       "keep " + target);
  ::close(fd);
}

void make_private_mounts(const Options& options) {
  need(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
  std::vector<int> kept;
  for (const auto& folder : options.keep) { kept.push_back(::open(folder.c_str(), O_PATH | O_CLOEXEC)); }
  const int cgroups = ::open("/sys/fs/cgroup", O_PATH | O_CLOEXEC);
  mount_fresh("proc", "/proc", nullptr);
  mount_fresh("sysfs", "/sys", nullptr);  // shows the slice's own network devices
  if (cgroups >= 0) { bind_back(cgroups, "/sys/fs/cgroup"); }
  mount_fresh("tmpfs", "/dev/shm", "mode=1777");
  mount_fresh("tmpfs", "/tmp", "mode=1777");
  need(
      ::mkdir(options.temporary.c_str(), 0700) == 0 &&
          (!options.user || ::chown(options.temporary.c_str(), options.user->user, options.user->group) == 0),
      "make folder " + options.temporary);
  const std::string hosts = "/tmp/hosts";
  need(put(hosts, options.hosts) && ::mount(hosts.c_str(), "/etc/hosts", nullptr, MS_BIND, nullptr) == 0,
       "give the slice its own /etc/hosts");
  ::unlink(hosts.c_str());
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] < 0) { continue; }
    make_folders(options.keep[i]);
    bind_back(kept[i], options.keep[i]);
  }
  need(put("/proc/sys/net/ipv4/tcp_retries2", vmctl::tcp_retries2), "set tcp_retries2");
}

/// A mount namespace for the payload's sake alone.
void make_mount_namespace() {
  need(::unshare(CLONE_NEWNS) == 0, "make a mount namespace");
  need(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
}

/// On a folder that is open: who the slice runs as owns the one that it lies in, and may turn its name
/// elsewhere.
void mount_payload(const Options& options, const UniqueFd& image) {
  const UniqueFd temporary(
      ::open(options.temporary.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  const char* const name = vmctl::payload_folder + 1;
  need(temporary && ::mkdirat(temporary.get(), name, 0755) == 0, "make a folder for the payload");
  const UniqueFd folder(::openat(temporary.get(), name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  need(static_cast<bool>(folder), "open the payload's folder");
  const char* const failed = vmctl::mount_squashfs(image.get(), folder.get(), options.name);
  need(failed == nullptr, failed == nullptr ? "" : failed);
}

/// RDMA and CUDA lock memory, which guests may do without bound.
void become_user(const Options& options) {
  rlimit locked{RLIM_INFINITY, RLIM_INFINITY};
  if (::setrlimit(RLIMIT_MEMLOCK, &locked) != 0 && ::getrlimit(RLIMIT_MEMLOCK, &locked) == 0) {
    locked.rlim_cur = locked.rlim_max;  // a container that lacks CAP_SYS_RESOURCE
    ::setrlimit(RLIMIT_MEMLOCK, &locked);
  }
  if (options.user) { need(options.user->assume(), "become the calling user"); }
}

[[noreturn]] void become_agent(Options& options) {
  UniqueFd payload;  // its path may lie where the slice sees it no more
  if (!options.payload.empty()) {
    payload = UniqueFd(::open(options.payload.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    need(static_cast<bool>(payload), "open the payload");
  }
  if (options.isolated) {
    make_private_mounts(options);
  } else if (payload) {
    make_mount_namespace();
  }
  if (payload) { mount_payload(options, payload); }
  become_user(options);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // another user's process forgets it
  // As in a guest; and where we were started may lie under the old /tmp, where mpirun then finds no folder to
  // be in.
  need(::chdir("/") == 0, "change to /");
  ::fcntl(status_fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(life_line_fd, F_SETFD, FD_CLOEXEC);
  ::execv(options.agent[0], options.agent.data());
  give_up(std::string("start ") + options.agent[0]);
}

/// Waits for the agent's end or for the life line's, whichever comes first; returns the agent's exit status.
int watch(pid_t agent) {
  const int agent_fd = static_cast<int>(::syscall(SYS_pidfd_open, agent, 0));
  pollfd events[] = {{life_line_fd, POLLIN, 0}, {agent_fd, POLLIN, 0}};
  while (::poll(events, agent_fd < 0 ? 1 : 2, 1000) >= 0 || errno == EINTR) {
    if (events[0].revents != 0) { break; }
    int status = 0;
    for (pid_t ended; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      if (ended == agent) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    ::signal(signal, SIG_IGN);  // the life line decides
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  bound_resources(options);
  if (options.isolated) { enter_namespaces(options); }
  report("cores=" + line_value(read_file("/proc/self/status").value_or(""), "Cpus_allowed_list"));

  const pid_t agent = ::fork();
  need(agent >= 0, "fork");
  if (agent == 0) {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) { ::signal(signal, SIG_DFL); }
    become_agent(options);
  }
  ::close(status_fd);
  ::close(channel_fd);  // the agent's alone, or its end would not be seen
  const int result = watch(agent);
  ::kill(agent, SIGKILL);
  end_descendants(std::chrono::seconds(30));  // pinned memory is given back slowly, as by a QEMU
  std::_Exit(result);  // a leak check at the exit would hang: it starts a child of its own
}
