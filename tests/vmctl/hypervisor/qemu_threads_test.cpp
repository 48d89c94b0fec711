#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/hypervisor/qemu_process.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("vCPU threads are known by their names") {
  CHECK(vcpu_of_thread("CPU 0/TCG") == 0);
  CHECK(vcpu_of_thread("CPU 11/KVM") == 11);
  CHECK_FALSE(vcpu_of_thread("call_rcu"));
  CHECK_FALSE(vcpu_of_thread("CPU x/KVM"));
  CHECK_FALSE(vcpu_of_thread("CPU 1"));
}

TEST_CASE("libvirt's pid file of a domain is believed of a process that runs the domain, and of no other") {
  const std::string domain = "virtrain-20261120t080000-abc-1";
  const TemporaryFolder runtime;
  const auto folder = runtime.path / "libvirt/qemu/run";
  std::filesystem::create_directories(folder);
  const auto say = [&](pid_t pid) { std::ofstream(folder / (domain + ".pid")) << pid << "\n"; };
  ::setenv("XDG_RUNTIME_DIR", runtime.path.c_str(), 1);
  say(::getpid());  // as a stranger's file may, or one whose QEMU has gone
  CHECK_FALSE(qemu_pid(domain));
  say(-1);
  CHECK_FALSE(qemu_pid(domain));
  const pid_t qemu = ::fork();
  if (qemu == 0) {
    ::execl("/bin/sh", "sh", "-c", "while :; do sleep 0.1; done", "-name",
            ("guest=" + domain + ",debug-threads=on").c_str(), nullptr);
    ::_exit(1);
  }
  say(qemu);
  for (int i = 0; i < 500 && !runs_domain(qemu, domain); ++i) { ::usleep(10'000); }
  CHECK(qemu_pid(domain) == qemu);
  CHECK_FALSE(qemu_pid(domain + "0"));
  ::kill(qemu, SIGKILL);
  ::waitpid(qemu, nullptr, 0);
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace virtrain::vmctl
