#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "workloads/probe/figure.h"

namespace virtrain::probe {

/// Memory that no thread has touched yet: each page comes from the NUMA node of the thread that writes it
/// first.
class UntouchedArray {
 public:
  explicit UntouchedArray(std::uint64_t elements);
  std::span<double> values() { return {data_.get(), elements_}; }

 private:
  struct Free {
    void operator()(double* pointer) const;
  };
  std::unique_ptr<double, Free> data_;
  std::uint64_t elements_;
};

struct MemorySetting {
  std::uint64_t bytes = 0;  ///< of one array; 0: least_array_bytes(cache_bytes)
  std::uint64_t cache_bytes = 0;
  int repetitions = 10;
};

/// STREAM's rule: an array at least four times as large as all last-level caches together.
std::uint64_t least_array_bytes(std::uint64_t cache_bytes);

/// a = b + scalar c over all OpenMP threads, each element touched first by the thread that works on it.
void triad(std::span<double> a, std::span<const double> b, std::span<const double> c, double scalar);
/// to = from, likewise; memcpy's own way of storing.
void copy(std::span<double> to, std::span<const double> from);
/// Elements that differ from `expected` by more than STREAM allows (1e-13 of it).
std::int64_t wrong_elements(std::span<const double> values, double expected);

/// STREAM's triad: 3 arrays x 8 bytes an element, the best time of all repetitions but the first
/// (McCalpin, stream.c). Throws Error(host_unable) if the arrays do not fit into memory.
Figure measure_triad(const MemorySetting& setting);
/// A copy counts what is read and what is written. Throws likewise.
Figure measure_copy(const MemorySetting& setting);

}  // namespace virtrain::probe
