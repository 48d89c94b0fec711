#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace virtrain::resnet50::cuda {

/// A range of gradients that travels at once, complete when slice `last` is.
struct Bucket {
  std::int64_t first = 0;  ///< element
  std::int64_t count = 0;
  std::size_t last = 0;  ///< index of the slice that completes it

  auto operator<=>(const Bucket&) const = default;  // NOLINT(modernize-use-nullptr)
};

/// Divides a block of gradients into buckets by the rule of bucket_rule.h; the last one takes what remains.
/// `ends`: the element behind each slice, padding included, in the order in which they become complete.
std::vector<Bucket> plan_buckets(std::span<const std::int64_t> ends, std::int64_t bucket_elements);

}  // namespace virtrain::resnet50::cuda
