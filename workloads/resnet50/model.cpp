#include "workloads/resnet50/model.h"

#include <array>
#include <bit>
#include <cmath>
#include <numbers>

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

namespace {

/// SplitMix64 of a counter: any element can be drawn alone, with integers only (floats are emulated under
/// TCG).
std::uint64_t mix(std::uint64_t counter) {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

std::uint64_t stream_start(std::uint64_t seed, std::uint64_t stream) {
  return mix(mix(seed) + stream) << 8;
}

constexpr std::size_t table_bits = 12;
constexpr std::size_t table_size = std::size_t{1} << table_bits;

/// Quantiles of the standard normal at (i + 1/2) / table_size: a draw is one look-up. Newton's method from
/// the previous quantile outwards; the distribution function is concave there, so it converges from below.
std::array<double, table_size> normal_quantiles() {
  std::array<double, table_size> table{};
  double x = 0;
  for (std::size_t i = table_size / 2; i < table_size; ++i) {
    const double upper_tail = 1 - (static_cast<double>(i) + 0.5) / table_size;
    for (int iteration = 0; iteration < 8; ++iteration) {
      const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
      x += (std::erfc(x / std::numbers::sqrt2) / 2 - upper_tail) / density;
    }
    table[i] = x;
    table[table_size - 1 - i] = -x;
  }
  return table;
}

std::array<float, table_size> scaled_normal(double deviation) {
  static const std::array<double, table_size> quantiles = normal_quantiles();
  std::array<float, table_size> table{};
  for (std::size_t i = 0; i < table_size; ++i) { table[i] = static_cast<float>(quantiles[i] * deviation); }
  return table;
}

std::array<float, table_size> uniform(double bound) {
  std::array<float, table_size> table{};
  for (std::size_t i = 0; i < table_size; ++i) {
    table[i] = static_cast<float>(((static_cast<double>(i) + 0.5) / table_size * 2 - 1) * bound);
  }
  return table;
}

void fill(std::span<float> values, const std::array<float, table_size>& table, std::uint64_t start) {
  constexpr std::size_t draws_per_word = 64 / table_bits;
  for (std::size_t i = 0; i < values.size(); i += draws_per_word) {
    std::uint64_t word = mix(start + i / draws_per_word);
    for (std::size_t j = i; j < std::min(i + draws_per_word, values.size()); ++j) {
      values[j] = table[word % table_size];
      word >>= table_bits;
    }
  }
}

}  // namespace

std::vector<float> initial_value(const Parameter& parameter, std::size_t index, std::uint64_t seed,
                                 double residual_gamma) {
  std::vector<float> values(static_cast<std::size_t>(parameter.count()));
  switch (parameter.kind) {
    case ParameterKind::convolution: {
      const auto fan_out = static_cast<double>(parameter.shape[0] * parameter.shape[2] * parameter.shape[3]);
      fill(values, scaled_normal(std::sqrt(2 / fan_out)), stream_start(seed, index));
      break;
    }
    case ParameterKind::linear_weight:
      fill(values, uniform(1 / std::sqrt(static_cast<double>(parameter.shape[1]))),
           stream_start(seed, index));
      break;
    case ParameterKind::linear_bias:
      fill(values, uniform(1 / std::sqrt(2048.0)), stream_start(seed, index));
      break;
    case ParameterKind::norm_scale:
      std::fill(values.begin(), values.end(),
                parameter.closes_residual ? static_cast<float>(residual_gamma) : 1.0F);
      break;
    case ParameterKind::norm_shift:
      break;
  }
  return values;
}

Batch synthetic_batch(const Model& model, std::int64_t batch_size, std::uint64_t shard, std::uint64_t seed) {
  constexpr std::uint64_t first_data_stream = 1U << 20;  // parameters have the streams below it
  Batch batch;
  const std::size_t pixels =
      static_cast<std::size_t>(3) * static_cast<std::size_t>(model.image_size * model.image_size);
  batch.images.resize(static_cast<std::size_t>(batch_size) * pixels);
  fill(batch.images, scaled_normal(1), stream_start(seed, first_data_stream + 2 * shard));
  const std::uint64_t start = stream_start(seed, first_data_stream + 2 * shard + 1);
  for (std::int64_t i = 0; i < batch_size; ++i) {
    batch.labels.push_back(static_cast<std::int64_t>(mix(start + static_cast<std::uint64_t>(i)) %
                                                     static_cast<std::uint64_t>(model.classes)));
  }
  return batch;
}

void ParameterHash::add(std::span<const float> values) {
  const auto absorb = [this](std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9e3779b97f4a7c15ULL;
    state_ ^= state_ >> 29;
  };
  std::size_t i = 0;
  for (; i + 1 < values.size(); i += 2) {
    absorb(std::bit_cast<std::uint32_t>(values[i]) |
           std::uint64_t{std::bit_cast<std::uint32_t>(values[i + 1])} << 32);
  }
  if (i < values.size()) { absorb(std::bit_cast<std::uint32_t>(values[i])); }
}

}  // namespace virtrain::resnet50
