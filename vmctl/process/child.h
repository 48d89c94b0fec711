#pragma once

#include <pwd.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

// Settings of child processes.
namespace virtrain::vmctl {

/// This process's environment with these ("NAME=value") in place of its own. A name given twice means one
/// thing to libc and another to the shell, so what is set is not inherited.
std::vector<std::string> environment_with(std::vector<std::string> set);
/// The same for a child that becomes another user, whose processes can read its environment. It inherits what
/// is_plain_variable() names and nothing else, so no token of the caller's.
std::vector<std::string> plain_environment_with(std::vector<std::string> set);
/// The same for a bare-metal slice: of what steers a trainer (OMP_*, OMPI_MCA_*, SLURM_*, …) it inherits
/// nothing, for no VM would. Only where things are on this host comes along.
std::vector<std::string> slice_environment_with(std::vector<std::string> set);

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

/// Identity of the account with all its groups. Throws Error(host_unable) where they cannot be listed.
Identity identity_of(const passwd& account);

/// Groups as getgrouplist() lists them: writes at most `*count` of them and sets it to how many there are;
/// less than 0 where they did not fit.
using ListGroups = std::function<int(gid_t* groups, int* count)>;
/// All that it lists, however many. Error(host_unable) past what the kernel takes.
std::vector<gid_t> all_groups(const ListGroups& list);

}  // namespace virtrain::vmctl
