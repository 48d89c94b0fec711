#pragma once

#include <cstdint>
#include <optional>
#include <vector>

/// How the load of a GPU is cut into pieces. Pure: what they are is known without a GPU.
namespace virtrain::stress {

/// Bytes that one piece copies, of which each counts `times` (2 within one memory: read and written). Without
/// a rate `largest`; with one at most a twentieth of what a second may bring, so that every record "progress"
/// shows the rate, and whole lines of memory, at least one.
std::uint64_t piece_bytes(std::uint64_t largest, int times, std::optional<std::uint64_t> bytes_per_second);

/// So many products as take some milliseconds, of which the wait for the GPU is then a small part; at least
/// one.
int products_in_piece(double seconds_of_one);

/// Goes round a buffer: copies of one small part of it would stay in a cache.
class Ring {
 public:
  struct Part {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
    bool operator==(const Part&) const = default;
  };

  /// A buffer of so many bytes, at least one.
  explicit Ring(std::uint64_t size) : size_(size) {}
  /// Where the next `bytes` lie; round and round for more than the buffer has.
  std::vector<Part> next(std::uint64_t bytes);

 private:
  std::uint64_t size_;
  std::uint64_t offset_ = 0;
};

}  // namespace virtrain::stress
