#include "harness/job/rank_command.h"

#include <fmt/format.h>

#include "common/text/text.h"

namespace virtrain::harness {
namespace {

/// Interface of VMs and slices alike in their tenant's network.
constexpr const char* tenant_interface = "eth0";

}  // namespace

std::vector<std::string> mpirun_command(const MpiDialect& mpi, const std::vector<std::string>& hostnames,
                                        std::int64_t ranks_per_node, RankNetwork network, bool crowded,
                                        std::int64_t timeout_seconds, const std::string& temporary_folder,
                                        const std::vector<std::string>& program) {
  std::vector<std::string> hosts;
  hosts.reserve(hostnames.size());
  for (const auto& hostname : hostnames) { hosts.push_back(fmt::format("{}:{}", hostname, ranks_per_node)); }
  const auto ranks = static_cast<std::int64_t>(hostnames.size()) * ranks_per_node;
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
  mca(mpi.session_folder, temporary_folder);
  mca(mpi.memory_folder, temporary_folder);
  if (network == RankNetwork::tcp) {
    words.push_back("--leave-session-attached");
    mca("plm", mpi.launcher);
    mca(mpi.launcher_agent, "virtrain-rsh");
    mca(mpi.launcher_no_tree, "1");
    mca("btl", ranks_per_node > 1 ? fmt::format("self,{},tcp", mpi.shared_memory) : "self,tcp");
    mca("btl_tcp_if_include", tenant_interface);
    mca(mpi.daemon_interface, tenant_interface);
    // Open MPI's own keepalive takes 8 minutes to see a dead link; this one about 10 s. Nodes that share
    // their cores have been seen not to answer for longer than that.
    mca("oob_tcp_keepalive_time", "5");
    mca("oob_tcp_keepalive_intvl", "2");
    mca("oob_tcp_keepalive_probes", crowded ? "20" : "3");
  } else {
    mca("btl", fmt::format("self,{}", mpi.shared_memory));
  }
  mca("btl_base_verbose", "100");  // says which transport each pair of ranks really uses
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

std::vector<std::string> trainer_command(const std::string& program, const Workload& workload,
                                         std::int64_t threads, bool beside_others) {
  Workload told = workload;
  told.threads = threads;
  std::vector<std::string> words{program};
  for_each_field<Workload>([&](const auto& field) {
    const auto value = value_text(told.*field.member);
    if (field.is.flag != nullptr && !value.empty()) {
      words.push_back(fmt::format("--{}={}", field.is.flag, value));
    }
  });
  // Not by timing, which each fresh guest would do for itself: the arms must compute in the same way.
  if (workload.backend == Backend::cuda) { words.push_back("--fusion=highest"); }
  // Each tenant would go on warming up until it alone is level, and one would be counted beside an idle GPU.
  if (workload.backend == Backend::cuda && beside_others) { words.push_back("--steady_seconds=0"); }
  return words;
}

std::map<std::string, std::string> rank_environment(const TenantPlacement& placement,
                                                    const std::map<std::string, std::string>& of_node,
                                                    RankNetwork network, bool crowded) {
  auto environment = placement.workload.environment;
  for (const auto& [name, value] : of_node) { environment[name] = value; }
  if (network == RankNetwork::tcp) { environment.insert({"NCCL_SOCKET_IFNAME", tenant_interface}); }
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

}  // namespace virtrain::harness
