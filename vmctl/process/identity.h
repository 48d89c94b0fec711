#pragma once

#include <pwd.h>
#include <sys/types.h>

#include <vector>

namespace virtrain::vmctl {

/// Whom a process runs as.
struct Identity {
  uid_t user = 0;
  gid_t group = 0;
  std::vector<gid_t> groups = {};  ///< kvm's, say

  /// Becomes it for good; between fork and exec too, for it does nothing but system calls.
  bool assume() const;
};

Identity identity_of(const passwd& account);

}  // namespace virtrain::vmctl
