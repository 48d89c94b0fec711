#include "harness/job/rank_command.h"

#include <algorithm>

#include "common/text/text.h"
#include "harness/scenario/decode/decode.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;
using virtrain::test::EndsWith;

namespace {

/// As mpirun is told of nodes that have the same interface.
std::vector<std::string> mpirun(const MpiDialect& mpi, const std::vector<std::string>& names,
                                std::int64_t ranks, RankNetwork network, bool crowded,
                                const std::vector<std::string>& program) {
  std::vector<MpiNode> nodes;
  nodes.reserve(names.size());
  for (const auto& name : names) { nodes.push_back({name, ranks, "eth0", "/dev/shm/own"}); }
  return mpirun_command(mpi, nodes, network, crowded, 60, program);
}

}  // namespace

TEST_CASE("mpirun over nodes goes through the agents and names its interfaces") {
  const auto words =
      join(mpirun({}, {"t1n1", "t1n2"}, 1, RankNetwork::tcp, false, {"trainer", "--x=1"}), " ");
  for (const char* part :
       {"-np 2", "--host t1n1:1,t1n2:1", "--timeout 60", "--tag-output", "--mca plm rsh",
        "--mca plm_rsh_agent virtrain-rsh", "--mca plm_rsh_no_tree_spawn 1", "--mca btl self,tcp",
        "--mca btl_tcp_if_include eth0", "--mca oob_tcp_if_include eth0", "--leave-session-attached",
        "--mca pml ob1", "--bind-to none"}) {
    CHECK_THAT(words, Contains(part));
  }
  CHECK_THAT(words, EndsWith(" trainer --x=1"));
}

TEST_CASE("mpirun of Open MPI 5 is told the same in PRRTE's words") {
  // What the programs of Debian 12 and 13, and Open MPI's own build, print.
  for (const char* version :
       {"mpirun.openmpi (OpenRTE) 4.1.4", "mpirun (Open MPI) 4.1.6", "", "5.0.7", "mpirun (Open MPI) five"}) {
    CHECK(mpi_dialect(version).launcher == "rsh");
  }
  for (const char* version : {"mpirun.openmpi (Open MPI) 5.0.7", "mpirun (Open MPI) 10.1rc1"}) {
    CHECK(mpi_dialect(version).launcher == "ssh");
  }
  const auto mpi = mpi_dialect("mpirun.openmpi (Open MPI) 5.0.7");
  const auto words = join(mpirun(mpi, {"t1n1", "t1n2"}, 2, RankNetwork::tcp, false, {"t"}), " ");
  for (const char* part :
       {"--mca plm ssh ", "--mca plm_ssh_agent virtrain-rsh", "--mca plm_ssh_no_tree_spawn 1",
        "--mca prte_if_include eth0", "--mca btl self,sm,tcp "}) {
    CHECK_THAT(words, Contains(part));
  }
  for (const char* part : {"rsh_", "vader", "oob_tcp_if_include"}) { CHECK_THAT(words, !Contains(part)); }
  CHECK_THAT(join(mpirun(mpi, {"localhost"}, 2, RankNetwork::shared_memory, false, {"t"}), " "),
             Contains("--mca btl self,sm "));
}

TEST_CASE("ranks of one node talk through shared memory, those of several through both") {
  CHECK_THAT(join(mpirun({}, {"t1n1", "t1n2"}, 2, RankNetwork::tcp, false, {"t"}), " "),
             Contains("-np 4") && Contains("--host t1n1:2,t1n2:2") && Contains("--mca btl self,vader,tcp"));
  const auto one = join(mpirun({}, {"localhost"}, 2, RankNetwork::shared_memory, false, {"t"}), " ");
  CHECK_THAT(one, Contains("-np 2") && Contains("--mca btl self,vader "));
  CHECK_THAT(one, !Contains("plm_rsh_agent") && !Contains("tcp"));
}

TEST_CASE("mpirun keeps its files and its ranks' memory in the node's own folder, not in everybody's /tmp") {
  for (const auto network : {RankNetwork::tcp, RankNetwork::shared_memory}) {
    const auto four = join(mpirun({}, {"a", "b"}, 2, network, false, {"t"}), " ");
    CHECK_THAT(four, Contains("--mca orte_tmpdir_base /dev/shm/own ") &&
                         Contains("--mca btl_vader_backing_directory /dev/shm/own "));
    const auto mpi = mpi_dialect("mpirun (Open MPI) 5.0.7");
    const auto five = join(mpirun(mpi, {"a", "b"}, 2, network, false, {"t"}), " ");
    CHECK_THAT(five, Contains("--mca prte_tmpdir_base /dev/shm/own ") &&
                         Contains("--mca btl_sm_backing_directory /dev/shm/own "));
  }
}

TEST_CASE("nodes that differ in interface and folder are told their own") {
  const std::vector<MpiNode> nodes{{"192.0.2.1", 2, "eth1", "/run/a"}, {"192.0.2.2", 1, "ens5", "/run/b"}};
  for (const char* version : {"mpirun (OpenRTE) 4.1.4", "mpirun (Open MPI) 5.0.7"}) {
    const auto mpi = mpi_dialect(version);
    const auto words = join(mpirun_command(mpi, nodes, RankNetwork::tcp, false, 60, {"t", "--x=1"}), " ");
    CHECK_THAT(words, Contains("-np 3 --host 192.0.2.1:2,192.0.2.2:1") &&
                          Contains("--mca btl self," + std::string(mpi.shared_memory) + ",tcp") &&
                          Contains("pass_environ_mca_params 0") &&
                          EndsWith(R"(="$TMPDIR" exec "$0" "$@" t --x=1)") &&
                          Contains(R"( /bin/sh -c OMPI_MCA_btl_tcp_if_include="$VIRTRAIN_INTERFACE" )"));
    CHECK_THAT(words, !Contains("eth1") && !Contains("/run/a") && !Contains("tmpdir_base"));
    const auto environment = daemon_environment(mpi, nodes[1]);
    CHECK(environment.at("VIRTRAIN_INTERFACE") == "ens5");
    CHECK(environment.at(mpi.launcher == "rsh" ? "OMPI_MCA_oob_tcp_if_include"
                                               : "PRTE_MCA_prte_if_include") == "ens5");
  }
}

TEST_CASE("crowded nodes may take longer to answer") {
  const auto probes = [](bool crowded) {
    return join(mpirun({}, {"t1n1", "t1n2"}, 1, RankNetwork::tcp, crowded, {"t"}), " ");
  };
  CHECK_THAT(probes(false), Contains("--mca oob_tcp_keepalive_probes 3 "));
  CHECK_THAT(probes(true), Contains("--mca oob_tcp_keepalive_probes 20 "));
}

TEST_CASE("what mpirun is told a scenario's env cannot say, for mpirun would not hear it") {
  auto words = mpirun({}, {"t1n1", "t1n2"}, 2, RankNetwork::tcp, false, {"t"});
  const auto five =
      mpirun(mpi_dialect("mpirun (Open MPI) 5.0.7"), {"t1n1", "t1n2"}, 2, RankNetwork::tcp, false, {"t"});
  words.insert(words.end(), five.begin(), five.end());
  int told = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    if (words[i] != "--mca") { continue; }
    ++told;
    INFO(words[i + 1]);
    CHECK_THROWS_WITH(decode_scenario("name: s\nworkload: {env: {OMPI_MCA_" + words[i + 1] +
                                          ": 1}}\nguest: {vcpus: 1, memory: 512MiB}\n"
                                          "cases: [{name: a, tenants: [{nodes: 1}]}]\n",
                                      "s.yaml"),
                      Contains("env: virtrain sets OMPI_MCA_"));
  }
  CHECK(told > 16);
  CHECK_THROWS_WITH(
      decode_scenario("name: s\nworkload: {env: {TMPDIR: /tmp}}\n"
                      "guest: {vcpus: 1, memory: 512MiB}\ncases: [{name: a, tenants: [{nodes: 1}]}]\n",
                      "s.yaml"),
      Contains("env: virtrain sets TMPDIR itself (each node has a folder of its own)"));
  CHECK_THROWS_WITH(
      decode_scenario("name: s\nworkload: {env: {PRTE_MCA_plm: rsh}}\n"
                      "guest: {vcpus: 1, memory: 512MiB}\ncases: [{name: a, tenants: [{nodes: 1}]}]\n",
                      "s.yaml"),
      Contains("env: virtrain sets PRTE_MCA_plm"));
}

TEST_CASE(
    "a command finds its place by the names that PyTorch and torchrun read, on the tenant's own network") {
  const RankPlace second{
      .node = 1, .nodes = 2, .ranks_per_node = 4, .address = "10.86.0.1", .interface = "eth0", .port = 29501};
  const auto torchrun = job_environment(JobLaunch::torchrun, second, RankNetwork::tcp);
  const std::map<std::string, std::string> of_torchrun{
      {"PET_NNODES", "2"},          {"PET_NPROC_PER_NODE", "4"},      {"PET_NODE_RANK", "1"},
      {"PET_MASTER_PORT", "29501"}, {"PET_MASTER_ADDR", "10.86.0.1"}, {"PET_RDZV_BACKEND", "static"},
      {"PYTHONUNBUFFERED", "1"},    {"GLOO_SOCKET_IFNAME", "eth0"},   {"NCCL_SOCKET_IFNAME", "eth0"}};
  CHECK(torchrun == of_torchrun);
  const auto each = job_environment(JobLaunch::per_node,
                                    {.node = 1, .nodes = 2, .rank = 3, .ranks = 5, .address = "10.86.0.1"},
                                    RankNetwork::tcp);
  CHECK(each.at("RANK") == "3");
  CHECK(each.at("WORLD_SIZE") == "5");
  CHECK(each.at("LOCAL_RANK") == "0");
  const auto alone = job_environment(JobLaunch::torchrun, {.ranks_per_node = 2, .address = "10.86.0.1"},
                                     RankNetwork::shared_memory);
  CHECK(alone.at("PET_MASTER_ADDR") == "127.0.0.1");
  CHECK(alone.at("GLOO_SOCKET_IFNAME") == "lo");
  CHECK_FALSE(job_environment(JobLaunch::once, second, RankNetwork::tcp).contains("RANK"));
}

TEST_CASE("the trainer is told every setting of its workload") {
  Workload w;
  w.batch_size = 3, w.image_size = 65, w.precision = Precision::bf16, w.warmup_steps = 5, w.steps = 7;
  w.display_every = 2, w.accumulate_steps = 4, w.seed = 11;
  const auto words = trainer_command("/bin/trainer", w, 6);
  CHECK(words.at(0) == "/bin/trainer");
  const std::vector<std::string> flags(words.begin() + 1, words.end());
  for (const char* flag :
       {"--batch_size=3", "--image_size=65", "--precision=bf16", "--num_warmup_batches=5", "--num_batches=7",
        "--display_every=2", "--accumulate_steps=4", "--seed=11", "--num_threads=6"}) {
    CHECK(std::count(flags.begin(), flags.end(), flag) == 1);
  }
  std::size_t told = 0;
  w.threads = 6;
  for_each_field<Workload>([&](const auto& field) {
    told += field.is.flag != nullptr && !value_text(w.*field.member).empty() ? 1 : 0;
  });
  CHECK(flags.size() == told);
}
