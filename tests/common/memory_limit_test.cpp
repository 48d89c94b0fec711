
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "common/system/cgroups.h"
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
  SECTION("a path with colons, as containerd makes them") {
    host.put("proc/self/cgroup", "0::/pods.slice:cri-containerd:f00\n");
    host.put("sys/fs/cgroup/pods.slice:cri-containerd:f00/memory.max", "1073741824\n");
    CHECK(cgroup_memory_limit(host.root) == 1073741824);
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

TEST_CASE("the least quota of CPU time of the process's cgroup and its parents counts") {
  const Host host;
  CHECK(!cgroup_cpu_quota(host.root));
  SECTION("version 2") {
    host.put("proc/self/cgroup", "0::/a/b\n");
    host.put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    CHECK(!cgroup_cpu_quota(host.root));
    host.put("sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    CHECK(cgroup_cpu_quota(host.root) == 2.5);
    host.put("sys/fs/cgroup/cpu.max", "200000 100000\n");  // as a container has it
    CHECK(cgroup_cpu_quota(host.root) == 2);
  }
  SECTION("version 1, where the controller has others beside it and -1 is no quota") {
    host.put("proc/self/cgroup", "7:cpuset:/tight\n4:cpu,cpuacct:/docker/1\n");
    host.put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "-1\n");
    host.put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_period_us", "100000\n");
    CHECK(!cgroup_cpu_quota(host.root));
    host.put("sys/fs/cgroup/cpu/docker/1/cpu.cfs_quota_us", "50000\n");
    CHECK(cgroup_cpu_quota(host.root) == 0.5);
  }
  SECTION("what is no quota") {
    host.put("proc/self/cgroup", "0::/../..\n");
    for (const char* text : {"", "200000", "0 100000", "200000 0", "200000 100000 1", "a b"}) {
      host.put("sys/fs/cgroup/cpu.max", text);
      CHECK(!cgroup_cpu_quota(host.root));
    }
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
