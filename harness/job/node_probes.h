#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace virtrain::harness {

/// virtrain-probe's command lines for these probes in a node of so much memory: one for its host and one for
/// each of its GPUs, of one size in every arm. Of the host half its memory for the three arrays of triad and
/// at most 1 GiB each, and few seconds of a GEMM even where it is emulated; of a GPU copies of an eighth of
/// the node's memory, which the host needs three times, and at most 256 MiB.
std::vector<std::vector<std::string>> probe_commands(const std::string& program,
                                                     const std::vector<std::string>& probes,
                                                     std::uint64_t memory_bytes, std::int64_t gpus);

/// Its command line for a tenant's ranks, to be started by mpirun: messages of 1 KiB to 16 MiB over MPI, and
/// to 256 MiB over NCCL. `transport` is kept with the figures. Empty: none of these probes is of ranks.
std::vector<std::vector<std::string>> rank_probe_commands(const std::string& program,
                                                          const std::vector<std::string>& probes,
                                                          bool have_gpus, const std::string& transport);

}  // namespace virtrain::harness
