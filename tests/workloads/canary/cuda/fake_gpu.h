#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace virtrain::test {

/// A GPU behind CUDA's runtime whose memory keeps what was written, until a test clears it. It hands out
/// device memory from its start, in pages.
struct FakeGpu {
  static constexpr std::size_t page = 4096, shared_bytes = 10000 / 16 * 16;
  static constexpr unsigned multiprocessors = 3;
  static constexpr std::size_t register_bytes = 65'536 * 4;  ///< of each multiprocessor

  std::string address = "0000:19:00.0";
  int missing = 0;  ///< what cudaDeviceGetByPCIBusId() returns
  std::vector<std::byte> memory;
  std::size_t taken = 0;       ///< by another process, at the end
  std::size_t given = 0;       ///< allocated now
  std::size_t most_piece = 0;  ///< no larger part is free in one piece
  std::vector<std::vector<std::byte>> shared;
  std::vector<std::vector<std::uint64_t>> registers;  ///< that kernels fill and search, by multiprocessor
  bool keeps_registers = true;                        ///< false: cleared before each kernel
  bool keeps_shared = true;                           ///< false: cleared before each block
  bool keeps_memory = true;                           ///< false: cleared when it is handed out
  unsigned launches = 0;

  // Pages of files that a process has its driver register, as those of the bus, by their offset in the file.
  std::set<std::uint64_t> unregistered;  ///< the driver does not take them
  std::set<std::uint64_t> closed;        ///< a kernel that loads from one ends with `fault`, which lasts
  std::set<std::uint64_t> silent;        ///< a kernel gets ones
  int fault = 0;
  bool hangs = false;  ///< kernels do not end

  unsigned calls = 0;           ///< of CUDA
  int lasting = 0;              ///< what all calls of this process return since a kernel ended with it
  bool is_closed = false;       ///< what is registered now
  void* registered = nullptr;   ///< in this process, which must not look at it
  std::vector<std::byte> seen;  ///< as the GPU sees it

  /// Of that many pages, full of noise.
  explicit FakeGpu(std::size_t pages);
};

/// The one that CUDA shows.
extern FakeGpu* fake_gpu;

}  // namespace virtrain::test
