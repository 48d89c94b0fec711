#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "workloads/stress/flags.h"
#include "workloads/stress/load.h"

namespace virtrain::stress {

/// The kind's load; opens what it needs. Throws Error.
std::unique_ptr<Load> make_load(const Flags& flags);

std::unique_ptr<Load> make_compute_load(const Flags& flags, int threads);  ///< cpu, llc, membw
/// gemm, h2d, d2h, and membw with a GPU. Throws Error(host_unable) in a build without CUDA.
std::unique_ptr<Load> make_gpu_load(const Flags& flags);
/// Error message for a piece that got no further for so long.
std::string gpu_stall_words(int stall_seconds);
std::unique_ptr<Load> make_disk_load(const Flags& flags, int threads);
/// Name of the one disk in this folder (/sys/block) whose `serial` says so. Throws Error(bad_input).
std::string disk_with_serial(const std::filesystem::path& disks, const std::string& serial);
std::unique_ptr<Load> make_sender(const Flags& flags, int threads);
std::unique_ptr<Load> make_receiver(const Flags& flags);
/// allreduce: joins the other ranks. Throws Error for a process that is alone.
std::unique_ptr<Load> make_ranks_load(const Flags& flags);

}  // namespace virtrain::stress
