// Real namespaces and processes, as root and as a user without any privilege.

#include "vmctl/process/containment.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "common/system/process_info.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"
#include "vmctl/process/calling_user.h"
#include "vmctl/slice/net_devices.h"

using namespace virtrain;
using namespace virtrain::vmctl;

namespace {

/// Exit status of a child that runs `body` as a user without privileges; 128 + signal if one ended it.
int as_nobody_special(const std::function<int()>& body) {
  constexpr uid_t user = 64321;  // of nobody
  const pid_t child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && (::setgroups(0, nullptr) != 0 || ::setresgid(user, user, user) != 0 ||
                             ::setresuid(user, user, user) != 0)) {
      std::_Exit(99);
    }
    ::prctl(PR_SET_DUMPABLE, 1);  // as after an exec: /proc/self belongs to the user
    std::_Exit(body());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool user_namespaces_are_allowed() {
  return as_nobody_special([] { return try_isolation_in_user_namespace().empty() ? 0 : 1; }) == 0;
}

bool exists(pid_t pid) {
  return process_info(pid).has_value();
}

}  // namespace

TEST_CASE("what a process may do is found out by doing it") {
  test::need_root();
  CHECK(try_isolation().empty());
  CHECK(may_isolate());
  CHECK(best_mode(try_privileges()) == HostMode::system);
  // The same process without its privileges: the kernel's words say which step failed.
  CHECK(as_nobody_special(
            [] { return try_isolation() == "make namespaces: Operation not permitted" ? 0 : 1; }) == 0);
  CHECK(as_nobody_special([] { return may_isolate() ? 1 : 0; }) == 0);
  // Trying leaves no device.
  CHECK(link_kind("vtprobe") == LinkKind::other);
}

TEST_CASE("the best mode follows from what failed") {
  CHECK(best_mode({"", ""}) == HostMode::system);
  CHECK(best_mode({"make namespaces: only root may", ""}) == HostMode::namespaces);
  CHECK(best_mode({"make namespaces: only root may", "make a user namespace: not permitted"}) ==
        HostMode::session);
  CHECK(what_it_lacks(HostMode::system).empty());
  CHECK(what_it_lacks(HostMode::session).find("bare_metal_shared") != std::string::npos);
}

TEST_CASE(
    "a user's run in namespaces of its own makes bridges, taps and network namespaces that the host never "
    "sees") {
  if (!user_namespaces_are_allowed()) { test::skip("this host allows no user namespaces"); }
  const int status = as_nobody_special([] {
    continue_contained(Containment::user_namespace);
    if (!may_isolate()) { return 2; }
    create_bridge("vtbtest", {}, "e");
    create_tap("vttest", "vtbtest", ::geteuid(), "e");
    run_ip({}, {"netns add vt-test-1", "link add vtvtest type veth peer name eth0 netns vt-test-1"});
    if (bridge_ports("vtbtest") != std::vector<std::string>{"vttest"}) { return 3; }
    if (list_namespaces() != std::vector<std::string>{"vt-test-1"}) { return 4; }
    return 42;
  });
  CHECK(status == 42);  // of the child, handed on by the process that stayed behind
  CHECK(bridge_ports("vtbtest").empty());
}

TEST_CASE("nothing that a contained run started outlives it, however it ends") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const bool by_signal = GENERATE(false, true);
  const int status = as_nobody_special([&] {
    continue_contained(Containment::processes_only);
    // As QEMU: in a session of its own, with its parent gone.
    run_command({"sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"});
    const auto started = run_command({"sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"}).out;
    if (::write(pipe_ends[1], started.data(), started.size()) < 0) { return 1; }
    if (by_signal) { ::kill(::getpid(), SIGKILL); }
    return 7;
  });
  ::close(pipe_ends[1]);
  char text[32] = {};
  REQUIRE(::read(pipe_ends[0], text, sizeof text - 1) > 0);
  ::close(pipe_ends[0]);
  CHECK(status == (by_signal ? 128 + SIGKILL : 7));
  CHECK_FALSE(exists(static_cast<pid_t>(std::stol(text))));
}

TEST_CASE("a signal to the process that stayed behind reaches the run, and its death ends the run") {
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const int sent = GENERATE(SIGTERM, SIGKILL);
  const pid_t behind = ::fork();
  if (behind == 0) {
    ::signal(SIGTERM, SIG_DFL);  // Catch's own says that a test failed
    continue_contained(Containment::processes_only);
    const pid_t self = ::getpid();
    if (::write(pipe_ends[1], &self, sizeof self) != sizeof self) { std::_Exit(1); }
    while (true) { ::pause(); }
  }
  pid_t run = 0;
  REQUIRE(::read(pipe_ends[0], &run, sizeof run) == sizeof run);
  ::kill(behind, sent);
  int status = 0;
  ::waitpid(behind, &status, 0);
  for (int i = 0; i < 500 && exists(run); ++i) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
  CHECK_FALSE(exists(run));
  if (sent == SIGTERM) { CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGTERM)); }
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

TEST_CASE("a terminal that is closed ends the run: the kernel tells only the process that stayed behind") {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  REQUIRE((terminal >= 0 && ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0));
  const std::string name = ::ptsname(terminal);
  int pipe_ends[2];
  REQUIRE(::pipe(pipe_ends) == 0);
  const pid_t behind = ::fork();
  if (behind == 0) {
    ::close(terminal);
    ::signal(SIGHUP, SIG_DFL);
    if (::setsid() < 0 || ::open(name.c_str(), O_RDWR) < 0) { std::_Exit(1); }  // which becomes its terminal
    continue_contained(Containment::processes_only);
    const pid_t self = ::getpid();
    if (::write(pipe_ends[1], &self, sizeof self) != sizeof self) { std::_Exit(1); }
    while (true) { ::pause(); }
  }
  pid_t run = 0;
  REQUIRE(::read(pipe_ends[0], &run, sizeof run) == sizeof run);
  ::close(terminal);
  for (int i = 0; i < 500 && exists(run); ++i) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }
  CHECK_FALSE(exists(run));
  ::kill(behind, SIGKILL);
  ::waitpid(behind, nullptr, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}
