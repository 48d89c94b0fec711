#include "common/system/memory_limit.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

namespace virtrain {
namespace {

namespace fs = std::filesystem;

/// A recorded host with these files; removed at the end.
struct Host {
  TemporaryFolder folder;
  fs::path root = folder.path;
  void put(const char* path, const char* text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text;
  }
};

TEST_CASE("the tightest cgroup of the process and its parents counts") {
  const Host host;
  CHECK(!cgroup_memory_limit(host.root));
  SECTION("version 2") {
    host.put("proc/self/cgroup", "0::/virtrain/vt-1\n");
    host.put("sys/fs/cgroup/virtrain/vt-1/memory.max", "max\n");
    CHECK(!cgroup_memory_limit(host.root));
    host.put("sys/fs/cgroup/virtrain/memory.max", "1073741824\n");
    CHECK(cgroup_memory_limit(host.root) == 1073741824);
    host.put("sys/fs/cgroup/virtrain/vt-1/memory.max", "805306368\n");
    CHECK(cgroup_memory_limit(host.root) == 805306368);
  }
  SECTION("version 1, where no limit is a large number and others' controllers do not matter") {
    host.put("proc/self/cgroup", "7:cpuset:/tight\n4:memory:/vt-1\n");
    host.put("sys/fs/cgroup/memory/tight/memory.limit_in_bytes", "1048576\n");
    host.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    CHECK(!cgroup_memory_limit(host.root));
    host.put("sys/fs/cgroup/memory/vt-1/memory.limit_in_bytes", "805306368\n");
    CHECK(cgroup_memory_limit(host.root) == 805306368);
  }
}

TEST_CASE("the data segment's limit is read back from the process itself") {
  const auto child = ::fork();
  if (child == 0) {
    const rlimit limit{64U << 20, RLIM_INFINITY};
    ::setrlimit(RLIMIT_DATA, &limit);
    ::_exit(data_segment_limit() == 64U << 20 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  CHECK(status == 0);
}

}  // namespace
}  // namespace virtrain
