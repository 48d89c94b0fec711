#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "common/files/file_search.h"
#include "workloads/canary/memory.h"

// The memory of a GPU through CUDA: what it gives to a process of its device memory, and the shared memory of
// its multiprocessors. Registers are left out: a compiler reads none that it has not written.
//
// Each function ends the process, with the record "error", where the GPU hangs.

namespace virtrain::canary {

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
