#include "workloads/stress/gpu/gpu_piece.h"

#include <algorithm>

namespace virtrain::stress {

std::uint64_t piece_bytes(std::uint64_t largest, int times, std::optional<std::uint64_t> bytes_per_second) {
  if (!bytes_per_second) { return largest; }
  constexpr std::uint64_t line = 128;
  constexpr std::uint64_t pieces_a_second = 20;
  const std::uint64_t lines = *bytes_per_second / pieces_a_second / static_cast<std::uint64_t>(times) / line;
  return std::min(largest, std::max<std::uint64_t>(lines, 1) * line);
}

int products_in_piece(double seconds_of_one) {
  constexpr double seconds_of_a_piece = 5e-3;
  constexpr double most = 4096;
  return static_cast<int>(std::clamp(seconds_of_a_piece / seconds_of_one, 1.0, most));
}

std::vector<Ring::Part> Ring::next(std::uint64_t bytes) {
  std::vector<Part> parts;
  while (bytes > 0) {
    const std::uint64_t part = std::min(bytes, size_ - offset_);
    parts.push_back({offset_, part});
    offset_ = (offset_ + part) % size_;
    bytes -= part;
  }
  return parts;
}

}  // namespace virtrain::stress
