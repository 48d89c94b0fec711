#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "workloads/resnet50/model.h"

namespace virtrain::resnet50 {

/// Initial value of a parameter as torchvision makes it: convolutions Kaiming normal over the fan-out, the
/// last layer uniform in +-1/sqrt(features), scales 1 (residual_gamma for a block's last), shifts 0. Plain
/// layout. The same seed gives the same bits on every machine and with every number of threads.
std::vector<float> initial_value(const Parameter& parameter, std::size_t index, std::uint64_t seed,
                                 double residual_gamma);

/// The synthetic data of one shard: images (NCHW, standard normal) and uniform labels. Shard k of a job is
/// the k-th micro-batch over all ranks, so that N ranks and one rank that accumulates N times see the same
/// data.
struct Batch {
  std::vector<float> images;
  std::vector<std::int64_t> labels;
};
Batch synthetic_batch(const Model& model, std::int64_t batch_size, std::uint64_t shard, std::uint64_t seed);

/// Running 64-bit hash over floats' bits, eight bytes at a time; equal bits in equal order give equal hashes.
class ParameterHash {
 public:
  void add(std::span<const float> values);
  std::uint64_t value() const { return state_; }

 private:
  std::uint64_t state_ = 0xcbf29ce484222325ULL;
};

}  // namespace virtrain::resnet50
