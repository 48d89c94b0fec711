#include "tests/workloads/canary/cuda/fake_gpu.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <random>

using virtrain::test::fake_gpu;
using virtrain::test::FakeGpu;

virtrain::test::FakeGpu* virtrain::test::fake_gpu = nullptr;

namespace {

void make_noise(std::vector<std::byte>& bytes, unsigned seed) {
  std::minstd_rand random(seed);
  for (auto& byte : bytes) { byte = static_cast<std::byte>(random() >> 8); }
}

}  // namespace

FakeGpu::FakeGpu(std::size_t pages) : memory(pages * page), most_piece(pages * page) {
  make_noise(memory, 1);
  for (unsigned i = 0; i < multiprocessors; ++i) {
    shared.emplace_back(shared_bytes);
    make_noise(shared.back(), 2 + i);
  }
  fake_gpu = this;
}

cudaError_t cudaDeviceGetByPCIBusId(int* gpu, const char* address) {
  *gpu = 0;
  if (fake_gpu->missing != 0) { return static_cast<cudaError_t>(fake_gpu->missing); }
  return address == fake_gpu->address ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaSetDevice(int /*gpu*/) {
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int /*gpu*/) {
  if (attribute == cudaDevAttrMultiProcessorCount) {
    *value = static_cast<int>(FakeGpu::multiprocessors);
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
  std::memcpy(to, from, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() {
  return cudaSuccess;
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
