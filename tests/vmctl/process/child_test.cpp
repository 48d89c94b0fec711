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

TEST_CASE("what steers a trainer goes from the caller's shell into no slice, as it goes into no VM") {
  const std::vector<std::string> steering{
      "OMP_NUM_THREADS=7", "OMP_PLACES={0}",  "GOMP_CPU_AFFINITY=0",    "ONEDNN_MAX_CPU_ISA=SSE41",
      "OMPI_MCA_x=1",      "SLURM_JOB_ID=12", "CUDA_VISIBLE_DEVICES=3", "TMPDIR=/var/tmp",
  };
  const std::vector<std::string> needed{"LD_LIBRARY_PATH=/opt/lib", "XSAN_OPTIONS=a=1",
                                        "VIRTRAIN_LIES=honest"};
  for (const auto& given : {steering, needed}) {
    for (const auto& one : given) {
      const auto equals = one.find('=');
      ::setenv(one.substr(0, equals).c_str(), one.substr(equals + 1).c_str(), 1);
    }
  }
  const auto inside = slice_environment_with({"PATH=/usr/lib/virtrain:/usr/bin", "OMP_WAIT_POLICY=passive"});
  for (const auto& one : steering) {
    CAPTURE(one);
    CHECK_FALSE(contains(inside, one));
  }
  for (const auto& one : needed) {
    CAPTURE(one);
    CHECK(contains(inside, one));
  }
  CHECK(std::ranges::count_if(inside, [](const auto& one) { return one.starts_with("PATH="); }) == 1);
  CHECK(contains<std::string>(inside, "OMP_WAIT_POLICY=passive"));  // what is given stays
  for (const auto& given : {steering, needed}) {
    for (const auto& one : given) { ::unsetenv(one.substr(0, one.find('=')).c_str()); }
  }
}

}  // namespace
}  // namespace virtrain::vmctl
