#include "vmctl/machine/inventory.h"

#include <unistd.h>

#include <filesystem>

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/subprocess.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/waiting_writer.h"
#include "vmctl/machine/host_words.h"

namespace virtrain::vmctl {
namespace {

namespace fs = std::filesystem;
const fs::path hosts = fs::path(VIRTRAIN_SOURCE_DIR) / "tests/data/inventory";

TEST_CASE("inventory of a recorded host with two nodes, an offline core and a GPU") {
  const auto host = load_inventory(hosts / "two-nodes");
  CHECK(host.hostname == "r750xa");
  REQUIRE(host.cores.size() == 7);
  CHECK(host.cores[0] == Core{0, 0});
  CHECK(host.cores[4] == Core{4, 1});
  CHECK(host.cores[6] == Core{6, 1});
  REQUIRE(host.numa_nodes.size() == 2);
  CHECK(host.numa_nodes[1].id == 1);
  CHECK(host.numa_nodes[1].memory_bytes == 264241152ULL * 1024);
  CHECK(host.numa_nodes[1].free_hugepages_1gib == 64);
  CHECK(host.memory_bytes == 527956992ULL * 1024);
  CHECK(host.available_memory_bytes == 520000000ULL * 1024);
  CHECK(host.cpu_model == "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz");
  CHECK(host.cpu_flags == std::vector<std::string>{"fpu", "vmx", "avx512f"});
  CHECK(host.microcode == "0xd0003a5");
  CHECK(host.kernel == "5.15.0-generic");
  CHECK(host.boot_id == "11111111-2222-3333-4444-555555555555");
  CHECK(host.mitigations.at("meltdown") == "Not affected");
  CHECK_FALSE(host.is_virtual_machine);
  REQUIRE(host.devices.size() == 1);
  CHECK(host.devices[0].function.address == "0000:17:00.0");
  CHECK(host.devices[0].function.numa_node == 1);
  CHECK(host.devices[0].function.device == "0x20b5");
}

TEST_CASE("a recorded host may be as little as cpuinfo and meminfo") {
  const auto host = load_inventory(hosts / "minimal");
  CHECK(host.hostname == "unknown");
  REQUIRE(host.numa_nodes.size() == 1);
  CHECK(host.numa_nodes[0].memory_bytes == 2048ULL * 1024);
  CHECK(host.is_virtual_machine);
  CHECK(host.devices.empty());
}

TEST_CASE("a folder that is no host is refused") {
  CHECK_THROWS_AS(load_inventory(hosts), Error);
}

TEST_CASE("a recorded host is read within bounds, whatever its files are") {
  const TemporaryFolder folder;
  const auto root = folder.path / "host";
  fs::copy(hosts / "minimal", root, fs::copy_options::recursive);
  const auto list = root / "sys/devices/system/cpu/online";
  fs::create_directories(list.parent_path());
  write_file_atomically(list, "0-65535,0-65535");
  CHECK_THROWS_WITH(load_inventory(root),
                    test::Contains(list.string()) && test::Contains("names CPU 0 twice"));
  fs::remove(list);
  CHECK_NOTHROW(load_inventory(root));
  const auto memory = root / "proc/meminfo";
  fs::remove(memory);
  fs::create_symlink("/dev/zero", memory);
  CHECK_THROWS_WITH(load_inventory(root), test::Contains("is it a recorded host?"));
  fs::remove(memory);
  const test::WaitingWriter writer(memory);
  CHECK_THROWS_WITH(load_inventory(root), test::Contains("is it a recorded host?"));
  CHECK_FALSE(writer.was_let_in());
}

TEST_CASE("a recorded host may have a quota of CPU time") {
  CHECK_FALSE(load_inventory(hosts / "minimal").cpu_quota_cores);
  const TemporaryFolder folder;
  const auto root = folder.path / "host";
  fs::copy(hosts / "minimal", root, fs::copy_options::recursive);
  for (const auto* made : {"proc/self", "sys/fs/cgroup"}) { fs::create_directories(root / made); }
  write_file_atomically(root / "proc/self/cgroup", "0::/\n");
  write_file_atomically(root / "sys/fs/cgroup/cpu.max", "200000 100000\n");
  CHECK(load_inventory(root).cpu_quota_cores == 2);
}

/// A host of one node whose CPUs 0, 1, … have these threads of their physical core.
std::vector<int> order_of(const std::vector<std::string>& siblings, const std::string& online) {
  const auto root = fs::temp_directory_path() / ("virtrain-inventory-" + std::to_string(::getpid()));
  fs::copy(hosts / "minimal", root, fs::copy_options::recursive);
  const auto cpus = root / "sys/devices/system/cpu";
  for (std::size_t i = 0; i < siblings.size(); ++i) {
    const auto topology = cpus / ("cpu" + std::to_string(i)) / "topology";
    fs::create_directories(topology);
    write_file_atomically(topology / "thread_siblings_list", siblings[i] + "\n");
  }
  write_file_atomically(cpus / "online", online + "\n");
  std::vector<int> order;
  for (const auto& core : load_machine(root).cores) { order.push_back(core.id); }
  fs::remove_all(root);
  return order;
}

TEST_CASE("one thread of each physical core comes before the second of any") {
  using Order = std::vector<int>;
  CHECK(order_of({"0-1", "0-1", "2-3", "2-3"}, "0-3") == Order{0, 2, 1, 3});
  CHECK(order_of({"0,2", "1,3", "0,2", "1,3"}, "0-3") == Order{0, 1, 2, 3});
  CHECK(order_of({"0-1", "0-1", "2-3", "2-3"}, "1-3") == Order{1, 2, 3});  // the first thread is offline
  CHECK(order_of({"0-3", "0-3", "0-3", "0-3", "4-5", "4-5"}, "0-5") == Order{0, 4, 1, 5, 2, 3});
  // Some with one thread, as hybrid CPUs have them, and a host without SMT.
  CHECK(order_of({"0-1", "0-1", "2", "3"}, "0-3") == Order{0, 2, 3, 1});
  CHECK(order_of({"0", "1", "2"}, "0-2") == Order{0, 1, 2});
}

TEST_CASE("this host: no more cores than this process may use") {
  const auto host = load_inventory();
  CHECK(host.cores.size() == static_cast<std::size_t>(std::stoi(run_checked({"nproc"}).out)));
  CHECK(host.memory_bytes > 0);
  CHECK(host.kernel + "\n" == run_checked({"uname", "-r"}).out);
  const auto narrowed = run_checked({"taskset", "-c", std::to_string(host.cores[0].id), "nproc"});
  CHECK(narrowed.out == "1\n");
}

TEST_CASE("how vGPUs share a card is what the driver said last, of each card where they differ") {
  const auto said = [](const std::string& card, const std::string& policy) {
    return "[ 5.0] NVRM: GPU at " + card + " has software scheduler ENABLED with policy " + policy + ".\n";
  };
  const auto best = said("0000:3b:00.0", "BEST_EFFORT");
  CHECK(vgpu_scheduler_words("").empty());
  CHECK(vgpu_scheduler_words("[ 5.0] NVRM: GPU at 0000:3b:00.0 has fallen off the bus.\n").empty());
  CHECK(vgpu_scheduler_words(best + said("0000:3b:00.0", "EQUAL_SHARE")) == "EQUAL_SHARE");
  CHECK(vgpu_scheduler_words(best + said("0000:5e:00.0", "BEST_EFFORT")) == "BEST_EFFORT");
  CHECK(vgpu_scheduler_words(best + said("0000:5e:00.0", "FIXED_SHARE")) ==
        "0000:3b:00.0 BEST_EFFORT, 0000:5e:00.0 FIXED_SHARE");
}

TEST_CASE("the fingerprint names kernel, CPU, boot and QEMU") {
  const auto facts = host_fingerprint();
  for (const auto* name : {"kernel", "cpu_model", "cpu_flags", "boot_id", "mitigations"}) {
    INFO(name);
    CHECK(facts.contains(name));
  }
}

}  // namespace
}  // namespace virtrain::vmctl
