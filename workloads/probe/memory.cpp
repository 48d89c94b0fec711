#include "workloads/probe/memory.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <vector>

#include "common/error.h"
#include "common/system/time.h"
#include "common/text/units.h"
#include "workloads/common/processor.h"

namespace virtrain::probe {
namespace {

constexpr std::uint64_t page_bytes = 4096;

/// The part of n elements that belongs to this OpenMP thread, the same in every loop.
std::pair<std::uint64_t, std::uint64_t> own_part(std::uint64_t n) {
  const auto threads = static_cast<std::uint64_t>(omp_get_num_threads());
  const auto thread = static_cast<std::uint64_t>(omp_get_thread_num());
  return {n * thread / threads, n * (thread + 1) / threads};
}

void fill(std::span<double> values, double value) {
#pragma omp parallel
  {
    const auto [begin, end] = own_part(values.size());
    std::fill(values.begin() + static_cast<std::ptrdiff_t>(begin),
              values.begin() + static_cast<std::ptrdiff_t>(end), value);
  }
}

/// The best of all times but the first.
double best_seconds(int repetitions, const std::function<void(int)>& work) {
  double best = INFINITY;
  for (int k = 0; k < repetitions; ++k) {
    const std::int64_t start_ns = monotonic_ns();
    work(k);
    const double seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    if (k > 0) { best = std::min(best, seconds); }
  }
  return best;
}

std::uint64_t elements_of(const MemorySetting& setting, int arrays) {
  const std::uint64_t bytes = setting.bytes > 0 ? setting.bytes : least_array_bytes(setting.cache_bytes);
  const std::uint64_t available = available_memory_bytes();
  if (bytes > available / static_cast<std::uint64_t>(arrays)) {
    throw Error("make arrays", ErrorCode::host_unable,
                std::to_string(arrays) + " arrays of " + format_size(bytes) + " do not fit into the " +
                    format_size(available) +
                    " of memory that are free (a smaller --bytes measures the cache, too)");
  }
  return bytes / sizeof(double);
}

Figure figure_of(const std::string& name, const MemorySetting& setting, std::uint64_t elements, int arrays,
                 double seconds) {
  Figure figure;
  figure.name = name;
  figure.data_type = "double";
  figure.size_bytes = elements * sizeof(double);
  figure.seconds = seconds;
  figure.value = static_cast<double>(arrays) * static_cast<double>(*figure.size_bytes) / seconds;
  figure.unit = "B/s";
  figure.detail = {{"threads", omp_get_max_threads()},
                   {"repetitions", setting.repetitions},
                   {"cache_bytes", setting.cache_bytes}};
  return figure;
}

}  // namespace

UntouchedArray::UntouchedArray(std::uint64_t elements) : elements_(elements) {
  const std::uint64_t bytes = (elements * sizeof(double) / page_bytes + 1) * page_bytes;
  data_.reset(static_cast<double*>(std::aligned_alloc(page_bytes, bytes)));
  if (!data_) { throw std::bad_alloc(); }
}

void UntouchedArray::Free::operator()(double* pointer) const {
  std::free(pointer);
}

std::uint64_t least_array_bytes(std::uint64_t cache_bytes) {
  return 4 * cache_bytes;
}

void triad(std::span<double> a, std::span<const double> b, std::span<const double> c, double scalar) {
#pragma omp parallel
  {
    const auto [begin, end] = own_part(a.size());
    double* const __restrict to = a.data();
    const double* const __restrict left = b.data();
    const double* const __restrict right = c.data();
    for (std::uint64_t i = begin; i < end; ++i) { to[i] = left[i] + scalar * right[i]; }
  }
}

void copy(std::span<double> to, std::span<const double> from) {
#pragma omp parallel
  {
    const auto [begin, end] = own_part(to.size());
    std::memcpy(to.data() + begin, from.data() + begin, (end - begin) * sizeof(double));
  }
}

std::int64_t wrong_elements(std::span<const double> values, double expected) {
  constexpr double tolerance = 1e-13;
  return std::count_if(values.begin(), values.end(), [&](double value) {
    return !(std::abs(value - expected) <= tolerance * std::abs(expected));  // NaN is wrong, too
  });
}

Figure measure_triad(const MemorySetting& setting) {
  const std::uint64_t elements = elements_of(setting, 3);
  UntouchedArray a(elements), b(elements), c(elements);
  fill(a.values(), 0);
  fill(b.values(), 2);
  fill(c.values(), 1);
  // Another factor each time: what the last repetition did not write is seen.
  const auto scalar = [](int k) { return 3.0 + k; };
  const double seconds =
      best_seconds(setting.repetitions, [&](int k) { triad(a.values(), b.values(), c.values(), scalar(k)); });
  Figure figure = figure_of("triad", setting, elements, 3, seconds);
  figure.wrong = wrong_elements(a.values(), 2 + scalar(setting.repetitions - 1));
  return figure;
}

Figure measure_copy(const MemorySetting& setting) {
  const std::uint64_t elements = elements_of(setting, 2);
  UntouchedArray from(elements), to(elements);
  fill(from.values(), 7);
  fill(to.values(), 0);
  const double seconds = best_seconds(setting.repetitions, [&](int) { copy(to.values(), from.values()); });
  Figure figure = figure_of("memory_copy", setting, elements, 2, seconds);
  figure.wrong = wrong_elements(to.values(), 7);
  return figure;
}

}  // namespace virtrain::probe
