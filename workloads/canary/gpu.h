#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/file_search.h"
#include "common/files/reading.h"
#include "workloads/canary/dma_engine.h"
#include "workloads/canary/memory.h"

namespace virtrain::canary {

/// Whether a PCI function is NVIDIA's, whose memory only CUDA reaches: its memory regions are windows of the
/// driver's, and nobody else may write there. From "/" or a recorded tree.
inline bool is_nvidia(const std::filesystem::path& root, const std::string& address) {
  return read_file(root / "sys/bus/pci/devices" / address / "vendor").value_or("").starts_with("0x10de");
}

inline constexpr std::string_view gpu_path_prefix = "cuda:";
/// "cuda:0000:19:00.0": the name of a GPU's memory in requests and answers.
inline std::string gpu_path(const std::string& address) {
  return std::string(gpu_path_prefix) + address;
}
/// The PCI address in such a name; nothing for any other path.
inline std::optional<std::string> address_of_gpu(const std::string& path) {
  if (!path.starts_with(gpu_path_prefix)) { return std::nullopt; }
  return path.substr(gpu_path_prefix.size());
}

/// Memory that a process maps to have a pointer to a page of the bus, as a GPU's driver wants one.
struct BusView {
  const LockedPage* own = nullptr;    ///< of this process; the kernel shows nobody its memory as a file
  std::uint64_t own_address = 0;      ///< the page's
  std::vector<MemoryRegion> regions;  ///< of this node's devices, each with its file
  std::filesystem::path rest =
      "/dev/mem";  ///< by bus address: in a guest without a virtual IOMMU the physical
};

inline constexpr std::chrono::seconds gpu_read_limit{30};

/// The NVIDIA GPU at that PCI address: a kernel of ours loads the page, so the GPU itself reads the bus, as
/// in GPUDirect. The CPU touches none of it. Each read is a child's, for an error of CUDA's lasts as long as
/// its process, and nothing of CUDA may be called in this process before. A page that the kernel does not
/// map, or the driver does not register, is `refused`; a read that the GPU breaks off brings zeros. Throws
/// Error(host_unable) in builds without CUDA.
std::unique_ptr<DmaEngine> gpu_engine(const std::string& address, BusView bus,
                                      std::chrono::milliseconds limit = gpu_read_limit);

// The memory of a GPU through CUDA: what it gives to a process of its device memory, and the shared memory of
// its multiprocessors. Registers are left out: a compiler reads none that it has not written.
//
// Each function ends the process, with the record "error", where the GPU hangs.

/// Why CUDA does not reach the GPU at that PCI address; empty where it does.
std::string gpu_lack(const std::string& address);

/// As fill_memory(), in all memory that is free. `read_back` says whether every copy of the canary in the
/// device memory was found again before it was given back. Throws Error, busy where no memory is free.
Filled fill_gpu(const std::string& address, const std::string& canary, std::chrono::seconds time);

/// Allocates all memory that is free, or `limits.bytes` of it, without clearing it, and searches it wherever
/// fill_gpu() may have written. An offset in "cuda:…" counts the allocations in their order, one in
/// "cuda:…/shared_memory" the multiprocessors by their number. Shared memory counts as searched only on those
/// multiprocessors where a canary that one kernel left was found by the next. Throws as fill_gpu().
SearchReport search_gpu(const std::string& address, const std::vector<Canary>& canaries,
                        const SearchLimits& limits);

}  // namespace virtrain::canary
