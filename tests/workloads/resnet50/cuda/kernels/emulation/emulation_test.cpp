#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/kernels/emulation/execution.h"

// What the emulation must see in a wrong kernel.

using namespace virtrain::resnet50::cuda;

namespace {

constexpr unsigned threads = 96;

struct Numbers {
  float at[threads];
};

/// Each thread writes its number; after the barrier, if there is one, it reads all of them.
void sum_kernel(bool with_barrier, float* sums) {
  Numbers& numbers = block_shared<Numbers>();
  numbers.at[threadIdx.x] = static_cast<float>(threadIdx.x);
  if (with_barrier) { __syncthreads(); }
  float sum = 0;
  for (const float number : numbers.at) { sum += number; }
  sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

std::vector<float> sums(bool with_barrier) {
  std::vector<float> result(std::size_t{threads} * 3);
  launch("sum", sum_kernel, 3, threads, nullptr, with_barrier, result.data());
  return result;
}

void leaving_kernel(unsigned last) {
  if (threadIdx.x <= last) { __syncthreads(); }
}

void two_barriers_kernel() {
  const bool even = threadIdx.x % 2 == 0;
  if (even) { __syncthreads(); }
  if (!even) { __syncthreads(); }
}

void nothing_kernel() {}

void write_kernel(std::byte* memory) {
  memory[threadIdx.x] = std::byte{1};
}
void write_shared_kernel(unsigned last) {
  if (threadIdx.x <= last) { block_shared<Numbers>().at[std::size_t{2} * threadIdx.x] = 1; }
}

/// Whether a process of its own, which does that, ends well.
template <typename Work>
bool survives(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) { _exit(2); }
    work();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status == 0;
}

}  // namespace

TEST_CASE("threads of a block see each other's shared memory after a barrier") {
  CHECK(sums(true) == std::vector<float>(std::size_t{threads} * 3, threads * (threads - 1) / 2.0F));
}

TEST_CASE("a missing barrier gives NaN") {
  bool found = false;
  for (const float sum : sums(false)) { found = found || std::isnan(sum); }
  CHECK(found);
}

TEST_CASE("a barrier that not all threads reach is named") {
  CHECK_THROWS_WITH(launch("left", leaving_kernel, 1, threads, nullptr, 40),
                    "left: 41 of 96 threads wait at a barrier, the others have ended");
  CHECK_THROWS_WITH(launch("two", two_barriers_kernel, 1, threads, nullptr),
                    virtrain::test::Contains("different barriers"));
  CHECK_NOTHROW(launch("all", leaving_kernel, 2, threads, nullptr, threads));
}

TEST_CASE("launches that no GPU takes are refused") {
  CHECK_THROWS_WITH(launch("none", nothing_kernel, 0, threads, nullptr),
                    virtrain::test::Contains("0 x 1 x 1 blocks"));
  CHECK_THROWS_AS(launch("wide", nothing_kernel, 1, 1025, nullptr), std::logic_error);
  CHECK_THROWS_AS(launch("high", nothing_kernel, dim3(1, 65536), 1, nullptr), std::logic_error);
}

TEST_CASE("memory beside a tensor and beside shared memory is guarded") {
  const auto writes = [](std::size_t bytes) {
    void* memory = nullptr;
    cudaMalloc(&memory, bytes);
    launch("write", write_kernel, 1, threads, nullptr, static_cast<std::byte*>(memory));
    cudaFree(memory);
  };
  CHECK(survives([&] { writes(threads); }));
  CHECK_FALSE(survives([&] { writes(threads - 1); }));
  CHECK(survives([] { launch("write", write_shared_kernel, 1, threads, nullptr, threads / 2 - 1); }));
  CHECK_FALSE(survives([] { launch("write", write_shared_kernel, 1, threads, nullptr, threads / 2); }));
}
