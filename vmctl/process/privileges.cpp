#include "vmctl/process/privileges.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "common/error.h"
#include "common/files/unique_fd.h"
#include "vmctl/process/child.h"
#include "vmctl/process/containment.h"

namespace virtrain::vmctl {

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
