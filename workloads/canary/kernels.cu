// Each thread takes a word of 16 bytes at a time, side by side with its neighbours': memory's speed is the
// limit. Few threads find anything in memory that is not full of canaries, so each adds up its own finds.

#include <cstring>
#include <string>
#include <type_traits>

#include "workloads/canary/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"

namespace virtrain::canary {

// Services that the kernels need from the GPU. nvcc compiles this; the tests run the same kernels without a
// GPU and bring their own (tests/workloads/canary/cuda/emulation.h).
#ifdef __CUDACC__

/// Starts a kernel whose blocks have that much shared memory. Throws Error, which names it.
template <typename... Parameters>
void launch(const char* name, void (*kernel)(Parameters...), unsigned blocks, unsigned threads,
            unsigned shared_bytes, std::type_identity_t<Parameters>... arguments) {
  const std::string operation = std::string("launch ") + name;
  if (shared_bytes > 0) {
    check_gpu(operation, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                              static_cast<int>(shared_bytes)));
  }
  kernel<<<blocks, threads, shared_bytes>>>(arguments...);
  check_gpu(operation, cudaGetLastError());
  check_gpu(std::string("wait for ") + name, cudaDeviceSynchronize());
}

/// Loads a kernel's code, for which there is no room once all memory is taken.
template <typename... Parameters>
void load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes attributes{};
  check_gpu("load a kernel", cudaFuncGetAttributes(&attributes, kernel));
}

/// The block's shared memory as the last block on this multiprocessor left it.
__device__ inline volatile Word* shared_words() {
  extern __shared__ Word words[];
  return words;
}

/// The number of the multiprocessor that runs this block.
__device__ inline unsigned multiprocessor() {
  unsigned number;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
  return number;
}

// A name for each register: PTX has no arrays of them.
// clang-format off
#define VIRTRAIN_TEN(with, t) \
  with(t##0) with(t##1) with(t##2) with(t##3) with(t##4) with(t##5) with(t##6) with(t##7) with(t##8) with(t##9)
#define VIRTRAIN_REGISTERS(with) \
  VIRTRAIN_TEN(with, 1) VIRTRAIN_TEN(with, 2) VIRTRAIN_TEN(with, 3) VIRTRAIN_TEN(with, 4) \
  VIRTRAIN_TEN(with, 5) VIRTRAIN_TEN(with, 6) VIRTRAIN_TEN(with, 7) VIRTRAIN_TEN(with, 8) \
  VIRTRAIN_TEN(with, 9) VIRTRAIN_TEN(with, 10) VIRTRAIN_TEN(with, 11)
#define VIRTRAIN_DECLARE(n) ".reg .b64 r" #n ";\n\t"
#define VIRTRAIN_LOAD(n) "ld.volatile.global.u64 r" #n ", [%0];\n\t"
#define VIRTRAIN_STORE_IF(n) "@p st.volatile.global.u64 [%0], r" #n ";\n\t"
#define VIRTRAIN_LOAD_IF(n) "@p ld.volatile.global.u64 r" #n ", [%1];\n\t"
#define VIRTRAIN_COUNT(n) "setp.eq.u64 q, r" #n ", %2;\n\t@q add.u32 c, c, 1;\n\t"

/// All registers hold the word at once: each would be stored if the address were 0, which only the compiler
/// does not know.
__device__ inline void leave_in_registers(const std::uint64_t* word) {
  asm volatile("{\n\t.reg .pred p;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_DECLARE)
               "setp.eq.u64 p, %0, 0;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_LOAD)
               VIRTRAIN_REGISTERS(VIRTRAIN_STORE_IF)
               "}"
               :: "l"(word) : "memory");
}

/// How many registers hold what is wanted although this kernel has written none: each would be loaded if what
/// is wanted were 0, so that the compiler keeps a register for it; else it holds what was there before.
__device__ inline unsigned count_in_registers(const std::uint64_t* word, std::uint64_t wanted) {
  unsigned count;
  asm volatile("{\n\t.reg .pred p, q;\n\t.reg .u32 c;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_DECLARE)
               "setp.eq.u64 p, %2, 0;\n\tmov.u32 c, 0;\n\t"
               VIRTRAIN_REGISTERS(VIRTRAIN_LOAD_IF)
               VIRTRAIN_REGISTERS(VIRTRAIN_COUNT)
               "mov.u32 %0, c;\n\t}"
               : "=r"(count) : "l"(word), "l"(wanted) : "memory");
  return count;
}
// clang-format on

#undef VIRTRAIN_TEN
#undef VIRTRAIN_REGISTERS
#undef VIRTRAIN_DECLARE
#undef VIRTRAIN_LOAD
#undef VIRTRAIN_STORE_IF
#undef VIRTRAIN_LOAD_IF
#undef VIRTRAIN_COUNT
#endif

namespace {

constexpr unsigned block_threads = 256, most_blocks = 8192;

/// 16 hexadecimal digits, as they lie in memory.
__device__ inline Word number_word(std::uint64_t number) {
  Word word{};
  for (unsigned digit = 0; digit < 16; ++digit) {
    const std::uint64_t value = (number >> (60 - 4 * digit)) & 15;
    const std::uint64_t letter = value < 10 ? '0' + value : 'a' + (value - 10);
    (digit < 8 ? word.low : word.high) |= letter << (8 * (digit % 8));
  }
  return word;
}

/// The word at that place of a page.
__device__ inline Word word_at(unsigned place, std::uint64_t page, const CanaryWords& canary) {
  const unsigned part = place % 3;
  return part == 0 ? canary.first : part == 1 ? canary.second : number_word(page);
}

template <typename Memory>
__device__ inline bool is_same(const Memory& memory, const Word& word) {
  return memory.low == word.low && memory.high == word.high;
}

__device__ inline void add(Hits& hits, std::uint64_t at) {
  hits.first = hits.count == 0 ? at : hits.first;
  hits.last = at;
  ++hits.count;
}

__device__ inline void add_to(Hits* all, const Hits& own) {
  if (own.count == 0) { return; }
  atomicAdd(&all->count, own.count);
  atomicMin(&all->first, own.first);
  atomicMax(&all->last, own.last);
}

__global__ void fill_kernel(Word* memory, std::uint64_t words, std::uint64_t first_page, CanaryWords canary) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += step) {
    memory[i] = word_at(static_cast<unsigned>(i % page_words), first_page + i / page_words, canary);
  }
}

__global__ void find_kernel(const Word* memory, std::uint64_t words, std::uint64_t offset, CanaryWords canary,
                            Hits* hits) {
  const std::uint64_t step = static_cast<std::uint64_t>(gridDim.x) * blockDim.x;
  Hits own = no_hits;
  for (std::uint64_t i = static_cast<std::uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i + 1 < words;
       i += step) {
    if (is_same(memory[i], canary.first) && is_same(memory[i + 1], canary.second)) { add(own, offset + i); }
  }
  add_to(hits, own);
}

/// Volatile, or the compiler would leave out what nobody in this kernel reads, or has written.
__global__ void fill_shared_kernel(unsigned words, CanaryWords canary, SharedHits* seen) {
  volatile Word* memory = shared_words();
  const unsigned number = multiprocessor();
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x) {
    const Word word = word_at(i % page_words, number, canary);
    memory[i].low = word.low;
    memory[i].high = word.high;
  }
  if (threadIdx.x == 0) { seen[blockIdx.x].multiprocessor = number; }
}

__global__ void find_shared_kernel(unsigned words, CanaryWords canary, SharedHits* seen) {
  const volatile Word* memory = shared_words();
  Hits own = no_hits;
  for (unsigned i = threadIdx.x; i + 1 < words; i += blockDim.x) {
    if (is_same(memory[i], canary.first) && is_same(memory[i + 1], canary.second)) { add(own, i); }
  }
  add_to(&seen[blockIdx.x].hits, own);
  if (threadIdx.x == 0) { seen[blockIdx.x].multiprocessor = multiprocessor(); }
}

__global__ void __launch_bounds__(register_threads, 1)
    fill_registers_kernel(const std::uint64_t* word, SharedHits* seen) {
  if (threadIdx.x == 0) { seen[blockIdx.x].multiprocessor = multiprocessor(); }
  leave_in_registers(word);
}

__global__ void __launch_bounds__(register_threads, 1)
    find_registers_kernel(const std::uint64_t* word, std::uint64_t wanted, SharedHits* seen) {
  const unsigned count = count_in_registers(word, wanted);
  if (count > 0) { atomicAdd(&seen[blockIdx.x].hits.count, static_cast<unsigned long long>(count)); }
  if (threadIdx.x == 0) { seen[blockIdx.x].multiprocessor = multiprocessor(); }
}

/// Volatile: each number is loaded once, from where it lies.
__global__ void copy_kernel(std::uint64_t* to, const volatile std::uint64_t* from, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) { to[i] = from[i]; }
}

unsigned blocks_for(std::uint64_t words) {
  const std::uint64_t blocks = (words + block_threads - 1) / block_threads;
  return static_cast<unsigned>(blocks < most_blocks ? blocks : most_blocks);
}

}  // namespace

CanaryWords words_of_canary(const std::string& text) {
  CanaryWords words{};
  static_assert(sizeof(words) == 32);
  std::memcpy(&words, text.data(), text.size() < sizeof(words) ? text.size() : sizeof(words));
  return words;
}

void load_kernels() {
  load(fill_kernel);
  load(find_kernel);
  load(fill_shared_kernel);
  load(find_shared_kernel);
  load(fill_registers_kernel);
  load(find_registers_kernel);
  load(copy_kernel);
}

void fill_words(Word* memory, std::uint64_t words, std::uint64_t first_page, const CanaryWords& canary) {
  launch("fill", fill_kernel, blocks_for(words), block_threads, 0, memory, words, first_page, canary);
}

void find_words(const Word* memory, std::uint64_t words, std::uint64_t offset, const CanaryWords& canary,
                Hits* hits) {
  launch("find", find_kernel, blocks_for(words), block_threads, 0, memory, words, offset, canary, hits);
}

void fill_shared(unsigned blocks, unsigned shared_bytes, const CanaryWords& canary, SharedHits* seen) {
  launch("fill_shared", fill_shared_kernel, blocks, block_threads, shared_bytes,
         static_cast<unsigned>(shared_bytes / sizeof(Word)), canary, seen);
}

void find_shared(unsigned blocks, unsigned shared_bytes, const CanaryWords& canary, SharedHits* seen) {
  launch("find_shared", find_shared_kernel, blocks, block_threads, shared_bytes,
         static_cast<unsigned>(shared_bytes / sizeof(Word)), canary, seen);
}

void fill_registers(unsigned blocks, const std::uint64_t* word, SharedHits* seen) {
  launch("fill_registers", fill_registers_kernel, blocks, register_threads, 0, word, seen);
}

void find_registers(unsigned blocks, const std::uint64_t* word, std::uint64_t wanted, SharedHits* seen) {
  launch("find_registers", find_registers_kernel, blocks, register_threads, 0, word, wanted, seen);
}

void copy_numbers(std::uint64_t* to, const std::uint64_t* from, unsigned count) {
  launch("copy", copy_kernel, blocks_for(count), block_threads, 0, to, from, count);
}

}  // namespace virtrain::canary
