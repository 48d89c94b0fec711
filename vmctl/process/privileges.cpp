#include "vmctl/process/privileges.h"

#include <unistd.h>

#include "vmctl/process/containment.h"

namespace virtrain::vmctl {

const Privileges& try_privileges() {
  static const Privileges tried = [] {
    Privileges found;
    found.lacks_isolation = ::geteuid() == 0 ? try_isolation() : "make namespaces: only root may";
    if (!found.lacks_isolation.empty()) { found.lacks_user_namespaces = try_isolation_in_user_namespace(); }
    return found;
  }();
  return tried;
}

}  // namespace virtrain::vmctl
