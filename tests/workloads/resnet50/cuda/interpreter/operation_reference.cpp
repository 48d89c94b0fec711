#include "tests/workloads/resnet50/cuda/interpreter/operation_reference.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <vector>

#include "tests/workloads/resnet50/cuda/interpreter/plain_storage.h"
#include "tests/workloads/resnet50/cuda/interpreter/step_interpreter.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

GraphSpec shape(int batch, int in_channels, int out_channels, int in_size, int kernel, int stride) {
  return {GraphKind::convolution,
          Numeric::fp32,
          batch,
          in_channels,
          out_channels,
          in_size,
          kernel,
          stride,
          kernel / 2};
}
std::vector<GraphSpec> shapes() {
  return {shape(3, padded_image_channels, 64, 33, 7, 2),
          shape(7, 64, 256, 15, 1, 1),
          shape(3, 256, 64, 13, 1, 1),
          shape(5, 64, 64, 9, 3, 1),
          shape(3, 128, 128, 15, 3, 2),
          shape(3, 256, 512, 15, 1, 2),
          shape(5, 2048, 10, 1, 1, 1)};
}

bool is_stem(const GraphSpec& s) {
  return s.in_channels == padded_image_channels;
}
bool is_last(const GraphSpec& s) {
  return s.in_size == 1;
}
/// Between two convolutions of a block: what is normalized while it is read, and its gradient.
bool is_inside_block(const GraphSpec& s) {
  return !is_stem(s) && !is_last(s) && (s.kernel == 3 || s.stride == 1);
}

/// Whether the trainer takes this kind of graph at such a shape.
bool is_taken(const GraphSpec& s) {
  switch (s.kind) {
    case GraphKind::convolution:
    case GraphKind::backward_weights:
      return true;
    case GraphKind::backward_data:
      return !is_stem(s);
    case GraphKind::convolution_statistics:
      return !is_stem(s) && !is_last(s);
    case GraphKind::backward_data_add:
    case GraphKind::backward_data_add_mask:
    case GraphKind::backward_data_tail:
    case GraphKind::backward_data_tail_norm:
      return is_inside_block(s) && s.kernel == 1;
    case GraphKind::norm_convolution_statistics:
    case GraphKind::backward_data_norm:
    case GraphKind::norm_backward_weights:
      return is_inside_block(s);
  }
  return false;
}

std::vector<TensorId> inputs_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution:
    case GraphKind::convolution_statistics:
      return {TensorId::x, TensorId::w};
    case GraphKind::norm_convolution_statistics:
      return {TensorId::x, TensorId::w, TensorId::scale, TensorId::shift};
    case GraphKind::backward_data:
      return {TensorId::dy, TensorId::w};
    case GraphKind::backward_data_add:
      return {TensorId::dy, TensorId::w, TensorId::other};
    case GraphKind::backward_data_add_mask:
      return {TensorId::dy, TensorId::w, TensorId::other, TensorId::mask};
    case GraphKind::backward_data_tail:
      return {TensorId::dy,    TensorId::w,    TensorId::other,       TensorId::x,       TensorId::scale,
              TensorId::shift, TensorId::mean, TensorId::inverse_std, TensorId::shortcut};
    case GraphKind::backward_data_tail_norm:
      return {TensorId::dy,
              TensorId::w,
              TensorId::other,
              TensorId::x,
              TensorId::scale,
              TensorId::shift,
              TensorId::mean,
              TensorId::inverse_std,
              TensorId::shortcut,
              TensorId::shortcut_scale,
              TensorId::shortcut_shift,
              TensorId::shortcut_mean,
              TensorId::shortcut_inverse_std};
    case GraphKind::backward_data_norm:
      return {TensorId::dy,    TensorId::w,    TensorId::x,          TensorId::scale,
              TensorId::shift, TensorId::mean, TensorId::inverse_std};
    case GraphKind::backward_weights:
      return {TensorId::dy, TensorId::x};
    case GraphKind::norm_backward_weights:
      return {TensorId::dy, TensorId::x, TensorId::scale, TensorId::shift};
  }
  return {};
}

std::size_t product(std::initializer_list<int> factors) {
  std::size_t result = 1;
  for (const int factor : factors) { result *= static_cast<std::size_t>(factor); }
  return result;
}

/// Of NHWC values, element by element: what `function` makes of the value and its channel.
template <typename Function>
Values by_channel(Values values, std::size_t channels, const Function& function) {
  for (std::size_t i = 0; i < values.size(); ++i) { values[i] = function(values[i], i % channels); }
  return values;
}

/// A norm that a graph computes again: what goes in, its vectors, where its sums go.
struct Norm {
  TensorId x, mean, inverse_std, scale, shift, scale_grad, shift_grad;
};
constexpr Norm main_norm{TensorId::x,     TensorId::mean,       TensorId::inverse_std, TensorId::scale,
                         TensorId::shift, TensorId::scale_grad, TensorId::shift_grad};
constexpr Norm shortcut_norm{
    TensorId::shortcut,           TensorId::shortcut_mean,  TensorId::shortcut_inverse_std,
    TensorId::shortcut_scale,     TensorId::shortcut_shift, TensorId::shortcut_scale_grad,
    TensorId::shortcut_shift_grad};

/// (x - mean) / deviation
Values standardized(const GraphSpec& s, const Operands& in, const Norm& norm) {
  return by_channel(in.at(norm.x), product({s.in_channels}), [&](double x, std::size_t c) {
    return (x - in.at(norm.mean)[c]) * in.at(norm.inverse_std)[c];
  });
}
Values normalized(const GraphSpec& s, const Operands& in, const Norm& norm) {
  return by_channel(standardized(s, in, norm), product({s.in_channels}),
                    [&](double x, std::size_t c) { return x * in.at(norm.scale)[c] + in.at(norm.shift)[c]; });
}
/// What the ReLU was given whose gradient the graph masks.
Values before_relu(const GraphSpec& s, const Operands& in) {
  Values values = normalized(s, in, main_norm);
  if (s.kind == GraphKind::backward_data_norm) { return values; }
  const Values other = s.kind == GraphKind::backward_data_tail_norm ? normalized(s, in, shortcut_norm)
                                                                    : in.at(TensorId::shortcut);
  for (std::size_t i = 0; i < values.size(); ++i) { values[i] += other[i]; }
  return values;
}
Values scaled_and_shifted(const GraphSpec& s, const Operands& in) {
  return by_channel(in.at(TensorId::x), product({s.in_channels}), [&](double x, std::size_t c) {
    return std::max(0.0, in.at(TensorId::scale)[c] * x + in.at(TensorId::shift)[c]);
  });
}

/// Sums by channel of a times b.
Values sums_of(const Values& a, const Values& b, std::size_t channels) {
  Values sums(channels);
  for (std::size_t i = 0; i < a.size(); ++i) { sums[i % channels] += a[i] * b[i]; }
  return sums;
}

Operands forward(const GraphSpec& s, const Values& x, const Operands& in) {
  const Values y = convolve(s, x, in.at(TensorId::w));
  if (s.kind == GraphKind::convolution) { return {{TensorId::y, y}}; }
  const auto channels = product({s.out_channels});
  return {{TensorId::y, y},
          {TensorId::sum, sums_of(y, Values(y.size(), 1), channels)},
          {TensorId::square_sum, sums_of(y, y, channels)}};
}

Values backward_data(const GraphSpec& s, const Operands& in) {
  Values dx = convolve_backward_data(s, in.at(TensorId::dy), in.at(TensorId::w));
  if (s.kind == GraphKind::backward_data || s.kind == GraphKind::backward_data_norm) { return dx; }
  for (std::size_t i = 0; i < dx.size(); ++i) { dx[i] += in.at(TensorId::other)[i]; }
  return dx;
}

Operands backward_norms(const GraphSpec& s, const Operands& in) {
  const auto channels = product({s.in_channels});
  const Values relu = before_relu(s, in);
  Values dz = backward_data(s, in);
  for (std::size_t i = 0; i < dz.size(); ++i) { dz[i] = relu[i] > 0 ? dz[i] : 0; }
  Operands out{{TensorId::dx, dz}};
  std::vector<Norm> norms{main_norm};
  if (s.kind == GraphKind::backward_data_tail_norm) { norms.push_back(shortcut_norm); }
  for (const Norm& norm : norms) {
    out[norm.scale_grad] = sums_of(dz, standardized(s, in, norm), channels);
    out[norm.shift_grad] = sums_of(dz, Values(dz.size(), 1), channels);
  }
  return out;
}

bool recomputes_norm(GraphKind kind) {
  return kind == GraphKind::backward_data_norm || kind == GraphKind::backward_data_tail ||
         kind == GraphKind::backward_data_tail_norm;
}

/// A ReLU near its edge may pass or not by rounding, and one that flips weighs more than all rounding.
void keep_from_the_edge(const GraphSpec& s, Operands& in) {
  const Values relu = before_relu(s, in);
  Values& x = in.at(TensorId::x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (std::abs(relu[i]) < 0.01) { x[i] = rounded_input(s.numeric, x[i] + 0.5); }
  }
}

}  // namespace

std::vector<GraphSpec> operation_graphs(GraphKind kind, Numeric numeric) {
  std::vector<GraphSpec> graphs;
  for (GraphSpec spec : shapes()) {
    spec.kind = kind;
    spec.numeric = numeric;
    if (is_taken(spec)) { graphs.push_back(spec); }
  }
  return graphs;
}

Fusion level_of(GraphKind kind) {
  switch (kind) {
    case GraphKind::convolution:
    case GraphKind::backward_data:
    case GraphKind::backward_weights:
      return Fusion::none;
    case GraphKind::backward_data_add:
    case GraphKind::backward_data_add_mask:
      return Fusion::addition;
    case GraphKind::convolution_statistics:
      return Fusion::statistics;
    case GraphKind::norm_convolution_statistics:
    case GraphKind::backward_data_norm:
    case GraphKind::backward_data_tail:
    case GraphKind::backward_data_tail_norm:
    case GraphKind::norm_backward_weights:
      break;
  }
  return Fusion::full;
}

Numeric type_of(const GraphSpec& spec, TensorId id) {
  switch (id) {
    case TensorId::x:
    case TensorId::w:
    case TensorId::y:
    case TensorId::dx:
    case TensorId::dw:
    case TensorId::dy:
    case TensorId::other:
    case TensorId::shortcut:
      return spec.numeric;
    case TensorId::scale:
    case TensorId::shift:
      return recomputes_norm(spec.kind) ? Numeric::fp32 : spec.numeric;
    default:
      return Numeric::fp32;
  }
}

std::size_t count_of(const GraphSpec& s, TensorId id) {
  switch (id) {
    case TensorId::x:
    case TensorId::dx:
    case TensorId::other:
    case TensorId::shortcut:
    case TensorId::mask:  // as numbers; a bit each where it is stored
      return product({s.batch, s.in_size, s.in_size, s.in_channels});
    case TensorId::y:
    case TensorId::dy:
      return product({s.batch, s.out_size(), s.out_size(), s.out_channels});
    case TensorId::w:
    case TensorId::dw:
      return product({s.out_channels, s.kernel, s.kernel, s.in_channels});
    case TensorId::sum:
    case TensorId::square_sum:
      return product({s.out_channels});
    default:
      return product({s.in_channels});
  }
}

double rounded_input(Numeric numeric, double value) {
  const auto narrow = static_cast<float>(value);
  const auto bits = std::bit_cast<std::uint32_t>(narrow);
  switch (numeric) {
    case Numeric::fp32:
      return narrow;
    case Numeric::tf32:
      return std::bit_cast<float>((bits + 0xfffU + ((bits >> 13) & 1U)) & 0xffffe000U);
    case Numeric::bf16:
      return to_bf16(narrow);
    case Numeric::fp16:
      break;
  }
  return from_fp16(to_fp16(value));
}

Operands random_inputs(const GraphSpec& spec) {
  std::mt19937 generator(1);
  Operands in;
  for (const TensorId id : inputs_of(spec.kind)) {
    // A norm's factors are near one, and its deviation never near zero.
    const bool factor = id == TensorId::scale || id == TensorId::inverse_std ||
                        id == TensorId::shortcut_scale || id == TensorId::shortcut_inverse_std;
    std::normal_distribution<double> normal(factor ? 1 : 0, factor ? 0.1 : 1);
    Values& values = in[id] = Values(count_of(spec, id));
    for (double& value : values) { value = rounded_input(type_of(spec, id), normal(generator)); }
    if (id != TensorId::mask) { continue; }
    for (double& value : values) { value = value > 0 ? 1 : 0; }
  }
  if (is_stem(spec) && in.contains(TensorId::x)) {
    Values& x = in.at(TensorId::x);
    for (std::size_t i = padded_image_channels - 1; i < x.size(); i += padded_image_channels) { x[i] = 0; }
  }
  if (recomputes_norm(spec.kind)) { keep_from_the_edge(spec, in); }
  return in;
}

Operands reference(const GraphSpec& s, const Operands& in) {
  switch (s.kind) {
    case GraphKind::convolution:
    case GraphKind::convolution_statistics:
      return forward(s, in.at(TensorId::x), in);
    case GraphKind::norm_convolution_statistics:
      return forward(s, scaled_and_shifted(s, in), in);
    case GraphKind::backward_data:
    case GraphKind::backward_data_add:
      return {{TensorId::dx, backward_data(s, in)}};
    case GraphKind::backward_data_add_mask: {
      Values dx = backward_data(s, in);
      for (std::size_t i = 0; i < dx.size(); ++i) { dx[i] *= in.at(TensorId::mask)[i]; }
      return {{TensorId::dx, dx}};
    }
    case GraphKind::backward_data_norm:
    case GraphKind::backward_data_tail:
    case GraphKind::backward_data_tail_norm:
      return backward_norms(s, in);
    case GraphKind::backward_weights:
      return {{TensorId::dw, convolve_backward_weights(s, in.at(TensorId::dy), in.at(TensorId::x))}};
    case GraphKind::norm_backward_weights:
      return {{TensorId::dw, convolve_backward_weights(s, in.at(TensorId::dy), scaled_and_shifted(s, in))}};
  }
  return {};
}

double relative_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    difference += (actual.at(i) - expected[i]) * (actual[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  const double error = std::sqrt(difference / size);
  return std::isfinite(error) ? error : HUGE_VAL;
}

double operation_tolerance(Numeric numeric) {
  switch (numeric) {
    case Numeric::fp32:
      return 1e-5;
    case Numeric::bf16:
      return 0x1p-7;
    case Numeric::tf32:
    case Numeric::fp16:
      break;
  }
  return 0x1p-10;
}

}  // namespace virtrain::resnet50::cuda::plain
