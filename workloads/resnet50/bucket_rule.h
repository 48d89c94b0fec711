#pragma once

#include <cstdint>

namespace virtrain::resnet50 {

/// Which of the gradients, known one after the other, are reduced together: as many as fill a bucket. Nothing
/// hides the last one, so what is left to the end is cut off before: no more than an eighth of a bucket.
class BucketRule {
 public:
  BucketRule(std::int64_t all, std::int64_t bucket) : all_(all), bucket_(bucket), tail_(bucket / 8) {}

  /// Whether those from `sent` on, which are known up to `known`, are to be sent now.
  bool is_complete(std::int64_t sent, std::int64_t known) const {
    return known - sent >= bucket_ || (all_ - sent > tail_ && all_ - known <= tail_);
  }

 private:
  std::int64_t all_, bucket_, tail_;  // elements
};

}  // namespace virtrain::resnet50
