#pragma once

#include "workloads/resnet50/cpu/communicator.h"

#include <cstddef>
#include <span>

namespace virtrain::resnet50::cpu {

/// Sums gradients over the ranks in buckets, while the backward pass still computes the rest.
class GradientReducer {
 public:
  GradientReducer(Communicator& communicator, std::span<float> values, std::size_t bucket_elements)
      : communicator_(communicator), values_(values), bucket_elements_(bucket_elements) {}

  /// The first `count` values are final: starts what makes full buckets and drives what is under way.
  void ready(std::size_t count);
  /// Starts the rest, waits for all; seconds of this call are what the backward pass did not hide.
  double finish();

 private:
  Communicator& communicator_;
  std::span<float> values_;
  std::size_t bucket_elements_;
  std::size_t started_ = 0;
};

}  // namespace virtrain::resnet50::cpu
