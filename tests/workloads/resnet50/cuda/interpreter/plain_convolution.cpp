#include "tests/workloads/resnet50/cuda/interpreter/step_interpreter.h"

namespace virtrain::resnet50::cuda::plain {
namespace {

std::size_t as_index(int value) {
  return static_cast<std::size_t>(value);
}

/// Calls visit(output element / channels, input element / channels, tap) for each tap inside the image `n`.
template <typename Visit>
void for_taps(const GraphSpec& s, int n, const Visit& visit) {
  const int out = s.out_size();
  for (int oy = 0; oy < out; ++oy) {
    for (int ox = 0; ox < out; ++ox) {
      for (int tap = 0; tap < s.kernel * s.kernel; ++tap) {
        const int iy = oy * s.stride - s.padding + tap / s.kernel;
        const int ix = ox * s.stride - s.padding + tap % s.kernel;
        if (iy < 0 || iy >= s.in_size || ix < 0 || ix >= s.in_size) { continue; }
        visit(as_index((n * out + oy) * out + ox), as_index((n * s.in_size + iy) * s.in_size + ix),
              as_index(tap));
      }
    }
  }
}

struct Extents {
  std::size_t batch, in, out, taps, in_pixels, out_pixels;
  explicit Extents(const GraphSpec& s)
      : batch(static_cast<std::size_t>(s.batch)),
        in(static_cast<std::size_t>(s.in_channels)),
        out(static_cast<std::size_t>(s.out_channels)),
        taps(as_index(s.kernel * s.kernel)),
        in_pixels(as_index(s.in_size * s.in_size)),
        out_pixels(as_index(s.out_size() * s.out_size())) {}
};

}  // namespace

Values convolve(const GraphSpec& s, const Values& x, const Values& w) {
  const Extents e(s);
  Values y(e.batch * e.out_pixels * e.out);
#pragma omp parallel for
  for (int n = 0; n < s.batch; ++n) {
    for_taps(s, n, [&](std::size_t to, std::size_t from, std::size_t tap) {
      for (std::size_t k = 0; k < e.out; ++k) {
        const double* const weights = &w[(k * e.taps + tap) * e.in];
        double sum = 0;
        for (std::size_t c = 0; c < e.in; ++c) { sum += weights[c] * x[from * e.in + c]; }
        y[to * e.out + k] += sum;
      }
    });
  }
  return y;
}

Values convolve_backward_data(const GraphSpec& s, const Values& dy, const Values& w) {
  const Extents e(s);
  Values dx(e.batch * e.in_pixels * e.in);
#pragma omp parallel for
  for (int n = 0; n < s.batch; ++n) {
    for_taps(s, n, [&](std::size_t to, std::size_t from, std::size_t tap) {
      for (std::size_t k = 0; k < e.out; ++k) {
        const double gradient = dy[to * e.out + k];
        const double* const weights = &w[(k * e.taps + tap) * e.in];
        for (std::size_t c = 0; c < e.in; ++c) { dx[from * e.in + c] += gradient * weights[c]; }
      }
    });
  }
  return dx;
}

Values convolve_backward_weights(const GraphSpec& s, const Values& dy, const Values& x) {
  const Extents e(s);
  Values dw(e.out * e.taps * e.in);
#pragma omp parallel for
  for (int k = 0; k < s.out_channels; ++k) {
    for (int n = 0; n < s.batch; ++n) {
      for_taps(s, n, [&](std::size_t to, std::size_t from, std::size_t tap) {
        const double gradient = dy[to * e.out + static_cast<std::size_t>(k)];
        double* const weights = &dw[(static_cast<std::size_t>(k) * e.taps + tap) * e.in];
        for (std::size_t c = 0; c < e.in; ++c) { weights[c] += gradient * x[from * e.in + c]; }
      });
    }
  }
  return dw;
}

}  // namespace virtrain::resnet50::cuda::plain
