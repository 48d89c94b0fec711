#include "workloads/canary/cuda/gpu_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

#include "common/error.h"
#include "workloads/canary/cuda/gpu_device.h"
#include "workloads/canary/cuda/gpu_path.h"
#include "workloads/canary/cuda/kernels.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/common/program.h"
#include "workloads/common/watchdog.h"

namespace virtrain::canary {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr std::uint64_t page_bytes = page_words * sizeof(Word);
/// The driver gives large pieces whole, and what is left between them in small ones.
constexpr std::uint64_t largest_piece = std::uint64_t{256} << 20, smallest_piece = std::uint64_t{64} << 10;
constexpr seconds time_to_find{60}, time_to_end{10};
/// Starts of as many blocks as there are multiprocessors, until each has had one.
constexpr int most_rounds = 8;

Watchdog::Report report_hang(seconds limit) {
  return [limit](const std::string& doing) { report_failure("virtrain-canary", doing, hang_words(limit)); };
}

struct Piece {
  GpuMemory memory;
  std::uint64_t words = 0, offset = 0;

  Word* get() const { return reinterpret_cast<Word*>(memory.get()); }
};

/// Hits of the first block on each multiprocessor, by the multiprocessor's number.
using Seen = std::map<unsigned, Hits>;

class Gpu {
 public:
  Gpu(const std::string& doing, const std::string& address, seconds time)
      : operation_(doing + " GPU " + address),
        end_(Clock::now() + time),
        watchdog_(time + time_to_end, report_hang(time + time_to_end)) {
    watchdog_.expect(operation_);
    const int gpu = find_gpu(address);
    check_gpu(operation_, cudaSetDevice(gpu));
    check_gpu(operation_, cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, gpu));
    check_gpu(operation_,
              cudaDeviceGetAttribute(&shared_bytes_, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu));
    int registers = 0;
    check_gpu(operation_, cudaDeviceGetAttribute(&registers, cudaDevAttrMaxRegistersPerMultiprocessor, gpu));
    register_bytes_ = static_cast<std::uint64_t>(registers) * sizeof(std::uint32_t);
    std::size_t free = 0, total = 0;
    check_gpu(operation_, cudaMemGetInfo(&free, &total));
    device_bytes_ = total;
    load_kernels();
  }

  std::uint64_t shared_bytes() const { return static_cast<std::uint64_t>(shared_bytes_); }
  std::uint64_t register_bytes() const { return register_bytes_; }
  std::uint64_t total_bytes() const {
    return device_bytes_ + static_cast<std::uint64_t>(multiprocessors_) * (shared_bytes() + register_bytes_);
  }
  bool has_time() const { return Clock::now() < end_; }

  std::vector<Piece> allocate(std::uint64_t most_bytes) const {
    std::vector<Piece> pieces;
    std::uint64_t taken = 0;
    for (std::uint64_t size = largest_piece; size >= smallest_piece && has_time();) {
      const auto bytes = std::min(size, (most_bytes - taken) / page_bytes * page_bytes);
      if (bytes == 0) { break; }
      auto memory = try_to_allocate(bytes);
      if (memory) {
        pieces.push_back({std::move(memory), bytes / sizeof(Word), taken / sizeof(Word)});
        taken += bytes;
      } else {
        size /= 2;
      }
    }
    if (pieces.empty()) {
      throw Error(operation_, ErrorCode::busy,
                  fmt::format("none of its {} bytes of memory are free (nvidia-smi lists who has them)",
                              device_bytes_));
    }
    return pieces;
  }

  Seen on_each(decltype(&find_shared) kernel, const CanaryWords& canary) const {
    return on_each([&](unsigned blocks, SharedHits* seen) {
      kernel(blocks, static_cast<unsigned>(shared_bytes_), canary, seen);
    });
  }
  Seen fill_registers_with(const CanaryWords& canary) const {
    const GpuValues<std::uint64_t> word(1, register_word(canary));
    return on_each([&](unsigned blocks, SharedHits* seen) { fill_registers(blocks, word.get(), seen); });
  }
  Seen find_in_registers(const CanaryWords& canary) const {
    const GpuValues<std::uint64_t> nothing(1, 0);  // the word itself would come through registers
    return on_each([&](unsigned blocks, SharedHits* seen) {
      find_registers(blocks, nothing.get(), register_word(canary), seen);
    });
  }

 private:
  Seen on_each(const std::function<void(unsigned blocks, SharedHits* seen)>& kernel) const {
    Seen seen;
    const auto blocks = static_cast<std::size_t>(multiprocessors_);
    for (int round = 0; round < most_rounds && seen.size() < blocks; ++round) {
      GpuValues<SharedHits> values(blocks, {no_hits, 0});
      kernel(static_cast<unsigned>(blocks), values.get());
      for (const auto& one : values.read()) { seen.emplace(one.multiprocessor, one.hits); }
    }
    return seen;
  }

  std::string operation_;
  Clock::time_point end_;
  Watchdog watchdog_;
  int multiprocessors_ = 0, shared_bytes_ = 0;
  std::uint64_t device_bytes_ = 0, register_bytes_ = 0;
};

class Search {
 public:
  Search(const std::string& address, const std::vector<Canary>& canaries, const SearchLimits& limits)
      : gpu_("search", address, limits.time), path_(gpu_path(address)), canaries_(canaries) {
    report_.total_bytes = gpu_.total_bytes();
    // First what other kernels would overwrite: the cache of a multiprocessor lies in the same memory.
    search_on_chip();
    search_device(limits.bytes);
  }
  SearchReport report() && { return std::move(report_); }

 private:
  /// Registers before shared memory: each kernel overwrites those that it needs.
  void search_on_chip() {
    std::vector<Seen> looked_registers, looked_shared;
    for (const auto& canary : canaries_) {
      looked_registers.push_back(gpu_.find_in_registers(words_of_canary(canary.text)));
    }
    for (const auto& canary : canaries_) {
      looked_shared.push_back(gpu_.on_each(find_shared, words_of_canary(canary.text)));
    }
    for (std::size_t i = 0; i < canaries_.size(); ++i) {
      add_found(canaries_[i], "/registers", gpu_.register_bytes(), looked_registers[i]);
      add_found(canaries_[i], "/shared_memory", gpu_.shared_bytes(), looked_shared[i]);
    }
    // In the order in which fill_gpu() leaves them.
    const auto control = words_of_canary(make_canary("control").text);
    gpu_.fill_registers_with(control);
    gpu_.on_each(fill_shared, control);
    const auto was_looked_at = [](const std::vector<Seen>& looked, unsigned number) {
      return std::all_of(looked.begin(), looked.end(),
                         [number](const Seen& seen) { return seen.contains(number); });
    };
    for (const auto& [number, hits] : gpu_.find_in_registers(control)) {
      if (!was_looked_at(looked_registers, number)) { continue; }
      report_.scanned_bytes +=
          std::min<std::uint64_t>(gpu_.register_bytes(), hits.count * sizeof(std::uint64_t));
    }
    const auto expected = copies_in(gpu_.shared_bytes() / sizeof(Word));
    for (const auto& [number, hits] : gpu_.on_each(find_shared, control)) {
      if (hits.count == expected && was_looked_at(looked_shared, number)) {
        report_.scanned_bytes += gpu_.shared_bytes();
      }
    }
  }

  /// `bytes` of each multiprocessor, one after the other. Of registers it is not known which one.
  void add_found(const Canary& canary, const char* where, std::uint64_t bytes, const Seen& seen) {
    FoundCanary found{canary.name, path_ + where};
    for (const auto& [number, hits] : seen) {
      if (hits.count == 0) { continue; }
      const auto start = number * bytes;
      const bool has_place = hits.first <= hits.last;
      if (found.count == 0) { found.first = start + (has_place ? hits.first * sizeof(Word) : 0); }
      found.last = start + hits.last * sizeof(Word);
      found.count += hits.count;
    }
    if (found.count > 0) { report_.found.push_back(std::move(found)); }
  }

  void search_device(std::uint64_t most_bytes) {
    std::vector<GpuValues<Hits>> hits;
    for (std::size_t i = 0; i < canaries_.size(); ++i) { hits.emplace_back(1, no_hits); }
    for (const auto& piece : gpu_.allocate(most_bytes)) {
      if (!gpu_.has_time()) { break; }
      for (std::size_t i = 0; i < canaries_.size(); ++i) {
        find_words(piece.get(), piece.words, piece.offset, words_of_canary(canaries_[i].text), hits[i].get());
      }
      report_.scanned_bytes += piece.words * sizeof(Word);
    }
    for (std::size_t i = 0; i < canaries_.size(); ++i) {
      const auto all = hits[i].read()[0];
      if (all.count == 0) { continue; }
      report_.found.push_back(
          {canaries_[i].name, path_, all.count, all.first * sizeof(Word), all.last * sizeof(Word)});
    }
  }

  Gpu gpu_;
  std::string path_;
  const std::vector<Canary>& canaries_;
  SearchReport report_;
};

}  // namespace

std::string gpu_lack(const std::string& address) {
  Watchdog watchdog(time_to_find, report_hang(time_to_find));
  watchdog.expect("find GPU " + address);
  try {
    find_gpu(address);
    return "";
  } catch (const GpuFault&) { throw; } catch (const Error& error) {
    return error.what();
  }
}

Filled fill_gpu(const std::string& address, const std::string& canary, seconds time) {
  const Gpu gpu("fill", address, time);
  const auto words = words_of_canary(canary);
  GpuValues<Hits> hits(1, no_hits);
  Filled filled{0, gpu.total_bytes()};
  std::uint64_t copies = 0;
  for (const auto& piece : gpu.allocate(filled.total)) {
    if (!gpu.has_time()) { break; }
    fill_words(piece.get(), piece.words, piece.offset / page_words, words);
    find_words(piece.get(), piece.words, piece.offset, words, hits.get());
    filled.bytes += piece.words * sizeof(Word);
    copies += copies_in(piece.words);
  }
  filled.read_back = copies > 0 && hits.read()[0].count == copies;
  // Last, for other kernels would overwrite both: the cache of a multiprocessor lies in its shared memory.
  filled.bytes +=
      gpu.fill_registers_with(words).size() * std::min(gpu.register_bytes(), searched_register_bytes);
  filled.bytes += gpu.on_each(fill_shared, words).size() * gpu.shared_bytes();
  return filled;
}

SearchReport search_gpu(const std::string& address, const std::vector<Canary>& canaries,
                        const SearchLimits& limits) {
  return Search(address, canaries, limits).report();
}

}  // namespace virtrain::canary
