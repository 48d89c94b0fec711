// A real libvirt daemon, as the account of QEMU. Root only.

#include "vmctl/hypervisor/libvirt/private_libvirt.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/system/process_info.h"
#include "tests/support/catch.h"
#include "tests/support/skip.h"

namespace virtrain::vmctl {
namespace {

TEST_CASE("the daemon that becomes QEMU's user knows no token of root's") {
  test::need_root();
  ::setenv("VIRTRAIN_TOKEN", "s3cret", 1);
  const PrivateLibvirt libvirt(PrivateLibvirt::new_folder_name(), [] {});
  ::unsetenv("VIRTRAIN_TOKEN");
  REQUIRE(libvirt.other_user());
  int seen = 0;
  for (const auto pid : process_tree(::getpid())) {
    if (user_of(pid) != libvirt.other_user()) { continue; }
    CHECK(process_variable(pid, "PATH"));
    CHECK_FALSE(process_variable(pid, "VIRTRAIN_TOKEN"));
    ++seen;
  }
  CHECK(seen > 0);
}

}  // namespace
}  // namespace virtrain::vmctl
