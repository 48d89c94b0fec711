#include "vmctl/hypervisor/libvirt/daemon.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstdlib>

#include "common/files/unique_fd.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain::vmctl {
namespace {

using namespace std::chrono_literals;

TEST_CASE("a libvirt that is busy is told from one that does not run, and Ctrl-C ends the wait for it") {
  const TemporaryFolder folder;
  const auto socket_file = folder.path / "socket";
  const auto uri = "qemu+unix:///system?socket=" + socket_file.string();
  std::string why;
  CHECK(look_at_libvirt(uri, &why) == DaemonState::absent);
  CHECK_THAT(why, virtrain::test::Contains("No such file"));

  // It takes the connection and is silent, as a daemon is that looks at QEMU.
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_file.string().copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  REQUIRE(::listen(listener.get(), 4) == 0);
  CHECK(look_at_libvirt(uri, &why, 200ms) == DaemonState::busy);
  CHECK_THAT(why, virtrain::test::Contains("did not answer"));
  CHECK_FALSE(libvirt_answers("qemu+unix:///system?socket=/nowhere"));
  CHECK_THROWS_WITH(LibvirtDaemon(uri, /*may_start=*/true, [] { return true; }),
                    virtrain::test::Contains("stopped on request"));
}

TEST_CASE("a daemon that may not be started is asked for with the flag that forbids it") {
  const TemporaryFolder folder;
  ::setenv("VIRTRAIN_STATE_DIR", (folder.path / "state").c_str(), 1);
  const auto uri = "qemu+unix:///system?socket=" + (folder.path / "none").string();
  CHECK_THROWS_WITH(LibvirtDaemon(uri, /*may_start=*/false), virtrain::test::Contains("--no-host-changes"));
  CHECK_THROWS_WITH(LibvirtDaemon(uri, /*may_start=*/true, {}, 1s),
                    !virtrain::test::Contains("--no-host-changes"));
  ::unsetenv("VIRTRAIN_STATE_DIR");
}

}  // namespace
}  // namespace virtrain::vmctl
