#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/model/described.h"

// The records of the workload protocol (docs/workload-protocol.md) as far as
// the coordinator reads them. It refuses a record that breaks the description
// of a field, except where the row says `lenient`: such a value comes from a
// library or a driver, and counts as absent.

namespace virtrain::protocol {

/// Longest window of steps; nanoseconds of it still fit everywhere.
inline constexpr std::int64_t most_window_seconds = 100'000'000;
/// Beyond anything that a GPU counts in MHz, W, J or images.
inline constexpr std::int64_t most_gpu_number = 1'000'000'000'000;

/// Shares of the time, by reason.
using Shares = std::map<std::string, double>;

/// One quantity over the counted steps, as NVML measured it.
struct GpuCourse {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<double>, mean, {}, .text = "Its mean", .least = 0, .most = most_gpu_number,
                 .lenient = true);
};

/// State of a GPU over the counted steps.
struct GpuDuring {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<GpuCourse>, sm_clock_mhz, {}, .text = "Clock of the multiprocessors",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuCourse>, temperature_c, {}, .text = "Temperature", .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuCourse>, power_w, {}, .text = "Power of the card", .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, energy_j, {}, .text = "Energy of the card", .least = 0,
                 .most = most_gpu_number, .lenient = true);
  VIRTRAIN_FIELD(std::optional<Shares>, throttled, {},
                 .text = "Share of the time in which each reason slowed the clock", .least = 0,
                 .most = most_gpu_number, .lenient = true);
};

/// A rank's report on its GPU, from inside its node, with the names of workloads/common/gpu/nvml.h. A missing
/// value is absent, never false or zero.
struct GpuRecord {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::string>, error, {},
                 .text = "Why NVML, or the GPU within it, could not be asked", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, name, {}, .text = "Model of the card", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, uuid, {}, .text = "Identity of the card", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, driver, {}, .text = "Version of the driver", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, vbios, {}, .text = "Version of the card's firmware",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, virtualization, {}, .text = "none, passthrough or vgpu",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<bool>, licensed, {}, .text = "Whether a vGPU has its licence",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<bool>, ecc_enabled, {}, .text = "Whether memory has ECC", .lenient = true);
  VIRTRAIN_FIELD(std::optional<bool>, mig_enabled, {}, .text = "Whether MIG cuts the card", .lenient = true);
  VIRTRAIN_FIELD(std::optional<bool>, row_remap_pending, {},
                 .text = "Whether rows of memory wait to be remapped", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, uncorrected_ecc_errors, {},
                 .text = "Uncorrected ECC errors until now", .least = 0, .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, throttle_reasons, {},
                 .text = "What slows the clock now", .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, power_limit_w, {}, .text = "Power limit in W", .least = 0,
                 .most = most_gpu_number, .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, application_clock_mhz, {}, .text = "Application clock in MHz",
                 .least = 0, .most = most_gpu_number, .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, best_pcie_generation, {},
                 .text = "PCIe generation that the link allows", .least = 0, .most = most_gpu_number,
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, best_pcie_width, {}, .text = "PCIe lanes that the link allows",
                 .least = 0, .most = most_gpu_number, .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, fabric_state, {},
                 .text = "State of NVLink's fabric: completed, not_supported, in_progress, failed",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuDuring>, during, {}, .text = "What it did over the counted steps",
                 .lenient = true);
};

/// The first record of a rank: who it is, and what it was built from and runs
/// on.
struct Hello {
  static constexpr const char* record = "hello";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, rank, 0, .text = "Rank in the job");
  VIRTRAIN_FIELD(std::int64_t, size, 0, .text = "Ranks of the job", .least = 1);
  VIRTRAIN_FIELD(std::int64_t, local_rank, 0, .text = "Rank among those of its host", .least = 0);
  VIRTRAIN_FIELD(std::string, hostname, {}, .text = "Name of its node");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, pid, {}, .text = "Process id in its node", .least = 1);
  VIRTRAIN_FIELD(std::optional<std::string>, isa, {}, .text = "Instruction set that oneDNN uses");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, threads, {}, .text = "Threads that compute", .least = 1);
  VIRTRAIN_FIELD(std::optional<std::string>, cpuset, {}, .text = "Cores that it may run on");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, memory_limit_bytes, {}, .text = "Memory that it may use",
                 .least = 1);
  VIRTRAIN_FIELD(std::optional<std::string>, build, {}, .text = "Version and compiler of the trainer",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, device, {}, .text = "Model of the processor or GPU",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, pci_address, {}, .text = "PCI address of the GPU in its node",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, cuda_runtime, {},
                 .text = "1000 times CUDA's major version and 10 times the minor one", .least = 1000,
                 .most = 999'999, .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, cudnn, {}, .text = "Version of cuDNN", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::string>, nccl, {}, .text = "Version of NCCL", .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuRecord>, gpu, {}, .text = "The GPU before the run", .lenient = true);
};

/// The rank has its parameters and waits for "go".
struct Ready {
  static constexpr const char* record = "ready";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, parameters_hash, {}, .text = "Hash of the initial parameters");
  VIRTRAIN_FIELD(std::optional<std::string>, fusion, {}, .text = "Level of fusion of the CUDA step",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<bool>, repeatable, {}, .text = "Whether its kernels give the same bits again",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuRecord>, gpu, {}, .text = "The GPU after the setup", .lenient = true);
};

/// One step before the counted ones.
struct Warmup {
  static constexpr const char* record = "warmup";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "End of the step on the node's monotonic clock", .least = 0);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, step, {}, .text = "Number of the step", .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, seconds, {}, .text = "Duration of the step", .least = 0,
                 .most = most_window_seconds);
  VIRTRAIN_FIELD(std::optional<double>, loss, {}, .text = "Loss of the step", .lenient = true);
};

/// A window of counted steps.
struct Sample {
  static constexpr const char* record = "sample";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "End of the window on the node's monotonic clock",
                 .least = 0);
  VIRTRAIN_FIELD(std::int64_t, step, 0, .text = "Last step of the window", .least = 1);
  VIRTRAIN_FIELD(std::int64_t, images, 0, .text = "Images of the window", .least = 1);
  VIRTRAIN_FIELD(double, seconds, 0, .text = "Duration of the window", .most = most_window_seconds,
                 .positive = true);
  VIRTRAIN_FIELD(std::optional<double>, loss, {}, .text = "Loss of the last step");
};

/// One step after the counted ones.
struct Later {
  static constexpr const char* record = "later";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "End of the step on the node's monotonic clock", .least = 0);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, step, {}, .text = "Number of the step", .lenient = true);
  VIRTRAIN_FIELD(std::int64_t, images, 0, .text = "Images of the step", .least = 1);
  VIRTRAIN_FIELD(double, seconds, 0, .text = "Duration of the step", .most = most_window_seconds,
                 .positive = true);
};

/// How the search for a steady state ended (--steady_seconds).
struct SteadyStateFound {
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<bool>, level, {}, .text = "Whether it was reached", .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::vector<std::string>>, not_level, {}, .text = "What still changed",
                 .lenient = true);
};

/// The last record: of one rank, or of all by rank 0.
struct Result {
  static constexpr const char* record = "result";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(double, images_per_second, 0, .text = "Throughput over the counted steps", .positive = true);
  VIRTRAIN_FIELD(std::string, scope, {}, .text = "rank or tenant");
  VIRTRAIN_FIELD(std::optional<std::string>, parameters_hash, {}, .text = "Hash of the final parameters");
  VIRTRAIN_FIELD(std::optional<double>, loss_first, {}, .text = "Loss of the first counted step");
  VIRTRAIN_FIELD(std::optional<double>, loss_last, {}, .text = "Loss of the last counted step");
  VIRTRAIN_FIELD(std::optional<std::int64_t>, peak_rss_bytes, {}, .text = "Most memory of the process",
                 .least = 0);
  VIRTRAIN_FIELD(std::optional<double>, step_seconds_p50, {}, .text = "Median of the steps' durations",
                 .positive = true);
  VIRTRAIN_FIELD(std::optional<double>, step_seconds_p95, {}, .text = "95 % of the steps took less",
                 .positive = true);
  VIRTRAIN_FIELD(std::optional<double>, step_seconds_p99, {}, .text = "99 % of the steps took less",
                 .positive = true);
  VIRTRAIN_FIELD(std::optional<double>, allreduce_seconds_exposed, {},
                 .text = "All-reduce that the backward pass did not hide", .least = 0);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, bytes_allreduced_per_step, {},
                 .text = "Bytes of gradients that each step reduced", .least = 0, .lenient = true);
  VIRTRAIN_FIELD(std::optional<double>, images, {}, .text = "Images of the counted steps", .least = 0,
                 .most = most_gpu_number, .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, steps, {}, .text = "Counted steps", .least = 0,
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, warmup_steps, {}, .text = "Steps before them", .least = 0,
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, skipped_steps, {},
                 .text = "Steps without an update, for gradients overflowed", .least = 0, .lenient = true);
  VIRTRAIN_FIELD(std::optional<SteadyStateFound>, steady_state, {}, .text = "How the warm-up ended",
                 .lenient = true);
  VIRTRAIN_FIELD(std::optional<GpuRecord>, gpu, {}, .text = "The GPU after the run", .lenient = true);
};

/// A stressor waits for `go`.
struct StressorReady {
  static constexpr const char* record = "ready";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::optional<std::int64_t>, port, {}, .text = "TCP port on which it listens, if it does",
                 .least = 0, .most = 65535, .lenient = true);
};

/// Work of a stressor in about a second.
struct Progress {
  static constexpr const char* record = "progress";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::int64_t, t_ns, 0, .text = "End of the interval on the node's monotonic clock");
  VIRTRAIN_FIELD(double, seconds, 0, .text = "Duration of the interval", .most = 3600, .positive = true);
  VIRTRAIN_FIELD(double, busy, 0, .text = "Share of it in which its threads worked, or waited for a core",
                 .least = 0, .most = 100);
  VIRTRAIN_FIELD(double, rate, 0, .text = "Work a second", .least = 0);
  VIRTRAIN_FIELD(std::optional<std::string>, unit, {}, .text = "Unit of the work", .lenient = true);
};

/// One figure of virtrain-probe. What else it tells stands in its `detail`, which is stored as it is.
struct ProbeFigure {
  static constexpr const char* record = "probe";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, name, {}, .text = "What was measured: all_reduce, triad, gemm, …",
                 .most_bytes = 64);
  VIRTRAIN_FIELD(std::optional<std::string>, node, {}, .text = "Host name, where it concerns one node",
                 .most_bytes = 255);
  VIRTRAIN_FIELD(std::optional<std::string>, transport, {}, .text = "The flag's word for what carried it",
                 .most_bytes = 64);
  VIRTRAIN_FIELD(std::optional<std::string>, data_type, {}, .text = "float, double, bfloat16",
                 .most_bytes = 64);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, nodes, {}, .text = "Nodes that took part", .least = 1);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, ranks, {}, .text = "Ranks that took part", .least = 1);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, size_bytes, {}, .text = "Bytes of one operation", .least = 0);
  VIRTRAIN_FIELD(std::optional<double>, seconds, {}, .text = "Duration of one operation", .positive = true);
  VIRTRAIN_FIELD(double, value, 0, .text = "The figure; of a collective, its algorithm bandwidth",
                 .least = 0);
  VIRTRAIN_FIELD(std::string, unit, {}, .text = "B/s, FLOP/s or s", .most_bytes = 64);
  VIRTRAIN_FIELD(std::optional<double>, bus_bytes_per_second, {}, .text = "Bus bandwidth of a collective",
                 .least = 0);
  VIRTRAIN_FIELD(std::optional<std::int64_t>, wrong, {},
                 .text = "Elements that were not what they should be, on all ranks together", .least = 0);
  VIRTRAIN_FIELD(std::optional<std::string>, measured_at, {}, .text = "ISO 8601, wall clock",
                 .most_bytes = 64);
};

/// Why a workload ended without a result.
struct Failure {
  static constexpr const char* record = "error";
  VIRTRAIN_RECORD;
  VIRTRAIN_FIELD(std::string, message, {}, .text = "What came back, and what to do");
};

}  // namespace virtrain::protocol
