#include "workloads/resnet50/model.h"

#include <array>

namespace virtrain::resnet50 {
namespace {

struct Stage {
  int blocks;
  int width;  ///< channels of the 3x3; the block's output has four times as many
  int stride;
};
constexpr std::array<Stage, 4> stages{{{3, 64, 1}, {4, 128, 2}, {6, 256, 2}, {3, 512, 2}}};
constexpr int expansion = 4;

Unit make_unit(std::string convolution, std::string norm, int in, int out, int kernel, int stride, int size,
               bool relu) {
  return {{std::move(convolution), in, out, kernel, stride, kernel / 2, size}, {std::move(norm), out}, relu};
}

Block make_block(const std::string& prefix, int in_channels, int size, int width, int stride) {
  Block block;
  const int out_channels = width * expansion;
  const auto add = [&](int index, int in, int out, int kernel, int unit_stride, int unit_size) {
    const std::string number = std::to_string(index);
    block.units.push_back(make_unit(prefix + ".conv" + number, prefix + ".bn" + number, in, out, kernel,
                                    unit_stride, unit_size, index < 3));
  };
  add(1, in_channels, width, 1, 1, size);
  add(2, width, width, 3, stride, size);
  add(3, width, out_channels, 1, 1, block.units[1].convolution.out_size());
  if (stride != 1 || in_channels != out_channels) {
    block.shortcut = make_unit(prefix + ".downsample.0", prefix + ".downsample.1", in_channels, out_channels,
                               1, stride, size, false);
  }
  return block;
}

}  // namespace

Model build_model(std::int64_t pixels, std::int64_t classes) {
  const int image_size = static_cast<int>(pixels);
  Model model;
  model.image_size = image_size;
  model.classes = static_cast<int>(classes);
  model.stem = make_unit("conv1", "bn1", 3, 64, 7, 2, image_size, true);
  model.pool_size = (model.stem.convolution.out_size() + 2 - 3) / 2 + 1;
  int channels = 64;
  int size = model.pool_size;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (int b = 0; b < stages[s].blocks; ++b) {
      const std::string prefix = "layer" + std::to_string(s + 1) + "." + std::to_string(b);
      const int stride = b == 0 ? stages[s].stride : 1;
      model.blocks.push_back(make_block(prefix, channels, size, stages[s].width, stride));
      channels = stages[s].width * expansion;
      size = model.blocks.back().units.back().convolution.out_size();
    }
  }
  model.features = channels;
  model.final_size = size;
  return model;
}

std::int64_t Parameter::count() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape) { product *= extent; }
  return product;
}

std::vector<const Unit*> units(const Model& model) {
  std::vector<const Unit*> all{&model.stem};
  for (const Block& block : model.blocks) {
    for (const Unit& unit : block.units) { all.push_back(&unit); }
    if (block.shortcut) { all.push_back(&*block.shortcut); }
  }
  return all;
}

std::vector<BatchNorm> norms(const Model& model) {
  std::vector<BatchNorm> all;
  for (const Unit* unit : units(model)) { all.push_back(unit->norm); }
  return all;
}

std::vector<Parameter> parameters(const Model& model) {
  std::vector<Parameter> all;
  for (const Unit* unit : units(model)) {
    const Convolution& convolution = unit->convolution;
    const bool closes = unit->norm.name.ends_with(".bn3");
    all.push_back(
        {convolution.name + ".weight",
         {convolution.out_channels, convolution.in_channels, convolution.kernel, convolution.kernel},
         ParameterKind::convolution,
         false});
    all.push_back({unit->norm.name + ".weight", {unit->norm.channels}, ParameterKind::norm_scale, closes});
    all.push_back({unit->norm.name + ".bias", {unit->norm.channels}, ParameterKind::norm_shift, false});
  }
  all.push_back({"fc.weight", {model.classes, model.features}, ParameterKind::linear_weight, false});
  all.push_back({"fc.bias", {model.classes}, ParameterKind::linear_bias, false});
  return all;
}

std::int64_t parameter_count(const Model& model) {
  std::int64_t sum = 0;
  for (const Parameter& parameter : parameters(model)) { sum += parameter.count(); }
  return sum;
}

}  // namespace virtrain::resnet50
