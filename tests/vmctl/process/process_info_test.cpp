#include "vmctl/process/process_info.h"

#include <catch2/catch.hpp>
#include <unistd.h>

#include "vmctl/hypervisor/qemu_threads.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("/proc/pid/stat is read though the name holds blanks and brackets") {
  const auto info = parse_proc_stat(
      "4242 (a) b (c) S 17 4242 4242 0 -1 4194304 100 0 0 0 250 50 0 0 20 0 1 0 987654 1000 10 184467 0 0\n");
  REQUIRE(info);
  CHECK(info->pid == 4242);
  CHECK(info->name == "a) b (c");
  CHECK(info->state == 'S');
  CHECK(info->parent == 17);
  CHECK(info->start_time == 987654);
  CHECK_FALSE(parse_proc_stat(""));
  CHECK_FALSE(parse_proc_stat("12 (x) S 1"));
}

TEST_CASE("this process is in /proc, below its parent") {
  const auto self = process_info(::getpid());
  REQUIRE(self);
  CHECK(self->parent == ::getppid());
  CHECK(self->start_time > 0);
  const auto tree = process_tree(::getppid());
  CHECK(std::find(tree.begin(), tree.end(), ::getpid()) != tree.end());
  CHECK_FALSE(process_arguments(::getpid()).empty());
}

TEST_CASE("vCPU threads are known by their names") {
  CHECK(vcpu_of_thread("CPU 0/TCG") == 0);
  CHECK(vcpu_of_thread("CPU 11/KVM") == 11);
  CHECK_FALSE(vcpu_of_thread("call_rcu"));
  CHECK_FALSE(vcpu_of_thread("CPU x/KVM"));
  CHECK_FALSE(vcpu_of_thread("CPU 1"));
}

}  // namespace
}  // namespace virtrain::vmctl
