#include "harness/hosts/elevation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/error.h"
#include "common/system/log.h"
#include "common/system/subprocess.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "harness/hosts/launcher.h"

namespace virtrain::harness {
namespace {

constexpr const char* getting_root = "get a host process with root's privileges";

/// sudo reports a user who may not use it to the administrator, so it is not tried by whoever comes along.
bool is_administrator() {
  constexpr std::array administrators{"sudo", "wheel", "admin"};
  return std::ranges::any_of(administrators, [](const char* name) {
    const auto* group = ::getgrnam(name);
    return group != nullptr && ::group_member(group->gr_gid) != 0;
  });
}

/// Why sudo does not run `virtrain-host --version` without a question; empty: it does.
std::string lacks_sudo() {
  if (on_path("sudo").empty()) { return "sudo is not installed"; }
  const auto tried =
      run_command({"sudo", "-n", "--", sibling_program("virtrain-host").string(), "--version"});
  return tried.exit_status == 0 ? "" : excerpt(trim(tried.err), 300);
}

/// Empty: it answers.
std::string lacks_group_socket() {
  try {
    connect_to_group_socket();
    return "";
  } catch (const Error& error) { return error.message(); }
}

}  // namespace

Elevation choose_elevation(std::optional<Elevation> asked) {
  if (::geteuid() == 0 || asked == Elevation::none) { return Elevation::none; }
  const auto refuse = [](const std::string& why, const char* what_to_do) {
    throw Error(getting_root, ErrorCode::host_unable, fmt::format("{} ({})", why, what_to_do));
  };
  if (!asked || asked == Elevation::group) {
    const auto why = lacks_group_socket();
    if (why.empty()) { return Elevation::group; }
    if (asked) {
      refuse(fmt::format("{}: {}", group_socket, why),
             "as root: systemctl enable --now virtrain-host.socket; adduser USER virtrain");
    }
  }
  if (!asked && !is_administrator()) { return Elevation::none; }
  const auto why = lacks_sudo();
  if (why.empty()) { return Elevation::sudo; }
  if (asked && may_ask_for_sudo()) { return ask_for_sudo(), Elevation::sudo; }
  if (asked) { refuse("sudo: " + why, "sudo -v first, a terminal, or a rule for virtrain-host in sudoers"); }
  log::debug("sudo would ask for a password", {{"said", why}});
  return Elevation::none;
}

bool may_ask_for_sudo() {
  return ::geteuid() != 0 && ::isatty(STDIN_FILENO) == 1 && ::isatty(STDERR_FILENO) == 1 &&
         !on_path("sudo").empty();
}

void ask_for_sudo() {
  auto program = sibling_program("virtrain-host").string();
  std::string words[] = {
      "sudo", "-p", "virtrain: password of %p for sudo, to change this host: ", "--", program, "--version"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(),
                  words[4].data(), words[5].data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed = ::posix_spawnp(&pid, argv[0], &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) { throw errno_error("start sudo", failed); }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw Error(getting_root, ErrorCode::host_unable,
                fmt::format("sudo did not start {} (--privileges none goes on without)", program));
  }
}

}  // namespace virtrain::harness
