#include "harness/hosts/slurm.h"

#include <map>

#include "common/files/reading.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

using Catch::Matchers::Contains;
using vmctl::Core;
using vmctl::DeviceClass;
using vmctl::HostDevice;
using vmctl::Inventory;

using Nodes = std::map<std::string, AllocatedNode>;

std::vector<std::string> expanded(const std::string& nodes) {
  static const std::map<std::string, std::vector<std::string>> known{
      {"n[1-2]", {"n1", "n2"}},
      {"inti[6012,6015,6018-6019]", {"inti6012", "inti6015", "inti6018", "inti6019"}}};
  const auto found = known.find(nodes);
  return found == known.end() ? std::vector<std::string>{nodes} : found->second;
}

Nodes parsed(const std::string& text, const std::string& job) {
  return parse_allocation(text, job, expanded);
}

Nodes recorded(const std::string& name, const std::string& job) {
  return parsed(read_file(std::string(VIRTRAIN_SOURCE_DIR) + "/tests/data/slurm/" + name).value(), job);
}

using Numbers = std::vector<int>;

TEST_CASE("nodes of a Slurm job, as scontrol of 22.05 prints them") {
  CHECK(recorded("22.05-gpus-per-node.txt", "1") ==
        Nodes{{"n1", {"1", {0}, Numbers{0}, 0, false}}, {"n2", {"1", {0}, Numbers{0}, 0, false}}});
  CHECK_THROWS_WITH(recorded("22.05-gpus-over-two.txt", "1"), Contains("(ask for --gpus-per-node)"));
  CHECK(recorded("22.05-exclusive.txt", "2") ==
        Nodes{{"n1", {"2", {0, 1}, Numbers{0, 1}, 0, true}}, {"n2", {"2", {0, 1}, Numbers{0, 1}, 0, true}}});
  CHECK_THROWS_WITH(recorded("22.05-exclusive.txt", "3"), Contains("job 3 has no nodes"));
}

TEST_CASE("nodes of Slurm jobs of other clusters and versions") {
  const auto nodes_of = [](const std::string& line) {
    return parsed("JobId=7 JobName=train\n   OverSubscribe=OK Contiguous=0\n" + line, "7");
  };
  SECTION("18.08") {
    const auto nodes =
        nodes_of("     Nodes=node-06 CPU_IDs=10-11,15,21 Mem=81920 GRES_IDX=gpu(IDX:0,2-3,5)\n");
    CHECK(nodes == Nodes{{"node-06", {"7", {10, 11, 15, 21}, Numbers{0, 2, 3, 5}, 81920, false}}});
  }
  SECTION("20.11, without GPUs") {
    const auto nodes = nodes_of("     Nodes=inti[6012,6015,6018-6019] CPU_IDs=0-255 Mem=240000 GRES=\n");
    REQUIRE(nodes.size() == 4);
    CHECK(nodes.count("inti6018") == 1);
    CHECK(nodes.at("inti6018").cpus.size() == 256);
    CHECK(nodes.at("inti6018").gpus == Numbers());
  }
  SECTION("21.08, a type without a name") {
    CHECK(nodes_of("  Nodes=a CPU_IDs=0 Mem=0 GRES=gpu:(null):3(IDX:0-1,7)\n").at("a").gpus ==
          Numbers{0, 1, 7});
  }
  SECTION("24.05, types and adapters") {
    const auto nodes = nodes_of(
        "   JOB_GRES=gpu:a100:2,gpu:v100:1,nic:1\n"
        "     Nodes=b CPU_IDs=0-15,32-47 Mem=204800 "
        "GRES=gpu:a100:2(IDX:0,3),nic:1(IDX:2),gpu:v100:1(IDX:5)\n");
    CHECK(nodes.at("b").gpus == Numbers{0, 3, 5});
    CHECK(nodes.at("b").cpus.size() == 32);
  }
  SECTION("GPUs whose numbers Slurm does not say") {
    CHECK_FALSE(nodes_of("     Nodes=b CPU_IDs=0 Mem=0 GRES=gpu:2\n").at("b").gpus);
    CHECK_FALSE(nodes_of("     Nodes=b CPU_IDs=0 Mem=0 GRES=gpu:1g.10gb:1(IDX:8)\n").at("b").gpus);
    CHECK_FALSE(nodes_of("     Nodes=b CPU_IDs=0 Mem=0 GRES=gpu:1(IDX:x)\n").at("b").gpus);
    CHECK(nodes_of("     Nodes=b CPU_IDs=0 Mem=0 GRES=gpu:(null):0(IDX:N/A)\n").at("b").gpus == Numbers());
  }
  SECTION("units of memory") {
    CHECK(nodes_of("     Nodes=b CPU_IDs=0 Mem=80G GRES=\n").at("b").memory_mib == 81920);
  }
  SECTION("components of a heterogeneous job") {
    const auto nodes = parsed(
        "JobId=7 HetJobId=7 HetJobOffset=0 JobName=train\n     Nodes=a CPU_IDs=0 Mem=0 GRES=\n"
        "   OverSubscribe=OK\n\n"
        "JobId=8 HetJobId=7 HetJobOffset=1 JobName=train\n     Nodes=b CPU_IDs=0-3 Mem=0 GRES=\n"
        "   OverSubscribe=NO\n",
        "7");
    CHECK(nodes == Nodes{{"a", {"7", {0}, Numbers(), 0, false}}});
  }
  SECTION("no list of CPUs") {
    CHECK_THROWS_WITH(nodes_of("     Nodes=b CPU_IDs=0-x Mem=0 GRES=\n"), Contains("CPU_IDs=0-x of job 7"));
    CHECK_THROWS_WITH(nodes_of("slurm_load_jobs error: Invalid job id specified\n"), Contains("no nodes"));
  }
}

TEST_CASE("lists of numbers") {
  CHECK(parse_number_list("0-3,8") == Numbers{0, 1, 2, 3, 8});
  CHECK(parse_number_list("5") == Numbers{5});
  for (const char* wrong : {"", "-1", "3-1", "0-", "1,,2", "0-99999999", "0-65535,0", "0x3"}) {
    CAPTURE(wrong);
    CHECK_FALSE(parse_number_list(wrong));
  }
}

HostDevice device(const std::string& address, DeviceClass of_class, std::optional<int> minor) {
  HostDevice made;
  made.function.address = address;
  made.device_class = of_class;
  made.minor = minor;
  return made;
}

Inventory shared_host() {
  Inventory inventory;
  for (int core = 0; core < 4; ++core) { inventory.cores.push_back({.id = core, .numa_node = core / 2}); }
  inventory.leased_cores = {0, 2};
  inventory.memory_bytes = 64ULL << 30;
  inventory.available_memory_bytes = 1ULL << 30;
  inventory.devices = {
      device("0000:01:00.0", DeviceClass::gpu, 0), device("0000:02:00.0", DeviceClass::gpu, 1),
      device("0000:03:00.0", DeviceClass::gpu, {}), device("0000:04:00.0", DeviceClass::rdma_nic, {})};
  inventory.other_devices = {device("0000:05:00.0", DeviceClass::other, {})};
  inventory.withheld_devices = {{"0000:03:00.0", "quarantine"}};
  return inventory;
}

Numbers ids_of(const Inventory& inventory) {
  Numbers ids;
  for (const auto& core : inventory.cores) { ids.push_back(core.id); }
  return ids;
}

TEST_CASE("only what a Slurm job has of a host is left of it") {
  auto inventory = shared_host();
  AllocatedNode node{"7", {2, 3}, Numbers{1}, 4096, false};

  SECTION("cores, memory and devices") {
    keep_allocated(inventory, node, "n1");
    CHECK(ids_of(inventory) == Numbers{2, 3});
    CHECK(inventory.leased_cores == Numbers{2});
    CHECK(inventory.memory_bytes == 4ULL << 30);
    CHECK(inventory.available_memory_bytes == 1ULL << 30);
    const auto& withheld = inventory.withheld_devices;
    CHECK(withheld.size() == 4);
    CHECK(withheld.count("0000:02:00.0") == 0);
    CHECK_THAT(withheld.at("0000:01:00.0"), Contains("does not have this GPU of n1, /dev/nvidia0"));
    CHECK(withheld.at("0000:03:00.0") == "quarantine");
    CHECK_THAT(withheld.at("0000:04:00.0"), Contains("shares n1 with other jobs"));
    CHECK_THAT(withheld.at("0000:05:00.0"), Contains("--exclusive"));
  }
  SECTION("a GPU without a number") {
    inventory.withheld_devices.clear();
    keep_allocated(inventory, node, "n1");
    CHECK_THAT(inventory.withheld_devices.at("0000:03:00.0"), Contains("unknown: NVIDIA's driver"));
  }
  SECTION("GPUs that Slurm does not number") {
    node.gpus.reset();
    keep_allocated(inventory, node, "n1");
    CHECK_THAT(inventory.withheld_devices.at("0000:02:00.0"), Contains("does not say which GPUs of n1"));
  }
  SECTION("the whole host") {
    node.is_exclusive = true;
    keep_allocated(inventory, node, "n1");
    CHECK(ids_of(inventory).size() == 4);
    CHECK(inventory.withheld_devices.size() == 1);
    CHECK(inventory.memory_bytes == 64ULL << 30);
  }
  SECTION("cores that Slurm has bound, by the kernel's numbers") {
    inventory.cores = {{.id = 1}, {.id = 33, .first_sibling = 1}};
    keep_allocated(inventory, node, "n1");
    CHECK(ids_of(inventory) == Numbers{1, 33});
  }
  SECTION("threads, which Slurm numbers in its own way, unbound") {
    for (auto& core : inventory.cores) { core.first_sibling = core.id % 2; }
    CHECK_THROWS_WITH(
        keep_allocated(inventory, node, "n1"),
        Contains("the job has 2 of its 4 CPUs and Slurm does not bind it") && Contains("--exclusive"));
  }
  SECTION("sockets that alternate, unbound") {
    for (auto& core : inventory.cores) { core.numa_node = core.id % 2; }
    CHECK_THROWS_AS(keep_allocated(inventory, node, "n1"), Error);
  }
}

TEST_CASE("words for salloc") {
  using Words = std::vector<std::string>;
  CHECK(split_quoted("-N4  --gpus-per-node=2\t--exclusive") ==
        Words{"-N4", "--gpus-per-node=2", "--exclusive"});
  CHECK(split_quoted("") == Words());
  CHECK(split_quoted("--comment='a \"b\" $HOME' \"it's\" x\\ y ''") ==
        Words{"--comment=a \"b\" $HOME", "it's", "x y", ""});
  CHECK_THROWS_WITH(split_quoted("-N2 'open"), Contains("the quote ' is not closed"));
  CHECK(has_immediate({"-N2", "--immediate=30"}));
  CHECK(has_immediate({"-I5"}));
  CHECK_FALSE(has_immediate({"-N2", "--exclusive"}));
}

TEST_CASE("why salloc gave no nodes") {
  for (const auto& [said, code] : std::map<std::string, ErrorCode>{
           {"salloc: error: Unable to allocate resources: Requested nodes are busy", ErrorCode::busy},
           {"salloc: error: Unable to allocate resources: Connection timed out", ErrorCode::busy},
           {"salloc: error: Job submit/allocate failed: Immediate execution impossible, insufficient "
            "priority",
            ErrorCode::busy},
           {"salloc: error: Job submit/allocate failed: Requested node configuration is not available",
            ErrorCode::host_unable},
           {"salloc: error: invalid partition specified: nope", ErrorCode::host_unable},
           {"salloc: error: Job submit/allocate failed: Unable to contact slurm controller (connect failure)",
            ErrorCode::host_unable},
           {"salloc: unrecognized option '--foo'\nTry \"salloc --help\" for more information",
            ErrorCode::usage},
           {"salloc: error: Invalid --mem specification", ErrorCode::usage}}) {
    CAPTURE(said);
    CHECK(meaning_of_refusal(said) == code);
  }
}

}  // namespace
}  // namespace virtrain::harness
