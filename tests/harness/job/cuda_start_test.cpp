#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/error.h"
#include "common/files/reading.h"
#include "harness/experiment/cuda_host.h"
#include "harness/job/gpu_environment.h"
#include "harness/job/programs.h"
#include "harness/job/trainer_job.h"
#include "harness/scenario/decode/decode.h"
#include "tests/harness/agent/agent_process.h"
#include "tests/support/temporary_folder.h"
#include "vmctl/host/run_state.h"
#include "vmctl/machine/inventory.h"

using namespace virtrain;
using namespace virtrain::harness;
using namespace virtrain::test;
using virtrain::test::Contains;
using Strings = std::vector<std::string>;

namespace {

using Task = asio::awaitable<void>;

/// The study's machine as scripts/reference/make_host_trees.py has written it: four A100.
vmctl::Inventory study_host() {
  return vmctl::load_inventory(std::filesystem::path(VIRTRAIN_BINARY_DIR) / "hosts/r750xa");
}

Scenario cuda_scenario(const std::string& arms, const std::string& guest = "mirror",
                       const std::string& tenant = "{gpus_per_node: 2}") {
  return decode_scenario(
      "name: start\nworkload: {backend: cuda, precision: tf32}\nguest: {image: " + guest +
          ", memory: 4GiB, vcpus: 4}\ndevices: {kind: passthrough, select: {vendor: 0x10de}}\n"
          "cases: [{name: a, tenants: [" +
          tenant + "]}]\narms: " + arms + "\npairs: 2\n",
      "start.yaml");
}

const vmctl::CudaHost nothing_there{"no trainer", {}, "no host driver", "no guest driver"};
const vmctl::CudaHost all_there{"", {"/usr/lib/libnccl.so.2"}, "", ""};

}  // namespace

TEST_CASE("backend cuda needs what its arms need, and nothing more") {
  const auto reasons_of = [](const Scenario& scenario, const vmctl::CudaHost& host) {
    return cuda_reasons(scenario, make_plan(scenario, study_host(), false), host);
  };
  CHECK(reasons_of(cuda_scenario("[bare_metal, vm]"), all_there).empty());
  CHECK(reasons_of(cuda_scenario("[bare_metal, vm]"), nothing_there) ==
        Strings{"backend cuda: no trainer", "backend cuda: no host driver", "backend cuda: no guest driver"});
  CHECK(reasons_of(cuda_scenario("[bare_metal_shared]"), nothing_there) ==
        Strings{"backend cuda: no trainer", "backend cuda: no host driver"});
  // A cloud image brings its own driver.
  CHECK(reasons_of(cuda_scenario("[vm]", "/srv/ubuntu.qcow2"), nothing_there) ==
        Strings{"backend cuda: no trainer"});
}

TEST_CASE("a trainer without NCCL is refused to tenants of several ranks, before any VM boots") {
  CHECK(nccl_trouble({"/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "/opt/nccl/libnccl.so.2"}).empty());
  vmctl::CudaHost host;
  host.libraries = {"/usr/lib/x86_64-linux-gnu/libcudnn.so.9", "/opt/libnccl.so/libc.so.6"};
  const auto trouble = nccl_trouble(host.libraries);
  CHECK_THAT(trouble, Contains("install libnccl-dev and run scripts/setup again"));
  const auto reasons_of = [&host](const std::string& tenant) {
    const Scenario scenario = cuda_scenario("[vm]", "mirror", tenant);
    return cuda_reasons(scenario, make_plan(scenario, study_host(), false), host);
  };
  CHECK(reasons_of("{gpus_per_node: 1}, {gpus_per_node: 1}").empty());
  const Strings refused{"backend cuda: " + trouble};
  CHECK(reasons_of("{gpus_per_node: 2}") == refused);
  CHECK(reasons_of("{nodes: 2, gpus_per_node: 1}") == refused);
}

TEST_CASE("a device that is not NVIDIA's is refused by its address") {
  const Scenario scenario = cuda_scenario("[vm]");
  Plan plan = make_plan(scenario, study_host(), false);
  auto& device = plan.placements[0].tenants[0].nodes[0].devices.at(1);
  device.vendor = "0x1002";
  device.name = "AMD Instinct MI210";
  const auto reasons = cuda_reasons(scenario, plan, all_there);
  REQUIRE(reasons.size() == 1);
  CHECK_THAT(reasons[0], Contains(device.grant.address) && Contains("AMD Instinct MI210"));
  plan.placements[0].tenants[0].workload.backend = Backend::cpu;
  CHECK_FALSE(uses_cuda(plan));
  CHECK(cuda_reasons(scenario, plan, nothing_there).empty());
}

TEST_CASE("trainers lie beside this program, under the names of their backends") {
  CHECK(trainer_name(Backend::cpu) == "virtrain-resnet50-cpu");
  CHECK(vmctl::guest_program("/opt/x/virtrain-resnet50-cuda") == "/usr/bin/virtrain-resnet50-cuda");
}

TEST_CASE("on bare metal a tenant sees its own GPUs, by their UUIDs") {
  const std::string answer =
      "00000000:17:00.0, GPU-11111111-aaaa\n00000000:65:00.0, GPU-22222222-bbbb\n"
      "00000001:CA:00.0, GPU-33333333-cccc\n";
  CHECK(visible_gpus(answer, {"0000:65:00.0", "0000:17:00.0"}) == "GPU-22222222-bbbb,GPU-11111111-aaaa");
  CHECK(visible_gpus(answer, {"0001:ca:00.0"}) == "GPU-33333333-cccc");
  CHECK(share_of_gpus("GPU-1,GPU-2,GPU-3,GPU-4", 1, 2) == "GPU-3,GPU-4");
  CHECK(share_of_gpus("GPU-1", 0, 1) == "GPU-1");
  CHECK_THROWS_WITH(visible_gpus(answer, {"0000:98:00.0"}), Contains("0000:98:00.0"));
  CHECK_THROWS_AS(visible_gpus("No devices were found\n", {"0000:17:00.0"}), Error);
}

TEST_CASE("on bare metal NCCL takes the node's adapters and no others") {
  CHECK(usable_adapters("mlx5_1\nmlx5_0\n") == "=mlx5_0,mlx5_1");
  CHECK_THROWS_WITH(usable_adapters("\n"), Contains("they have none"));
  const auto query = rdma_name_query({"0000:98:00.0"});
  CHECK(query[1] == "/sys/bus/pci/devices/0000:98:00.0/infiniband");
}

TEST_CASE("NCCL takes RDMA adapters only where they were lent, whichever the arm") {
  TenantPlacement tenant;
  tenant.workload.backend = Backend::cuda;
  tenant.nodes.resize(2);
  tenant.nodes[0].devices.resize(2);  // GPUs
  const auto disabled = [&](RankNetwork network) -> std::string {
    const auto environment = rank_environment(tenant, {}, network, false, "eth0");
    const auto found = environment.find("NCCL_IB_DISABLE");
    return found == environment.end() ? "(unset)" : found->second;
  };
  for (const auto network : {RankNetwork::single_process, RankNetwork::shared_memory, RankNetwork::tcp}) {
    CHECK(disabled(network) == "1");
  }
  tenant.workload.environment["NCCL_IB_DISABLE"] = "0";
  CHECK(disabled(RankNetwork::tcp) == "0");
  tenant.workload.environment.clear();
  tenant.nodes[1].devices.resize(1);
  tenant.nodes[1].devices[0].device_class = vmctl::DeviceClass::rdma_nic;
  CHECK(disabled(RankNetwork::tcp) == "(unset)");
  tenant.nodes[1].devices.clear();
  tenant.workload.backend = Backend::cpu;
  CHECK(disabled(RankNetwork::tcp) == "(unset)");
}

TEST_CASE("NCCL is asked for its transports, unless the workload asks it for something else") {
  TenantPlacement tenant;
  const auto asked = [&] { return rank_environment(tenant, {}, RankNetwork::tcp, false, "eth0"); };
  CHECK(asked().count("NCCL_DEBUG") == 0);
  tenant.workload.backend = Backend::cuda;
  CHECK(asked().at("NCCL_DEBUG") == "INFO");
  tenant.workload.environment["NCCL_DEBUG"] = "WARN";
  CHECK(asked().at("NCCL_DEBUG") == "WARN");
}

// The faults' trainer stands in for virtrain-resnet50-cuda, which needs a GPU: it shows that the harness
// starts a tenant's trainer with the GPUs' environment and follows it to its result, not that anything trains
// on a GPU.
TEST_CASE("a tenant with backend cuda is run to its result (with a stand-in for the trainer)") {
  Session session;
  session.run(+[](Session& s) -> Task {
    TenantPlacement placement;
    placement.name = "tenant-1";
    placement.workload.backend = Backend::cuda;
    placement.workload.precision = Precision::tf32;
    placement.workload.batch_size = 8;
    placement.workload.steps = 2;
    placement.workload.environment["NCCL_DEBUG"] = "INFO";
    placement.gpus_per_node = 1;
    placement.nodes.resize(1);
    std::vector<JobNode> nodes(1);
    nodes[0].hostname = "t1n1";
    nodes[0].agent = s.clients[0];
    nodes[0].environment["CUDA_VISIBLE_DEVICES"] = "GPU-11111111-aaaa";
    nodes[0].environment["NCCL_TOPO_FILE"] = "/run/nccl-topology.xml";
    const auto job =
        std::make_shared<TrainerJob>(s.io, placement, std::move(nodes), RankNetwork::single_process);
    // It notes what it sees of the GPUs' environment, and goes on as the faults' trainer.
    const TemporaryFolder folder;
    const auto stand_in = folder.path / "trainer", seen = folder.path / "seen";
    std::ofstream(stand_in) << "#!/bin/sh\necho \"$CUDA_VISIBLE_DEVICES $NCCL_TOPO_FILE\" > " << seen
                            << "\nexec " VIRTRAIN_BINARY_DIR "/fault-kit/virtrain-resnet50-cpu \"$@\"\n";
    std::filesystem::permissions(stand_in, std::filesystem::perms::owner_all);
    co_await job->launch(stand_in.string(), 60s);
    co_await job->wait_for_hello(20s);
    co_await job->wait_for_ready(20s);
    co_await job->go();
    co_await job->wait_for_results(20s);
    const auto& rank = job->ranks().at(0);
    CHECK(read_file(seen) == "GPU-11111111-aaaa /run/nccl-topology.xml\n");
    CHECK(rank.samples.size() == 2);
    CHECK(rank.result->images_per_second == 40);
    const auto beside_others = trainer_command("trainer", placement.workload, 4, true);
    CHECK(beside_others.back() == "--steady_seconds=0");  // all are counted at the same time
    const auto command = trainer_command("trainer", placement.workload, 4);
    CHECK(std::find(command.begin(), command.end(), "--precision=tf32") != command.end());
    CHECK(command.back() == "--fusion=highest");
    const auto by_memory = trainer_command("trainer", placement.workload, 4, false, FusionRule::remembered);
    CHECK(by_memory.back() == "--fusion=remembered");
  });
}
