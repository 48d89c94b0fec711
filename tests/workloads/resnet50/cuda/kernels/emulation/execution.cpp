#include "tests/workloads/resnet50/cuda/kernels/emulation/execution.h"

#include <ucontext.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace virtrain::test::emulation {
namespace {

[[noreturn]] void fail(const char* kernel, const std::string& problem) {
  throw std::logic_error(std::string(kernel) + ": " + problem);
}

/// Runs threads of a block one after another, and stands still with one that waits at a barrier.
struct Fiber {
  static constexpr std::size_t stack_bytes = std::size_t{128} << 10;
  std::unique_ptr<std::byte[]> stack = std::make_unique<std::byte[]>(stack_bytes);
  ucontext_t context{};
  unsigned thread = 0;
  bool waits = false;
  int barrier = 0;  ///< its line
};

using Fibers = std::vector<std::unique_ptr<Fiber>>;

struct Free {
  void operator()(std::byte* memory) const { ::operator delete[](memory, std::align_val_t{16}); }
};

/// The block that runs. There is one GPU, as in a process that uses one.
struct Block {
  const std::function<void()>* body = nullptr;
  std::vector<unsigned> order;  ///< in which threads begin
  std::size_t begun = 0;
  ucontext_t scheduler{};
  Fiber* current = nullptr;
  Fibers idle;
  std::map<std::type_index, std::unique_ptr<std::byte[], Free>> shared;
  std::size_t shared_bytes = 0;
  std::minstd_rand random;
};
Block block;

void run_threads() {
  for (;;) {
    while (block.begun < block.order.size()) {
      block.current->thread = block.order[block.begun++];
      threadIdx = {block.current->thread, 0, 0};
      (*block.body)();
    }
    swapcontext(&block.current->context, &block.scheduler);
  }
}

std::unique_ptr<Fiber> new_fiber() {
  auto fiber = std::make_unique<Fiber>();
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = Fiber::stack_bytes;
  makecontext(&fiber->context, run_threads, 0);
  return fiber;
}

/// Lets a fiber go on until it waits or has nothing left to do, and puts it where it belongs.
void resume(std::unique_ptr<Fiber> fiber, Fibers& waiting) {
  block.current = fiber.get();
  fiber->waits = false;
  threadIdx = {fiber->thread, 0, 0};
  swapcontext(&block.scheduler, &fiber->context);
  Fibers& next = fiber->waits ? waiting : block.idle;
  next.push_back(std::move(fiber));
}

/// All threads stand at one barrier, or the block is at its end.
void require_all(const char* kernel, const Fibers& waiting) {
  if (waiting.empty()) { return; }
  if (waiting.size() < block.order.size()) {
    fail(kernel, std::to_string(waiting.size()) + " of " + std::to_string(block.order.size()) +
                     " threads wait at a barrier, the others have ended");
  }
  for (const auto& fiber : waiting) {
    if (fiber->barrier != waiting[0]->barrier) {
      fail(kernel, "threads wait at different barriers: lines " + std::to_string(fiber->barrier) + " and " +
                       std::to_string(waiting[0]->barrier));
    }
  }
}

void run_block(const char* kernel, unsigned threads) {
  block.order.resize(threads);
  std::iota(block.order.begin(), block.order.end(), 0U);
  std::shuffle(block.order.begin(), block.order.end(), block.random);
  block.begun = 0;
  block.shared.clear();
  block.shared_bytes = 0;
  Fibers waiting;
  while (block.begun < threads) {
    if (block.idle.empty()) { block.idle.push_back(new_fiber()); }
    auto fiber = std::move(block.idle.back());
    block.idle.pop_back();
    resume(std::move(fiber), waiting);
  }
  for (require_all(kernel, waiting); !waiting.empty(); require_all(kernel, waiting)) {
    std::shuffle(waiting.begin(), waiting.end(), block.random);
    Fibers standing;
    standing.swap(waiting);
    for (auto& fiber : standing) { resume(std::move(fiber), waiting); }
  }
  if (block.shared_bytes > std::size_t{48} << 10) { fail(kernel, "more than 48 KiB of shared memory"); }
}

}  // namespace

void run(const char* kernel, dim3 blocks, unsigned threads, const std::function<void()>& thread) {
  const bool fits = blocks.x >= 1 && blocks.x <= 0x7fffffffU && blocks.y >= 1 && blocks.y <= 65535 &&
                    blocks.z == 1 && threads >= 1 && threads <= 1024;
  if (!fits) {
    fail(kernel, "no GPU launches " + std::to_string(blocks.x) + " x " + std::to_string(blocks.y) + " x " +
                     std::to_string(blocks.z) + " blocks of " + std::to_string(threads) + " threads");
  }
  block.body = &thread;
  blockDim = dim3(threads);
  gridDim = blocks;
  const std::uint64_t count = std::uint64_t{blocks.x} * blocks.y;
  const std::uint64_t first = block.random() % count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t index = (first + i) % count;
    blockIdx = {static_cast<unsigned>(index % blocks.x), static_cast<unsigned>(index / blocks.x), 0};
    run_block(kernel, threads);
  }
}

void* shared_memory(std::type_index type, std::size_t bytes) {
  auto& memory = block.shared[type];
  if (memory == nullptr) {
    memory.reset(static_cast<std::byte*>(::operator new[](bytes, std::align_val_t{16})));
    std::fill_n(memory.get(), bytes, std::byte{0xff});
    block.shared_bytes += bytes;
  }
  return memory.get();
}

}  // namespace virtrain::test::emulation

void __syncthreads(int line) {  // NOLINT
  using virtrain::test::emulation::block;
  block.current->waits = true;
  block.current->barrier = line;
  swapcontext(&block.current->context, &block.scheduler);
}

std::uint64_t virtrain::resnet50::cuda::global_nanoseconds() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
