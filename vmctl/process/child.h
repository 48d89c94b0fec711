#pragma once

#include <pwd.h>
#include <sys/types.h>

#include <string>
#include <vector>

// What a child process is given.
namespace virtrain::vmctl {

/// This process's environment with these ("NAME=value") in place of its own. A name given twice means one
/// thing to libc and another to the shell, so what is set is not inherited.
std::vector<std::string> environment_with(std::vector<std::string> set);

/// As execve() and posix_spawn() want arguments and environments; good while the words are.
std::vector<char*> pointers(std::vector<std::string>& words);

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
