#include "vmctl/process/calling_user.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sched.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "common/text/printable.h"
#include "common/text/units.h"
#include "vmctl/process/child.h"
#include "vmctl/process/containment.h"

namespace virtrain::vmctl {
namespace {

Identity identity_of_number(uid_t user, gid_t otherwise) {
  if (const auto* account = ::getpwuid(user)) { return identity_of(*account); }
  return {user, otherwise, {}};
}

std::optional<ucred> credentials_of_input() {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(STDIN_FILENO, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) { return std::nullopt; }
  return peer;
}

/// Who made the socket that is standard input; nothing where it is none.
std::optional<Identity> peer_of_input() {
  const auto peer = credentials_of_input();
  return peer ? std::optional(identity_of_number(peer->uid, peer->gid)) : std::nullopt;
}

Identity own_identity() {
  return {::geteuid(), ::getegid(), all_groups([](gid_t* groups, int* count) {
            const int listed = ::getgroups(*count, groups);
            if (listed >= 0) { *count = listed; }
            return listed;
          })};
}

/// libc's setgroups() is for all threads, the system call for this one.
void take_file_rights(const Identity& user) {
  const bool has_groups = ::syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0;
  ::setfsgid(user.group);
  ::setfsuid(user.user);
  constexpr auto none = static_cast<uid_t>(-1);  // changes nothing, and says what it is
  if (!has_groups || static_cast<uid_t>(::setfsuid(none)) != user.user ||
      static_cast<gid_t>(::setfsgid(none)) != user.group) {
    throw Error("open files as the calling user", ErrorCode::host_unable,
                fmt::format("this process may not become user {}", user.user));
  }
}

}  // namespace

Identity calling_user_of(const std::optional<std::string>& sudo_uid, const std::optional<Identity>& peer) {
  if (peer && peer->user != 0) { return *peer; }
  if (!sudo_uid) { return peer.value_or(Identity{}); }
  const auto number = parse_integer(*sudo_uid);
  if (!number || *number < 0 || *number >= std::numeric_limits<uid_t>::max()) {
    throw Error("find out who called sudo", ErrorCode::host_unable,
                "SUDO_UID is '" + excerpt(*sudo_uid, 64) + "'");
  }
  constexpr gid_t nobodys = 65534;
  return identity_of_number(static_cast<uid_t>(*number), nobodys);
}

const Identity& calling_user() {
  static const Identity user = [] {
    if (::geteuid() != 0) { return own_identity(); }
    const char* sudo_uid = std::getenv("SUDO_UID");
    return calling_user_of(sudo_uid != nullptr ? std::optional<std::string>(sudo_uid) : std::nullopt,
                           peer_of_input());
  }();
  return user;
}

const Identity& coordinator_user() {
  static const Identity user = [] {
    const auto peer = ::geteuid() == 0 ? peer_of_input() : std::nullopt;
    return peer.value_or(calling_user());
  }();
  return user;
}

bool works_for_another() {
  return coordinator_user().user != ::geteuid();
}

void keep_to_cores_of_caller() {
  const auto peer = credentials_of_input();
  cpu_set_t theirs, own;
  if (!peer || peer->pid <= 0 || ::sched_getaffinity(peer->pid, sizeof theirs, &theirs) != 0 ||
      ::sched_getaffinity(0, sizeof own, &own) != 0) {
    return;
  }
  CPU_AND(&own, &own, &theirs);
  if (CPU_COUNT(&own) > 0) { ::sched_setaffinity(0, sizeof own, &own); }
}

void take_own_surroundings() {
  if (!works_for_another()) { return; }
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view one = *entry;
    if (one.starts_with("LANG=") || one.starts_with("LC_")) { kept.emplace_back(one); }
  }
  ::clearenv();
  for (const auto& one : kept) {
    const auto equals = one.find('=');
    ::setenv(one.substr(0, equals).c_str(), one.c_str() + equals + 1, 1);
  }
  ::setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
  ::setenv("HOME", home_of({}).c_str(), 1);
  for (const auto limit : {RLIMIT_FSIZE, RLIMIT_CPU, RLIMIT_AS, RLIMIT_DATA}) {
    const rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(limit, &none);
  }
  ::umask(022);
  std::signal(SIGCHLD, SIG_DFL);
}

std::string home_of(const Identity& user) {
  const auto* account = ::getpwuid(user.user);
  return account != nullptr && account->pw_dir != nullptr ? account->pw_dir : "/";
}

void require_runnable(const std::string& program, const Identity& user) {
  const AsUser them(user);
  if (::faccessat(AT_FDCWD, program.c_str(), X_OK, AT_EACCESS) == 0) { return; }
  const std::string why = std::strerror(errno);
  throw Error("start nodes on bare metal as user " + std::to_string(user.user), ErrorCode::host_unable,
              user.user == ::geteuid()
                  ? fmt::format("{} cannot be run: {}", program, why)
                  : fmt::format("who called sudo may not run {}: {} (build where that user may enter, or "
                                "unset SUDO_UID)",
                                program, why));
}

AsUser::AsUser(const Identity& user) : is_other_(user.user != ::geteuid()) {
  if (!is_other_) { return; }
  own_ = own_identity();
  take_file_rights(user);
}

AsUser::~AsUser() {
  if (!is_other_) { return; }
  ::setfsuid(own_.user);
  ::setfsgid(own_.group);
  ::syscall(SYS_setgroups, own_.groups.size(), own_.groups.data());
}

std::string try_other_user() {
  constexpr id_t somebody = 65534;
  const UniqueFd file(::memfd_create("virtrain", MFD_CLOEXEC));
  if (!file || ::fchown(file.get(), somebody, somebody) != 0) {
    return fmt::format("give a file to another user: {}", std::strerror(errno));
  }
  const Identity other{somebody, somebody};
  const pid_t child = ::fork();
  if (child < 0) { throw errno_error("start a child process", errno); }
  if (child == 0) { ::_exit(other.assume() ? 0 : 1); }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "become another user: not permitted";
}

const Privileges& try_privileges() {
  static const Privileges tried = [] {
    Privileges found;
    found.is_root = ::geteuid() == 0;
    found.lacks_isolation = found.is_root ? try_isolation() : "make namespaces: only root may";
    if (!found.lacks_isolation.empty()) { found.lacks_user_namespaces = try_isolation_in_user_namespace(); }
    return found;
  }();
  return tried;
}

}  // namespace virtrain::vmctl
