#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "workloads/common/peers/peers.h"
#include "workloads/resnet50/bucket_rule.h"

namespace virtrain::resnet50::cpu {

/// Sums gradients over the ranks in buckets, while the backward pass still computes the rest.
class GradientReducer {
 public:
  GradientReducer(Peers& peers, std::span<float> values, std::size_t bucket_elements)
      : peers_(peers),
        values_(values),
        rule_(static_cast<std::int64_t>(values.size()), static_cast<std::int64_t>(bucket_elements)) {}

  /// The first `count` values are final: starts what makes a bucket and drives what is under way.
  void ready(std::size_t count);
  /// Starts the rest, waits for all; seconds of this call are what the backward pass did not hide.
  double finish();

  /// When a bucket was under way. MPI works, and says that it is done, only when it is called.
  struct Bucket {
    std::int64_t begin_ns = 0;
    std::int64_t end_ns = 0;
  };
  const std::vector<Bucket>& buckets() const { return buckets_; }

 private:
  void start(std::size_t count);
  void note_done();

  Peers& peers_;
  std::span<float> values_;
  BucketRule rule_;
  std::size_t started_ = 0;
  std::vector<Bucket> buckets_;
  std::size_t done_ = 0;  ///< the buckets before this one are done
};

}  // namespace virtrain::resnet50::cpu
