#include "harness/job/rank_command.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/text/scanner.h"
#include "common/text/text.h"
#include "common/text/units.h"

namespace virtrain::harness {
namespace {

constexpr const char* own_interface = "VIRTRAIN_INTERFACE";

/// The program with Open MPI's parameters that differ from node to node, as its daemon there has them.
std::vector<std::string> with_own_parameters(const MpiDialect& mpi, const std::vector<std::string>& program) {
  std::vector<std::string> words{
      "/bin/sh", "-c",
      fmt::format(R"(OMPI_MCA_btl_tcp_if_include="${}" OMPI_MCA_{}="$TMPDIR" exec "$0" "$@")", own_interface,
                  mpi.memory_folder)};
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

}  // namespace

bool are_alike(const std::vector<MpiNode>& nodes) {
  return std::ranges::all_of(nodes, [&](const MpiNode& node) {
    return node.interface == nodes.front().interface &&
           node.temporary_folder == nodes.front().temporary_folder;
  });
}

std::vector<std::string> mpirun_command(const MpiDialect& mpi, const std::vector<MpiNode>& nodes,
                                        RankNetwork network, bool crowded, std::int64_t timeout_seconds,
                                        const std::vector<std::string>& program) {
  const bool alike = are_alike(nodes);
  std::vector<std::string> hosts;
  std::int64_t ranks = 0, most_ranks = 0;
  for (const auto& node : nodes) {
    hosts.push_back(fmt::format("{}:{}", node.name, node.ranks));
    ranks += node.ranks;
    most_ranks = std::max(most_ranks, node.ranks);
  }
  std::vector<std::string> words{"mpirun.openmpi",
                                 "-np",
                                 std::to_string(ranks),
                                 "--host",
                                 join(hosts, ","),
                                 "--timeout",
                                 std::to_string(timeout_seconds),
                                 "--tag-output",
                                 "--bind-to",
                                 "none",
                                 "--oversubscribe"};
  const auto mca = [&](std::string_view name, std::string_view value) {
    words.insert(words.end(), {"--mca", std::string(name), std::string(value)});
  };
  mca("pml", "ob1");
  if (alike) {
    mca(mpi.session_folder, nodes.front().temporary_folder);
    mca(mpi.memory_folder, nodes.front().temporary_folder);
  }
  if (network == RankNetwork::tcp) {
    words.push_back("--leave-session-attached");
    mca("plm", mpi.launcher);
    mca(mpi.launcher_agent, "virtrain-rsh");
    mca(mpi.launcher_no_tree, "1");
    mca("btl", most_ranks > 1 ? fmt::format("self,{},tcp", mpi.shared_memory) : "self,tcp");
    if (alike) {
      mca("btl_tcp_if_include", nodes.front().interface);
      mca(mpi.daemon_interface, nodes.front().interface);
    } else {
      mca(mpi.launcher_environment, "0");
    }
    // Open MPI's own keepalive takes 8 minutes to see a dead link; this one about 10 s. Nodes that share
    // their cores have been seen not to answer for longer than that.
    mca("oob_tcp_keepalive_time", "5");
    mca("oob_tcp_keepalive_intvl", "2");
    mca("oob_tcp_keepalive_probes", crowded ? "20" : "3");
  } else {
    mca("btl", fmt::format("self,{}", mpi.shared_memory));
  }
  mca("btl_base_verbose", "100");  // says which transport each pair of ranks really uses
  const auto started = alike ? program : with_own_parameters(mpi, program);
  words.insert(words.end(), started.begin(), started.end());
  return words;
}

std::map<std::string, std::string> daemon_environment(const MpiDialect& mpi, const MpiNode& node) {
  return {{own_interface, node.interface},
          {fmt::format("{}{}", mpi.daemon_variables, mpi.daemon_interface), node.interface}};
}

std::vector<std::string> trainer_command(const std::string& program, const Workload& workload,
                                         std::int64_t threads, bool beside_others, FusionRule fusion) {
  Workload told = workload;
  told.threads = threads;
  std::vector<std::string> words{program};
  for_each_field<Workload>([&](const auto& field) {
    const auto value = value_text(told.*field.member);
    if (field.is.flag != nullptr && !value.empty()) {
      words.push_back(fmt::format("--{}={}", field.is.flag, value));
    }
  });
  if (workload.backend == Backend::cuda) { words.push_back("--fusion=" + std::string(to_string(fusion))); }
  // Each tenant would go on warming up until it alone is level, and one would be counted beside an idle GPU.
  if (workload.backend == Backend::cuda && beside_others) { words.push_back("--steady_seconds=0"); }
  return words;
}

std::map<std::string, std::string> rank_environment(const TenantPlacement& placement,
                                                    const std::map<std::string, std::string>& of_node,
                                                    RankNetwork network, bool crowded,
                                                    const std::string& interface) {
  auto environment = placement.workload.environment;
  for (const auto& [name, value] : of_node) { environment[name] = value; }
  if (network == RankNetwork::tcp) { environment.insert({"NCCL_SOCKET_IFNAME", interface}); }
  if (placement.workload.backend == Backend::cuda) {
    environment.insert({"NCCL_DEBUG", "INFO"});  // says which way each pair of ranks goes
    // Slices see the host's RDMA adapters (/dev/infiniband is shared), VMs only those lent to them: left
    // free, NCCL would train over InfiniBand or RoCE on bare metal and over sockets in VMs.
    if (!placement.has_rdma_adapter()) { environment.insert({"NCCL_IB_DISABLE", "1"}); }
  }
  environment.insert({{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  environment["OMP_NUM_THREADS"] = std::to_string(placement.threads_per_rank);
  // Ranks that spin while they wait take the core from the one they wait for: four nodes on two cores trained
  // 2 to 7 times as fast when waiting threads slept.
  if (crowded) {
    environment.insert({{"OMP_WAIT_POLICY", "passive"}, {"OMPI_MCA_mpi_yield_when_idle", "1"}});
  }
  return environment;
}

std::map<std::string, std::string> job_environment(JobLaunch launch, const RankPlace& place,
                                                   RankNetwork network) {
  const auto text = [](auto number) { return std::to_string(number); };
  const bool is_alone = network != RankNetwork::tcp;
  // Gloo and NCCL take the first address that the host's name has, which may be one that others do not reach.
  const std::string interface = is_alone ? "lo" : place.interface;
  const std::string address = is_alone ? "127.0.0.1" : place.address;
  std::map<std::string, std::string> environment{
      {"PYTHONUNBUFFERED", "1"}, {"GLOO_SOCKET_IFNAME", interface}, {"NCCL_SOCKET_IFNAME", interface}};
  if (launch == JobLaunch::per_node) {
    environment.insert({{"RANK", text(place.rank)},
                        {"WORLD_SIZE", text(place.ranks)},
                        {"LOCAL_RANK", "0"},
                        {"LOCAL_WORLD_SIZE", "1"},
                        {"MASTER_ADDR", address},
                        {"MASTER_PORT", text(place.port)}});
  } else if (launch == JobLaunch::torchrun) {  // torchrun takes its options from PET_…, too
    environment.insert({{"PET_NNODES", text(place.nodes)},
                        {"PET_NPROC_PER_NODE", text(place.ranks_per_node)},
                        {"PET_NODE_RANK", text(place.node)},
                        {"PET_RDZV_BACKEND", "static"},
                        {"PET_MASTER_ADDR", address},
                        {"PET_MASTER_PORT", text(place.port)}});
  }
  return environment;
}

MpiDialect mpi_dialect(std::string_view version) {
  const auto named = version.rfind(") ");  // "mpirun.openmpi (Open MPI) 5.0.7", "mpirun (OpenRTE) 4.1.4"
  if (named == std::string_view::npos) { return {}; }
  const auto number = version.substr(named + 2);
  const auto* const end = std::ranges::find_if_not(number, is_digit);
  const auto digits = static_cast<std::size_t>(end - number.begin());
  if (parse_integer(number.substr(0, digits)).value_or(0) < 5) { return {}; }
  return {.launcher = "ssh",
          .launcher_agent = "plm_ssh_agent",
          .launcher_no_tree = "plm_ssh_no_tree_spawn",
          .launcher_environment = "plm_ssh_pass_environ_mca_params",
          .daemon_interface = "prte_if_include",
          .daemon_variables = "PRTE_MCA_",
          .shared_memory = "sm",
          .session_folder = "prte_tmpdir_base",
          .memory_folder = "btl_sm_backing_directory",
          .tag_end = ": "};
}

}  // namespace virtrain::harness
