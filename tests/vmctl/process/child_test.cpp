#include "vmctl/process/child.h"

#include <limits.h>
#include <stdlib.h>

#include <algorithm>

#include "common/contains.h"
#include "common/error.h"
#include "tests/support/catch.h"

namespace virtrain::vmctl {
namespace {

/// Lists this many groups, 1000 and up, as getgrouplist() does where there is room for fewer, too.
ListGroups lists(int there_are) {
  return [there_are](gid_t* groups, int* count) {
    const int room = *count;
    for (int i = 0; i < std::min(room, there_are); ++i) { groups[i] = 1000 + static_cast<gid_t>(i); }
    *count = there_are;
    return room < there_are ? -1 : there_are;
  };
}

TEST_CASE("an account has all its groups, however many, and never root's") {
  for (const int there_are : {1, 64, 65, 70, 5000, NGROUPS_MAX}) {
    CAPTURE(there_are);
    const auto groups = all_groups(lists(there_are));
    REQUIRE(std::ssize(groups) == there_are);
    CHECK_FALSE(contains(groups, gid_t{0}));
    CHECK(groups.back() == 1000 + static_cast<gid_t>(there_are) - 1);
  }
  CHECK_THROWS_AS(all_groups([](gid_t*, int*) { return -1; }), Error);
}

TEST_CASE("a child that becomes another user inherits no token") {
  ::setenv("VIRTRAIN_TOKEN", "s3cret", 1);
  ::setenv("XDG_RUNTIME_DIR", "/run/user/0", 1);
  CHECK(contains<std::string>(environment_with({}), "VIRTRAIN_TOKEN=s3cret"));
  const auto plain = plain_environment_with({"XDG_RUNTIME_DIR=/tmp/vt-1", "HOME=/tmp/vt-1"});
  CHECK_FALSE(contains<std::string>(plain, "VIRTRAIN_TOKEN=s3cret"));
  const auto of = [&](std::string_view name) {
    return std::count_if(plain.begin(), plain.end(), [&](const auto& one) { return one.starts_with(name); });
  };
  CHECK(of("PATH=") == 1);
  CHECK(contains<std::string>(plain, "XDG_RUNTIME_DIR=/tmp/vt-1"));
  CHECK(of("XDG_RUNTIME_DIR=") == 1);
  CHECK(of("HOME=") == 1);
  ::unsetenv("VIRTRAIN_TOKEN");
  ::unsetenv("XDG_RUNTIME_DIR");
}

}  // namespace
}  // namespace virtrain::vmctl
