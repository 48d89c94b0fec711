#include <algorithm>
#include <array>
#include <vector>

#include "common/error.h"
#include "common/text/units.h"
#include "workloads/common/affinity.h"
#include "workloads/common/cache.h"
#include "workloads/stress/loads/loads.h"

namespace virtrain::stress {
namespace {

constexpr std::size_t line_bytes = 64;

/// Keeps the compiler from leaving out work whose result nobody reads.
template <typename Value>
void keep(const Value& value) {
  asm volatile("" : : "g"(&value) : "memory");
}

/// Multiply-adds in registers: neither cache nor memory, as much heat as plain C++ makes.
class CpuWorker : public Worker {
 public:
  std::uint64_t work() override {
    constexpr std::uint64_t rounds = 100'000;
    for (std::uint64_t round = 0; round < rounds; ++round) {
      for (float& value : values_) { value = value * 0.9999F + 0.0001F; }
    }
    keep(values_);
    return 2 * rounds * values_.size();
  }

 private:
  std::array<float, 64> values_{};
};

/// Reads and writes one word in lines of the cache in random order, so that others' lines are evicted.
class CacheWorker : public Worker {
 public:
  CacheWorker(std::uint64_t bytes, int index)
      : words_(bytes / sizeof(std::uint64_t)), state_(static_cast<std::uint64_t>(index) * 2 + 1) {}

  std::uint64_t work() override {
    constexpr std::uint64_t accesses = 100'000;
    constexpr std::size_t line_words = line_bytes / sizeof(std::uint64_t);
    const std::uint64_t lines = words_.size() / line_words;
    for (std::uint64_t k = 0; k < accesses; ++k) {
      state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
      ++words_[(state_ >> 33U) % lines * line_words];
    }
    keep(words_);
    return accesses;
  }

 private:
  std::vector<std::uint64_t> words_;
  std::uint64_t state_;
};

/// STREAM's triad, piece by piece through arrays that no cache holds.
class MemoryWorker : public Worker {
 public:
  explicit MemoryWorker(std::uint64_t bytes)
      : a_(bytes / 3 / sizeof(double), 0), b_(a_.size(), 1), c_(a_.size(), 2) {}

  std::uint64_t work() override {
    constexpr std::size_t piece = 1U << 16;
    const std::size_t end = std::min(next_ + piece, a_.size());
    for (std::size_t i = next_; i < end; ++i) { a_[i] = b_[i] + 3.0 * c_[i]; }
    keep(a_);
    const std::uint64_t done = 3 * sizeof(double) * (end - next_);
    next_ = end == a_.size() ? 0 : end;
    return done;
  }

 private:
  std::vector<double> a_;
  std::vector<double> b_;
  std::vector<double> c_;
  std::size_t next_ = 0;
};

class ComputeLoad : public Load {
 public:
  ComputeLoad(const Flags& flags, int threads) : kind_(flags.kind), threads_(threads) {
    const std::uint64_t cache = last_level_cache_bytes(allowed_cpus());
    const std::uint64_t total = flags.bytes > 0 ? flags.bytes : (kind_ == Kind::membw ? 4 * cache : cache);
    if (kind_ != Kind::cpu && total > available_memory_bytes()) {
      throw Error("make the working set", ErrorCode::host_unable,
                  format_size(total) + " do not fit into the " + format_size(available_memory_bytes()) +
                      " of memory that are free (say a smaller --bytes)");
    }
    bytes_each_ = std::max<std::uint64_t>(total / static_cast<std::uint64_t>(threads), 1U << 16);
  }

  const char* unit() const override {
    if (kind_ == Kind::cpu) { return "operations"; }
    return kind_ == Kind::llc ? "accesses" : "B";
  }
  int threads() const override { return threads_; }

  std::unique_ptr<Worker> make_worker(int index) override {
    if (kind_ == Kind::cpu) { return std::make_unique<CpuWorker>(); }
    if (kind_ == Kind::llc) { return std::make_unique<CacheWorker>(bytes_each_, index); }
    return std::make_unique<MemoryWorker>(bytes_each_);
  }

 private:
  Kind kind_;
  int threads_;
  std::uint64_t bytes_each_ = 0;
};

}  // namespace

std::unique_ptr<Load> make_compute_load(const Flags& flags, int threads) {
  return std::make_unique<ComputeLoad>(flags, threads);
}

}  // namespace virtrain::stress
