#include "tests/workloads/canary/cuda/fake_gpu.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

using virtrain::test::fake_gpu;
using virtrain::test::FakeGpu;

virtrain::test::FakeGpu* virtrain::test::fake_gpu = nullptr;

namespace {

void make_noise(std::vector<std::byte>& bytes, unsigned seed) {
  std::minstd_rand random(seed);
  for (auto& byte : bytes) { byte = static_cast<std::byte>(random() >> 8); }
}

/// What a call returns that is let begin.
cudaError_t begin_call() {
  ++fake_gpu->calls;
  return static_cast<cudaError_t>(fake_gpu->lasting);
}

/// Where this process has a page from, as the kernel says.
struct Mapping {
  bool is_shared = false;  ///< a file's
  std::uint64_t offset = 0;
};
Mapping mapping_of(const void* page) {
  const auto address = reinterpret_cast<std::uint64_t>(page);
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {  // "7f01…-7f02… rw-s 00300000 …"
    std::istringstream words(line);
    std::uint64_t first = 0, end = 0, offset = 0;
    char dash = 0;
    std::string rights;
    words >> std::hex >> first >> dash >> end >> rights >> offset;
    if (first <= address && address < end) { return {rights.back() == 's', offset + (address - first)}; }
  }
  return {};
}

}  // namespace

FakeGpu::FakeGpu(std::size_t pages) : memory(pages * page), most_piece(pages * page) {
  make_noise(memory, 1);
  for (unsigned i = 0; i < multiprocessors; ++i) {
    shared.emplace_back(shared_bytes);
    make_noise(shared.back(), 2 + i);
    registers.emplace_back(register_bytes / sizeof(std::uint64_t), 0x6e6f697365ULL + i);
  }
  fake_gpu = this;
}

cudaError_t cudaDeviceGetByPCIBusId(int* gpu, const char* address) {
  *gpu = 0;
  if (const auto error = begin_call(); error != cudaSuccess) { return error; }
  if (fake_gpu->missing != 0) { return static_cast<cudaError_t>(fake_gpu->missing); }
  return address == fake_gpu->address ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int /*gpu*/) {
  return begin_call();
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*gpu*/) {
  if (attribute == cudaDevAttrMultiProcessorCount) {
    *value = static_cast<int>(FakeGpu::multiprocessors);
  } else if (attribute == cudaDevAttrMaxRegistersPerMultiprocessor) {
    *value = static_cast<int>(FakeGpu::register_bytes / 4);
  } else {
    *value = static_cast<int>(FakeGpu::shared_bytes);
  }
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = fake_gpu->memory.size();
  *free = *total - fake_gpu->taken - fake_gpu->given;
  return cudaSuccess;
}

// Page-wise, small values too: what is free at the end no value takes from the pieces that are searched.
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (const auto error = begin_call(); error != cudaSuccess) { return error; }
  auto& gpu = *fake_gpu;
  const auto pages = (bytes + FakeGpu::page - 1) / FakeGpu::page * FakeGpu::page;
  if (pages > gpu.most_piece || pages > gpu.memory.size() - gpu.taken - gpu.given) {
    return cudaErrorMemoryAllocation;
  }
  auto* const start = gpu.memory.data() + gpu.given;
  if (!gpu.keeps_memory) { std::fill_n(start, pages, std::byte{0}); }
  gpu.given += pages;
  *memory = start;
  return cudaSuccess;
}

/// All is free again once the last is given back, which the order of giving back does not matter for.
cudaError_t cudaFree(void* memory) {
  fake_gpu->given = std::min<std::size_t>(
      fake_gpu->given, static_cast<std::size_t>(static_cast<std::byte*>(memory) - fake_gpu->memory.data()));
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind /*kind*/) {
  if (const auto error = begin_call(); error != cudaSuccess) { return error; }
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

/// A driver takes memory of files, as a device's is, as that only, and the process must not look at it.
cudaError_t cudaHostRegister(void* page, std::size_t bytes, unsigned flags) {
  if (const auto error = begin_call(); error != cudaSuccess) { return error; }
  auto& gpu = *fake_gpu;
  const auto mapping = mapping_of(page);
  const bool is_whole = bytes == FakeGpu::page && reinterpret_cast<std::uint64_t>(page) % FakeGpu::page == 0;
  if (!is_whole || ((flags & cudaHostRegisterIoMemory) != 0) != mapping.is_shared ||
      (mapping.is_shared && gpu.unregistered.contains(mapping.offset))) {
    return cudaErrorInvalidValue;
  }
  const auto* start = static_cast<const std::byte*>(page);
  gpu.seen.assign(start, start + bytes);
  if (mapping.is_shared && gpu.silent.contains(mapping.offset)) {
    std::fill(gpu.seen.begin(), gpu.seen.end(), std::byte{0xff});
  }
  gpu.is_closed = mapping.is_shared && gpu.closed.contains(mapping.offset);
  gpu.registered = page;
  ::mprotect(page, bytes, PROT_NONE);
  return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void** seen, void* page, unsigned /*flags*/) {
  if (const auto error = begin_call(); error != cudaSuccess) { return error; }
  if (page != fake_gpu->registered) { return cudaErrorInvalidValue; }
  *seen = fake_gpu->seen.data();
  return cudaSuccess;
}

cudaError_t cudaHostUnregister(void* page) {
  if (page != fake_gpu->registered) { return cudaErrorHostMemoryNotRegistered; }
  ::mprotect(page, FakeGpu::page, PROT_READ | PROT_WRITE);
  fake_gpu->registered = nullptr;
  return begin_call();
}

cudaError_t cudaDeviceSynchronize() {
  return begin_call();
}

cudaError_t cudaGetLastError() {
  return static_cast<cudaError_t>(fake_gpu->lasting);
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = 0;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = 12000;
  return cudaSuccess;
}

const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the fake GPU";
}
