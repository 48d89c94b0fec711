#include "vmctl/process/child.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

namespace virtrain::vmctl {

std::vector<std::string> environment_with(std::vector<std::string> set) {
  const auto given = set.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own = *entry;
    const auto name = own.substr(0, own.find('=') + 1);
    const auto is_it = [&](const std::string& one) { return one.starts_with(name); };
    if (std::none_of(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(given), is_it)) {
      set.emplace_back(own);
    }
  }
  return set;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> raw;
  raw.reserve(words.size() + 1);
  for (auto& word : words) { raw.push_back(word.data()); }
  raw.push_back(nullptr);
  return raw;
}

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
