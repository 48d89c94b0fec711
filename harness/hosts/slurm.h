#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/error.h"
#include "harness/hosts/elevation.h"
#include "harness/scenario/host_list.h"
#include "vmctl/api/inventory.h"

// Slurm gives hosts and starts virtrain-host on them. It is asked for texts, which are read here.
namespace virtrain::harness {

/// A job of Slurm's that this process is part of.
struct SlurmJob {
  std::string id;
  std::string nodes;  ///< as Slurm writes them, "gpu[01-04,07]"

  bool operator==(const SlurmJob&) const = default;
};

/// From SLURM_JOB_ID and SLURM_JOB_NODELIST, which salloc and sbatch set.
std::optional<SlurmJob> current_slurm_job();

/// The nodes of "gpu[01-04,07]", in that order.
using ExpandNodes = std::function<std::vector<std::string>(const std::string&)>;

/// Nodes by their names from what `scontrol show job -d JOB` prints, of Slurm 17 to 25. Throws
/// Error(host_unable) where it has none of that job, or GPUs with which srun starts nothing on one node.
std::map<std::string, AllocatedNode> parse_allocation(std::string_view text, const std::string& job,
                                                      const ExpandNodes& expand);

/// "0-3,8" as numbers; nothing for another text, or for more than 65536.
std::optional<std::vector<int>> parse_number_list(std::string_view text);

/// Leaves of the inventory what the job has there. The host process of a job whose cores Slurm binds
/// (TaskPlugin task/affinity or task/cgroup) sees no others; else Slurm's numbers are used where they can
/// only be the kernel's. GPUs of others and devices that Slurm does not count are withheld, with the reason.
/// Throws Error(host_unable) where it cannot be told which cores the job has.
void keep_allocated(vmctl::Inventory& inventory, const AllocatedNode& node, const std::string& host);

/// The nodes of a job by their names, each with what the job has of it and that network, and the launcher
/// `slurm`, by which a user's host process is root in that way. Asks scontrol. Throws Error(host_unable) with
/// its words.
HostList look_at_allocation(const SlurmJob& job, const vmctl::HostNetwork& network, Elevation elevation);

/// Tells from salloc's words why it ended without nodes when it was to take them now or not at all: busy,
/// usage or host_unable.
ErrorCode meaning_of_refusal(std::string_view said);

/// Whether the words for salloc say how long to wait for nodes.
bool has_immediate(const std::vector<std::string>& words);

/// Splits at blanks outside of quotes; a backslash outside of single quotes takes the next character as it
/// is. No shell: nothing is expanded. Throws Error(usage) for an open quote.
std::vector<std::string> split_quoted(std::string_view text);

}  // namespace virtrain::harness
