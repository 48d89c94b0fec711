#include "workloads/canary/cuda/gpu_memory.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
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

/// What the first block on each multiprocessor saw, by the multiprocessor's number.
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
    std::size_t free = 0, total = 0;
    check_gpu(operation_, cudaMemGetInfo(&free, &total));
    device_bytes_ = total;
    load_kernels();
  }

  std::uint64_t shared_bytes() const { return static_cast<std::uint64_t>(shared_bytes_); }
  std::uint64_t total_bytes() const {
    return device_bytes_ + static_cast<std::uint64_t>(multiprocessors_) * shared_bytes();
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
    Seen seen;
    const auto blocks = static_cast<std::size_t>(multiprocessors_);
    for (int round = 0; round < most_rounds && seen.size() < blocks; ++round) {
      GpuValues<SharedHits> values(blocks, {no_hits, 0});
      kernel(static_cast<unsigned>(blocks), static_cast<unsigned>(shared_bytes_), canary, values.get());
      for (const auto& one : values.read()) { seen.emplace(one.multiprocessor, one.hits); }
    }
    return seen;
  }

 private:
  std::string operation_;
  Clock::time_point end_;
  Watchdog watchdog_;
  int multiprocessors_ = 0, shared_bytes_ = 0;
  std::uint64_t device_bytes_ = 0;
};

class Search {
 public:
  Search(const std::string& address, const std::vector<Canary>& canaries, const SearchLimits& limits)
      : gpu_("search", address, limits.time), path_(gpu_path(address)), canaries_(canaries) {
    report_.total_bytes = gpu_.total_bytes();
    // First what other kernels would overwrite: the cache of a multiprocessor lies in the same memory.
    search_shared();
    search_device(limits.bytes);
  }
  SearchReport report() && { return std::move(report_); }

 private:
  void search_shared() {
    std::vector<Seen> looked;
    for (const auto& canary : canaries_) {
      looked.push_back(gpu_.on_each(find_shared, words_of_canary(canary.text)));
      add_found(canary, looked.back());
    }
    const auto control = words_of_canary(make_canary("control").text);
    gpu_.on_each(fill_shared, control);
    const auto expected = copies_in(gpu_.shared_bytes() / sizeof(Word));
    for (const auto& [number, hits] : gpu_.on_each(find_shared, control)) {
      const auto was_looked_at = [number = number](const Seen& seen) { return seen.contains(number); };
      if (hits.count == expected && std::all_of(looked.begin(), looked.end(), was_looked_at)) {
        report_.scanned_bytes += gpu_.shared_bytes();
      }
    }
  }

  void add_found(const Canary& canary, const Seen& seen) {
    FoundCanary found{canary.name, path_ + "/shared_memory"};
    for (const auto& [number, hits] : seen) {
      if (hits.count == 0) { continue; }
      const auto start = number * gpu_.shared_bytes();
      if (found.count == 0) { found.first = start + hits.first * sizeof(Word); }
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
  // Last, for other kernels would overwrite it: the cache of a multiprocessor lies in the same memory.
  filled.bytes += gpu.on_each(fill_shared, words).size() * gpu.shared_bytes();
  return filled;
}

SearchReport search_gpu(const std::string& address, const std::vector<Canary>& canaries,
                        const SearchLimits& limits) {
  return Search(address, canaries, limits).report();
}

}  // namespace virtrain::canary
