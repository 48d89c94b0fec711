#pragma once

#include <cstdint>
#include <string>

/// Kernels that write a canary all over memory and look for it, and one that copies. All wait until they are
/// done, and throw Error.
namespace virtrain::canary {

/// The unit that a thread reads or writes at once. A canary has two, and one more for the number of its page,
/// so that canaries begin at multiples of a word only.
struct alignas(16) Word {
  std::uint64_t low, high;
};
struct CanaryWords {
  Word first, second;
};
CanaryWords words_of_canary(const std::string& text);

/// Pages as fill_memory() writes them, where each begins with a canary.
inline constexpr unsigned page_words = 256;
/// Whole canaries in that many words of such pages.
inline constexpr std::uint64_t copies_in(std::uint64_t words) {
  return words / page_words * ((page_words + 1) / 3) + (words % page_words + 1) / 3;
}

/// Offsets in words. `first` and `last` mean something only where something was found.
struct Hits {
  unsigned long long count, first, last;
};
inline constexpr Hits no_hits{0, ~0ULL, 0};

/// Hits of one block in the shared memory of its multiprocessor.
struct SharedHits {
  Hits hits;
  unsigned multiprocessor;
};

/// Loads all kernels: later there may be no memory left for their code.
void load_kernels();

/// Writes `words` words, the first of which is that of page `first_page`.
void fill_words(Word* memory, std::uint64_t words, std::uint64_t first_page, const CanaryWords& canary);
/// Adds what it finds to `hits`, in memory of the GPU; `offset` is that of the first word.
void find_words(const Word* memory, std::uint64_t words, std::uint64_t offset, const CanaryWords& canary,
                Hits* hits);

/// Each of `blocks` blocks fills or searches all of its shared memory, and writes to its place in `seen`, in
/// memory of the GPU, which multiprocessor that was. Blocks so large that a multiprocessor holds one at a
/// time.
void fill_shared(unsigned blocks, unsigned shared_bytes, const CanaryWords& canary, SharedHits* seen);
void find_shared(unsigned blocks, unsigned shared_bytes, const CanaryWords& canary, SharedHits* seen);

/// Registers of 64 bits that each thread of the next two fills or searches, and threads of a block, which has
/// nearly all of a multiprocessor's registers: the rest are what the kernels need themselves.
inline constexpr unsigned register_words = 110, register_threads = 256;
inline constexpr std::uint64_t searched_register_bytes =
    std::uint64_t{register_words} * register_threads * sizeof(std::uint64_t);
/// The part of a canary that fits into a register.
inline std::uint64_t register_word(const CanaryWords& canary) {
  return canary.second.low;
}
/// Each of `blocks` blocks leaves the word, which lies in memory of the GPU, in its registers, or counts in
/// how many it finds the wanted one, which is not 0; and writes to its place in `seen` which multiprocessor
/// that was.
void fill_registers(unsigned blocks, const std::uint64_t* word, SharedHits* seen);
void find_registers(unsigned blocks, const std::uint64_t* word, std::uint64_t wanted, SharedHits* seen);

/// Copies so many numbers to memory of the GPU from wherever the GPU sees them: the loads are its own.
void copy_numbers(std::uint64_t* to, const std::uint64_t* from, unsigned count);

}  // namespace virtrain::canary
