#include "vmctl/process/child.h"

#include <fmt/format.h>
#include <grp.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "common/system/subprocess.h"

namespace virtrain::vmctl {

namespace {

using IsInherited = bool (*)(std::string_view name);

std::vector<std::string> inherit_into(std::vector<std::string> set, IsInherited is_inherited) {
  const auto given = set.size();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view own = *entry;
    const auto name = own.substr(0, own.find('=') + 1);
    if (!is_inherited(own.substr(0, own.find('=')))) { continue; }
    const auto is_it = [&](const std::string& one) { return one.starts_with(name); };
    if (std::none_of(set.begin(), set.begin() + static_cast<std::ptrdiff_t>(given), is_it)) {
      set.emplace_back(own);
    }
  }
  return set;
}

/// Where libraries are on this host, what a build with sanitizers is told, and our own. No TMPDIR: others may
/// write there too.
bool is_slice_variable(std::string_view name) {
  return is_plain_variable(name) || name == "LD_LIBRARY_PATH" || name.ends_with("SAN_OPTIONS") ||
         name.starts_with("VIRTRAIN_");
}

}  // namespace

std::vector<std::string> environment_with(std::vector<std::string> set) {
  return inherit_into(std::move(set), [](std::string_view) { return true; });
}

std::vector<std::string> plain_environment_with(std::vector<std::string> set) {
  return inherit_into(std::move(set), is_plain_variable);
}

std::vector<std::string> slice_environment_with(std::vector<std::string> set) {
  return inherit_into(std::move(set), is_slice_variable);
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
  return {account.pw_uid, account.pw_gid, all_groups([&](gid_t* groups, int* count) {
            return ::getgrouplist(account.pw_name, account.pw_gid, groups, count);
          })};
}

std::vector<gid_t> all_groups(const ListGroups& list) {
  constexpr std::size_t usual = 64;
  // Twice the kernel's most is room for all that it takes, and the end of a list that grows without end.
  for (std::vector<gid_t> groups(usual); groups.size() <= 2 * NGROUPS_MAX; groups.resize(2 * groups.size())) {
    int count = static_cast<int>(groups.size());
    if (list(groups.data(), &count) < 0) { continue; }
    groups.resize(static_cast<std::size_t>(count));
    return groups;
  }
  throw Error("list the groups of an account", ErrorCode::host_unable,
              fmt::format("it is in more than {} groups, which is more than Linux takes", NGROUPS_MAX));
}

}  // namespace virtrain::vmctl
