#include "vmctl/process/identity.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>

namespace virtrain::vmctl {

bool Identity::assume() const {
  return ::setgroups(groups.size(), groups.data()) == 0 && ::setresgid(group, group, group) == 0 &&
         ::setresuid(user, user, user) == 0;
}

Identity identity_of(const passwd& account) {
  int count = 64;
  Identity identity{account.pw_uid, account.pw_gid, std::vector<gid_t>(static_cast<std::size_t>(count))};
  ::getgrouplist(account.pw_name, account.pw_gid, identity.groups.data(), &count);
  identity.groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return identity;
}

}  // namespace virtrain::vmctl
