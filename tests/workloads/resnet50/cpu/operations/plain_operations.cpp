#include "tests/workloads/resnet50/cpu/operations/plain_operations.h"

#include <cmath>

namespace virtrain::resnet50::plain {
namespace {

/// Calls visit(n, out y, out x, in y, in x, kernel y, kernel x) for every tap that lies inside the input.
template <typename Visit>
void for_taps(int batch, int in_size, int out_size, int kernel, int stride, int padding, const Visit& visit) {
  for (int n = 0; n < batch; ++n) {
    for (int oy = 0; oy < out_size; ++oy) {
      for (int ox = 0; ox < out_size; ++ox) {
        for (int ky = 0; ky < kernel; ++ky) {
          for (int kx = 0; kx < kernel; ++kx) {
            const int iy = oy * stride - padding + ky;
            const int ix = ox * stride - padding + kx;
            if (iy >= 0 && iy < in_size && ix >= 0 && ix < in_size) { visit(n, oy, ox, iy, ix, ky, kx); }
          }
        }
      }
    }
  }
}

}  // namespace

ConvolutionResult convolution(const cpu::ConvolutionShape& s, const Values& source, const Values& weights,
                              const Values& out_gradient) {
  const int out_size = (s.in_size + 2 * s.padding - s.kernel) / s.stride + 1;
  const Extents in{s.batch, s.in_channels, s.in_size};
  const Extents out{s.batch, s.out_channels, out_size};
  const Extents filter{s.out_channels, s.in_channels, s.kernel};
  ConvolutionResult result{Values(out.count()), Values(in.count()), Values(filter.count())};
  for_taps(s.batch, s.in_size, out_size, s.kernel, s.stride, s.padding,
           [&](int n, int oy, int ox, int iy, int ix, int ky, int kx) {
             for (int o = 0; o < s.out_channels; ++o) {
               for (int i = 0; i < s.in_channels; ++i) {
                 const std::size_t to = out.at(n, o, oy, ox);
                 const std::size_t from = in.at(n, i, iy, ix);
                 const std::size_t tap = filter.at(o, i, ky, kx);
                 result.out[to] += weights[tap] * source[from];
                 result.source_gradient[from] += weights[tap] * out_gradient[to];
                 result.weights_gradient[tap] += source[from] * out_gradient[to];
               }
             }
           });
  return result;
}

BatchNormResult batch_norm(const Extents& e, bool relu, const Values& source, const Values& scale,
                           const Values& shift, const Values& out_gradient) {
  const auto channels = static_cast<std::size_t>(e.channels);
  BatchNormResult result{Values(e.count()), Values(e.count()), Values(channels),
                         Values(channels),  Values(channels),  Values(channels)};
  const double count = e.batch * e.size * e.size;
  for (int c = 0; c < e.channels; ++c) {
    const auto channel = static_cast<std::size_t>(c);
    std::vector<std::size_t> members;
    for (int n = 0; n < e.batch; ++n) {
      for (int i = 0; i < e.size * e.size; ++i) {
        members.push_back(e.at(n, c, 0, 0) + static_cast<std::size_t>(i));
      }
    }
    double mean = 0;
    double variance = 0;
    for (const std::size_t m : members) { mean += source[m] / count; }
    for (const std::size_t m : members) { variance += (source[m] - mean) * (source[m] - mean) / count; }
    const double inverse = 1 / std::sqrt(variance + 1e-5);
    double gradient_sum = 0;
    double product_sum = 0;
    Values gradient(members.size());
    for (std::size_t k = 0; k < members.size(); ++k) {
      const double normal = (source[members[k]] - mean) * inverse;
      const double out = normal * scale[channel] + shift[channel];
      const bool passes = !relu || out > 0;
      result.out[members[k]] = passes ? out : 0;
      gradient[k] = passes ? out_gradient[members[k]] : 0;
      gradient_sum += gradient[k];
      product_sum += gradient[k] * normal;
    }
    for (std::size_t k = 0; k < members.size(); ++k) {
      const double normal = (source[members[k]] - mean) * inverse;
      result.source_gradient[members[k]] =
          scale[channel] * inverse * (gradient[k] - gradient_sum / count - normal * product_sum / count);
    }
    result.scale_gradient[channel] = product_sum;
    result.shift_gradient[channel] = gradient_sum;
    result.mean[channel] = mean;
    result.unbiased_variance[channel] = variance * count / (count - 1);
  }
  return result;
}

PoolResult pool(cpu::PoolOperation::Kind kind, const Extents& in, int out_size, int kernel, int stride,
                int padding, const Values& source, const Values& out_gradient) {
  const Extents out{in.batch, in.channels, out_size};
  const bool maximum = kind == cpu::PoolOperation::Kind::maximum;
  PoolResult result{Values(out.count(), maximum ? -1e300 : 0), Values(in.count())};
  std::vector<std::size_t> winners(out.count());
  const double area = kernel * kernel;
  for_taps(in.batch, in.size, out_size, kernel, stride, padding,
           [&](int n, int oy, int ox, int iy, int ix, int, int) {
             for (int c = 0; c < in.channels; ++c) {
               const std::size_t to = out.at(n, c, oy, ox);
               const std::size_t from = in.at(n, c, iy, ix);
               if (!maximum) {
                 result.out[to] += source[from] / area;
                 result.source_gradient[from] += out_gradient[to] / area;
               } else if (source[from] > result.out[to]) {
                 result.out[to] = source[from];
                 winners[to] = from;
               }
             }
           });
  if (maximum) {
    for (std::size_t to = 0; to < out.count(); ++to) {
      result.source_gradient[winners[to]] += out_gradient[to];
    }
  }
  return result;
}

LinearResult linear(int batch, int inputs, int outputs, const Values& source, const Values& weights,
                    const Values& bias, const Values& out_gradient) {
  const auto width = static_cast<std::size_t>(inputs);
  const auto height = static_cast<std::size_t>(outputs);
  const auto rows = static_cast<std::size_t>(batch);
  LinearResult result{Values(rows * height), Values(rows * width), Values(height * width), Values(height)};
  for (std::size_t n = 0; n < rows; ++n) {
    for (std::size_t o = 0; o < height; ++o) {
      const double gradient = out_gradient[n * height + o];
      result.out[n * height + o] = bias[o];
      result.bias_gradient[o] += gradient;
      for (std::size_t i = 0; i < width; ++i) {
        result.out[n * height + o] += weights[o * width + i] * source[n * width + i];
        result.source_gradient[n * width + i] += weights[o * width + i] * gradient;
        result.weights_gradient[o * width + i] += source[n * width + i] * gradient;
      }
    }
  }
  return result;
}

double distance(const Values& a, const Values& b) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace virtrain::resnet50::plain
