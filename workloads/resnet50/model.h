#pragma once

#include <cstdint>
#include <optional>
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

}  // namespace virtrain::resnet50
