#include "vmctl/api/host_mode.h"

namespace virtrain::vmctl {

HostMode best_mode(const Privileges& privileges) {
  if (privileges.lacks_isolation.empty()) { return HostMode::system; }
  return privileges.lacks_user_namespaces.empty() ? HostMode::namespaces : HostMode::session;
}

std::string what_it_lacks(HostMode mode) {
  switch (mode) {
    case HostMode::system:
      return "";
    case HostMode::namespaces:
      return "devices, huge pages, memory limits by cgroup";
    case HostMode::session:
      return "devices, huge pages, memory limits by cgroup, the arm bare_metal (use bare_metal_shared), and "
             "networks that keep tenants apart";
  }
  return "";
}

}  // namespace virtrain::vmctl
