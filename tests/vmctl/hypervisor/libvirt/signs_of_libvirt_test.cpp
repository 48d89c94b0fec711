#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/hypervisor/libvirt/daemon.h"
#include "vmctl/hypervisor/libvirt/handles.h"

namespace virtrain::vmctl {
namespace {

using namespace std::chrono_literals;

/// A process that is killed at the end.
class Process {
 public:
  template <typename Work>
  explicit Process(Work work) : pid_(::fork()) {
    if (pid_ != 0) { return; }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    work();
    ::_exit(1);
  }
  ~Process() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

 private:
  pid_t pid_;
};

/// In a mount namespace of its own, or a virtrain at work on this host would take it for its libvirt.
void compute_as(const char* daemon) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) { return; }
  ::prctl(PR_SET_NAME, daemon);
  while (true) {}
}

/// Whether the signs grow by `amount` within ten seconds.
bool grow(std::chrono::nanoseconds amount) {
  SignsOfLibvirt signs;
  const auto before = signs();
  for (int i = 0; i < 1000; ++i) {
    if (signs() - before >= amount) { return true; }
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

TEST_CASE("a daemon is alive while it computes, and while QEMU does that it asks") {
  SECTION("itself") {
    const Process daemon([] { compute_as("libvirtd"); });
    CHECK(grow(200ms));
  }
  SECTION("QEMU, which has let go of it") {
    const TemporaryFolder folder;
    const auto program = folder.path / "qemu-system-x86_64";
    std::filesystem::create_symlink("/bin/bash", program);
    const Process qemu([&] {
      ::execl(program.c_str(), program.c_str(), "-c", "while :; do :; done", "-machine", "none,accel=kvm:tcg",
              nullptr);
    });
    CHECK(grow(200ms));
  }
}

TEST_CASE("a call is given up at its deadline, unless a daemon is at work: then later") {
  const auto seconds_until_given_up = [] {
    const auto began = std::chrono::steady_clock::now();
    CHECK_THROWS_WITH(with_deadline("ask", 300ms, [] { std::this_thread::sleep_for(60s); }),
                      virtrain::test::Contains("libvirt did not answer within"));
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  {
    const Process daemon([] { compute_as("virtqemud"); });
    CHECK(seconds_until_given_up() > 1.7);
  }
  CHECK(with_deadline("ask", 20s, [] { return 7; }) == 7);
}

}  // namespace
}  // namespace virtrain::vmctl
