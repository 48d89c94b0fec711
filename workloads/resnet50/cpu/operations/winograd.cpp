#include "workloads/resnet50/cpu/operations/winograd.h"

#include <algorithm>

namespace virtrain::resnet50::cpu {
namespace {

using tag = dnnl::memory::format_tag;
using dims = dnnl::memory::dims;

/// Spread inputs and products of the tiles that are worked on together: they go through the last-level cache.
constexpr std::size_t bytes_at_once = 6UL << 20;
constexpr int fewest_tiles_at_once = 192;
/// With fewer, spreading the weights costs more than the multiplications save.
constexpr int fewest_tiles = 32;

/// For tensors in blocks of this processor's vectors; null for others.
const WinogradKernelSet* kernels_for(const Layout& source, const Layout& destination, const Layout& master) {
#if defined(__x86_64__)
  const auto are = [&](tag activation, tag weights) {
    const auto is = [](const Layout& layout, tag wanted) {
      return layout == Layout(onednn::dims_of(layout), dnnl::memory::data_type::f32, wanted);
    };
    return is(source, activation) && is(destination, activation) && is(master, weights);
  };
  if (onednn::may_use(dnnl_cpu_isa_avx512_core) && are(tag::nChw16c, tag::OIhw16i16o)) {
    return &winograd_avx512;
  }
  if (onednn::may_use(dnnl_cpu_isa_avx2) && are(tag::nChw8c, tag::OIhw8i8o)) { return &winograd_avx2; }
#endif
  return nullptr;
}

float* floats(const Tensor& tensor) {
  return static_cast<float*>(tensor.get_data_handle());
}

int rounded_up(int value, int unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

std::optional<WinogradConvolution> WinogradConvolution::make(Device& device, const ConvolutionShape& shape,
                                                             const Layout& source, const Layout& destination,
                                                             const Layout& master) {
  const WinogradKernelSet* const kernels = kernels_for(source, destination, master);
  return kernels == nullptr ? std::nullopt : make(device, shape, *kernels);
}

std::optional<WinogradConvolution> WinogradConvolution::make(Device& device, const ConvolutionShape& shape,
                                                             const WinogradKernelSet& kernels) {
  if (shape.kernel != 3 || shape.stride != 1 || shape.padding != 1) { return std::nullopt; }
  const int panel = kernels[0].panel;
  if (shape.in_channels % panel != 0 || shape.out_channels % panel != 0) { return std::nullopt; }
  const WinogradConvolution four(device, shape, kernels[0]);
  const WinogradConvolution two(device, shape, kernels[1]);
  const WinogradConvolution& best = two.multiplications() < four.multiplications() ? two : four;
  const std::int64_t direct = 9LL * shape.batch * shape.in_size * shape.in_size;
  if (best.tiles_ < fewest_tiles || 10 * best.multiplications() > 6 * direct) { return std::nullopt; }
  return best;
}

WinogradConvolution::WinogradConvolution(Device& device, const ConvolutionShape& shape,
                                         const WinogradKernels& kernels)
    : device_(&device),
      shape_(shape),
      kernels_(&kernels),
      side_((shape.in_size + kernels.tile - 1) / kernels.tile),
      tiles_(shape.batch * side_ * side_) {}

Rows<float> WinogradConvolution::Matrices::product(int index) const {
  return {data + static_cast<std::size_t>(index) * stride, static_cast<std::size_t>(channels)};
}

WinogradConvolution::Matrices WinogradConvolution::matrices(Scratch slot, int rows, int channels) const {
  // Five lines more than a power of two: the 36 places of a value would else share a set of each cache.
  const std::size_t stride = static_cast<std::size_t>(rows) * channels + 80;
  const Layout layout = vector_layout(static_cast<std::int64_t>(stride * kernels_->products));
  return {floats(device_->scratch(slot, layout)), stride, channels};
}

TilePlace WinogradConvolution::place(int tile) const {
  const int in_image = tile % (side_ * side_);
  return {in_image / side_ * kernels_->tile, in_image % side_ * kernels_->tile, shape_.in_size};
}

const float* WinogradConvolution::plane(const float* tensor, int channels, int tile,
                                        std::ptrdiff_t block) const {
  const int image = tile / (side_ * side_);
  const std::ptrdiff_t lanes = kernels_->lanes, blocks = channels / lanes;
  return tensor + (image * blocks + block) * shape_.in_size * shape_.in_size * lanes;
}

int WinogradConvolution::tiles_at_once(int channels) const {
  const auto fit = bytes_at_once / (sizeof(float) * kernels_->products * static_cast<std::size_t>(channels));
  const int wanted = std::max(static_cast<int>(fit), fewest_tiles_at_once);
  const int rounds = (tiles_ + wanted - 1) / wanted;
  return rounded_up((tiles_ + rounds - 1) / rounds, kernels_->rows);
}

WinogradConvolution::Matrices WinogradConvolution::spread_weights(const Tensor& master, bool backward) const {
  const std::ptrdiff_t lanes = kernels_->lanes, panel = kernels_->panel;
  const std::ptrdiff_t in_blocks = shape_.in_channels / lanes, out_blocks = shape_.out_channels / lanes;
  const int depth = backward ? shape_.out_channels : shape_.in_channels;
  const Matrices out = matrices(Scratch::winograd_weights, shape_.in_channels, shape_.out_channels);
  const float* const weights = floats(master);
#pragma omp parallel for collapse(2) schedule(static)
  for (std::ptrdiff_t o = 0; o < out_blocks; ++o) {
    for (std::ptrdiff_t i = 0; i < in_blocks; ++i) {
      const float* const block = weights + (o * in_blocks + i) * 9 * lanes * lanes;
      const std::ptrdiff_t column = (backward ? i : o) * lanes, row = (backward ? o : i) * lanes;
      const std::ptrdiff_t at = (column / panel * depth + row) * panel + column % panel;
      kernels_->spread_weights(block, backward, out.data + at, out.stride);
    }
  }
  return out;
}

void WinogradConvolution::spread(Spread kernel, const float* tensor, Tiles tiles, const Matrices& out) const {
  const std::ptrdiff_t lanes = kernels_->lanes;
#pragma omp parallel for schedule(static)
  for (int t = 0; t < tiles.count; ++t) {
    float* const row = out.data + static_cast<std::size_t>(t) * out.channels;
    for (std::ptrdiff_t block = 0; block < out.channels / lanes; ++block) {
      const int tile = tiles.first + t;
      kernel(plane(tensor, out.channels, tile, block), place(tile), row + block * lanes, out.stride);
    }
  }
}

void WinogradConvolution::gather(const Matrices& in, Tiles tiles, float* tensor) const {
  const std::ptrdiff_t lanes = kernels_->lanes;
#pragma omp parallel for schedule(static)
  for (int t = 0; t < tiles.count; ++t) {
    const float* const row = in.data + static_cast<std::size_t>(t) * in.channels;
    for (std::ptrdiff_t block = 0; block < in.channels / lanes; ++block) {
      const int tile = tiles.first + t;
      auto* const out = const_cast<float*>(plane(tensor, in.channels, tile, block));
      kernels_->gather_output(row + block * lanes, in.stride, place(tile), out);
    }
  }
}

void WinogradConvolution::convolve(const Tensor& from, int from_channels, const Tensor& master, bool backward,
                                   const Tensor& to, int to_channels) const {
  const Matrices weights = spread_weights(master, backward);
  const int at_once = tiles_at_once(from_channels + to_channels);
  const Matrices inputs = matrices(Scratch::winograd_from, at_once, from_channels);
  const Matrices products = matrices(Scratch::winograd_to, at_once, to_channels);
  const std::ptrdiff_t panel = kernels_->panel, panels = to_channels / panel;
  for (int first = 0; first < tiles_; first += at_once) {
    const Tiles tiles{first, std::min(at_once, tiles_ - first)};
    const int rows =
        rounded_up(tiles.count, kernels_->rows);  // what lies behind the last tile is not read again
    spread(kernels_->spread_input, floats(from), tiles, inputs);
#pragma omp parallel for collapse(2) schedule(static)
    for (int i = 0; i < kernels_->products; ++i) {
      for (std::ptrdiff_t p = 0; p < panels; ++p) {
        const Rows<float> a = inputs.product(i), out = products.product(i);
        const float* const b = weights.product(i).data + p * from_channels * panel;
        kernels_->multiply({a.data, a.stride}, rows, from_channels, b, {out.data + p * panel, out.stride});
      }
    }
    gather(products, tiles, floats(to));
  }
}

void WinogradConvolution::forward(const Tensor& source, const Tensor& master,
                                  const Tensor& destination) const {
  convolve(source, shape_.in_channels, master, false, destination, shape_.out_channels);
}

void WinogradConvolution::backward_data(const Tensor& destination_gradient, const Tensor& master,
                                        const Tensor& source_gradient) const {
  convolve(destination_gradient, shape_.out_channels, master, true, source_gradient, shape_.in_channels);
}

void WinogradConvolution::backward_weights(const Tensor& source, const Tensor& destination_gradient,
                                           const Tensor& master_gradient) const {
  const int in = shape_.in_channels, out = shape_.out_channels;
  const int at_once = tiles_at_once(in + out);
  const Matrices inputs = matrices(Scratch::winograd_from, at_once, in);
  const Matrices gradients = matrices(Scratch::winograd_to, at_once, out);
  const Matrices products = matrices(Scratch::winograd_weights, in, out);
  const std::ptrdiff_t panel = kernels_->panel, panels = out / panel;
  for (int first = 0; first < tiles_; first += at_once) {
    const Tiles tiles{first, std::min(at_once, tiles_ - first)};
    spread(kernels_->spread_input, floats(source), tiles, inputs);
    spread(kernels_->spread_gradient, floats(destination_gradient), tiles, gradients);
#pragma omp parallel for collapse(2) schedule(static)
    for (int i = 0; i < kernels_->products; ++i) {
      for (std::ptrdiff_t p = 0; p < panels; ++p) {
        const Rows<float> a = inputs.product(i), b = gradients.product(i), sum = products.product(i);
        kernels_->multiply_transposed({a.data, a.stride}, in, tiles.count, {b.data + p * panel, b.stride},
                                      first > 0, {sum.data + p * panel, sum.stride});
      }
    }
  }
  gather_weights(products, floats(master_gradient));
}

void WinogradConvolution::gather_weights(const Matrices& in, float* gradient) const {
  const std::ptrdiff_t lanes = kernels_->lanes;
  const std::ptrdiff_t in_blocks = shape_.in_channels / lanes, out_blocks = shape_.out_channels / lanes;
#pragma omp parallel for collapse(2) schedule(static)
  for (std::ptrdiff_t o = 0; o < out_blocks; ++o) {
    for (std::ptrdiff_t i = 0; i < in_blocks; ++i) {
      const float* const from = in.data + i * lanes * in.channels + o * lanes;
      float* const block = gradient + (o * in_blocks + i) * 9 * lanes * lanes;
      kernels_->gather_weights({from, static_cast<std::size_t>(in.channels)}, in.stride, block);
    }
  }
}

}  // namespace virtrain::resnet50::cpu
