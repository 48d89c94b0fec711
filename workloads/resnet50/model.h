#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

/// ResNet-50 v1.5 as data: what every backend builds, with torchvision's names. No library of any backend
/// here.

namespace virtrain::resnet50 {

struct Convolution {
  std::string name;  ///< "layer1.0.conv1"
  int in_channels = 0;
  int out_channels = 0;
  int kernel = 1;  ///< square
  int stride = 1;
  int padding = 0;
  int in_size = 0;  ///< height and width of its input

  int out_size() const { return (in_size + 2 * padding - kernel) / stride + 1; }
};

struct BatchNorm {
  std::string name;  ///< "layer1.0.bn1"
  int channels = 0;
};

/// A convolution, its batch normalization, and a ReLU where `relu` says so.
struct Unit {
  Convolution convolution;
  BatchNorm norm;
  bool relu = true;
};

/// out = relu(units[2](units[1](units[0](in))) + (shortcut ? shortcut(in) : in))
struct Block {
  std::vector<Unit> units;  ///< 1x1, 3x3 (carries the stride: that is the ".5" of v1.5), 1x1
  std::optional<Unit> shortcut;
};

struct Model {
  int image_size = 224;
  int classes = 1000;
  Unit stem;                  ///< 7x7, stride 2
  int pool_size = 0;          ///< height and width after the 3x3, stride 2, padding 1 max-pool
  std::vector<Block> blocks;  ///< 16
  int features = 2048;        ///< inputs of the last layer, after the average pool
  int final_size = 0;         ///< height and width before the average pool
};

inline constexpr double norm_epsilon = 1e-5;
inline constexpr double norm_momentum = 0.1;  ///< in torch's sense: new = 0.9 old + 0.1 batch
inline constexpr double sgd_momentum = 0.9;
inline constexpr double weight_decay = 1e-4;  ///< on every parameter, as torch.optim.SGD does

Model build_model(std::int64_t image_size, std::int64_t classes);

enum class ParameterKind { convolution, norm_scale, norm_shift, linear_weight, linear_bias };

struct Parameter {
  std::string name;  ///< in torchvision's state_dict: "layer1.0.bn3.weight"
  std::vector<std::int64_t> shape;
  ParameterKind kind = ParameterKind::convolution;
  bool closes_residual = false;  ///< of the last norm of a block: where --residual_gamma applies

  std::int64_t count() const;
};

/// All parameters in the model's order, the order of the forward pass and of state_dict.
std::vector<Parameter> parameters(const Model& model);
std::int64_t parameter_count(const Model& model);

/// All normalizations in the model's order (their buffers are running_mean and running_var).
std::vector<BatchNorm> norms(const Model& model);

/// All units in the model's order: in a block its three, then its shortcut.
std::vector<const Unit*> units(const Model& model);

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
