#include "workloads/resnet50/cpu/operations/weights_gradient.h"

#include <algorithm>

namespace virtrain::resnet50::cpu {
namespace {

using tag = dnnl::memory::format_tag;
using type = dnnl::memory::data_type;

/// Rows of pairs that are multiplied at once: one block of inputs and two of gradients stay in the first
/// cache.
constexpr int rows_at_once = 192;
constexpr std::size_t block_size = std::size_t{rows_at_once} * pair_lanes;
constexpr std::size_t square = std::size_t{pair_lanes} * pair_lanes;
/// Pairs that are made before they are used: they go through the last-level cache.
constexpr std::size_t bytes_at_once = 2UL << 20;

int quotient_up(int value, int unit) {
  return (value + unit - 1) / unit;
}

/// Null where this processor has no instructions for it.
const PixelPairKernels* kernels_of_processor() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bf16")) {
    return &pixel_pairs_avx512_bf16;
  }
#endif
  return nullptr;
}

bool is(const Layout& layout, type of, tag wanted) {
  return layout == Layout(onednn::dims_of(layout), of, wanted);
}

}  // namespace

std::optional<WeightsGradient> WeightsGradient::make(Device& device, const ConvolutionShape& shape,
                                                     const Layout& source, const Layout& destination,
                                                     const Layout& master) {
  const bool blocked = is(source, type::bf16, tag::nChw16c) && is(destination, type::bf16, tag::nChw16c) &&
                       is(master, type::f32, tag::OIhw16i16o);
  const bool whole = shape.in_channels % pair_lanes == 0 && shape.out_channels % (2 * pair_lanes) == 0;
  const bool slow_in_onednn = shape.kernel == 1 || shape.stride > 1;
  const PixelPairKernels* const kernels = kernels_of_processor();
  if (!blocked || !whole || !slow_in_onednn || kernels == nullptr) { return std::nullopt; }
  return WeightsGradient(device, shape, *kernels);
}

WeightsGradient::WeightsGradient(Device& device, const ConvolutionShape& shape,
                                 const PixelPairKernels& kernels)
    : device_(&device),
      shape_(shape),
      kernels_(&kernels),
      out_size_(shape.out_size()),
      in_blocks_(static_cast<int>(shape.in_channels / pair_lanes)),
      out_blocks_(static_cast<int>(shape.out_channels / pair_lanes)),
      taps_(shape.kernel * shape.kernel),
      inputs_(in_blocks_ * taps_),
      image_pairs_(quotient_up(out_size_ * out_size_, 2)),
      panels_(quotient_up(shape.batch * image_pairs_, rows_at_once)) {}

WeightsGradient::Panel WeightsGradient::panel(int index) const {
  const int first = index * rows_at_once;
  return {first, std::min(rows_at_once, shape_.batch * image_pairs_ - first)};
}

PixelWindow WeightsGradient::window(int block) const {
  if (block >= inputs_) { return {out_size_, out_size_, 1, 0, 0}; }
  const int row = block % taps_ / shape_.kernel, column = block % shape_.kernel;
  return {shape_.in_size, out_size_, shape_.stride, row - shape_.padding, column - shape_.padding};
}

void WeightsGradient::pair(const std::uint16_t* source, const std::uint16_t* gradient, const Panel& panel,
                           int block, std::uint32_t* out) const {
  const bool of_inputs = block < inputs_;
  const std::ptrdiff_t blocks = of_inputs ? in_blocks_ : out_blocks_;
  const int channel_block = of_inputs ? block / taps_ : block - inputs_;
  const PixelWindow from = window(block);
  const std::ptrdiff_t plane = std::ptrdiff_t{from.in_size} * from.in_size * pair_lanes;
  for (int done = 0; done < panel.count;) {
    const int image = (panel.first + done) / image_pairs_, first = (panel.first + done) % image_pairs_;
    const int count = std::min(panel.count - done, image_pairs_ - first);
    const std::uint16_t* const tensor = of_inputs ? source : gradient;
    kernels_->pair(tensor + (image * blocks + channel_block) * plane, from, first, count,
                   out + std::ptrdiff_t{done} * pair_lanes);
    done += count;
  }
}

void WeightsGradient::multiply(const std::uint32_t* pairs, const Panel& panel, int tile, bool accumulate,
                               float* out) const {
  const int input = tile % inputs_, output = tile / inputs_ * 2;
  const std::size_t row = inputs_ * square;  // of one block of output channels
  kernels_->multiply(pairs + input * block_size, pairs + (inputs_ + output) * block_size, block_size,
                     panel.count, accumulate, out + output * row + input * square, row);
}

void WeightsGradient::run(const Tensor& source, const Tensor& destination_gradient,
                          const Tensor& master_gradient) const {
  const auto* const in = static_cast<const std::uint16_t*>(source.get_data_handle());
  const auto* const gradient = static_cast<const std::uint16_t*>(destination_gradient.get_data_handle());
  auto* const out = static_cast<float*>(master_gradient.get_data_handle());
  const std::size_t step = blocks() * block_size;  // of a panel
  const auto fit = static_cast<int>(bytes_at_once / (step * sizeof(std::uint32_t)));
  const int at_once = std::clamp(fit, 1, panels_);
  const Layout layout({static_cast<std::int64_t>(at_once * step)}, type::s32, tag::x);
  auto* const pairs =
      static_cast<std::uint32_t*>(device_->scratch(Scratch::pixel_pairs, layout).get_data_handle());
  const int tiles = inputs_ * out_blocks_ / 2;
#pragma omp parallel
  for (int begin = 0; begin < panels_; begin += at_once) {
    const int end = std::min(begin + at_once, panels_);
#pragma omp for collapse(2) schedule(static)
    for (int block = 0; block < blocks(); ++block) {
      for (int p = begin; p < end; ++p) {
        pair(in, gradient, panel(p), block, pairs + (p - begin) * step + block * block_size);
      }
    }
#pragma omp for schedule(static)
    for (int tile = 0; tile < tiles; ++tile) {
      for (int p = begin; p < end; ++p) { multiply(pairs + (p - begin) * step, panel(p), tile, p > 0, out); }
    }
  }
}

}  // namespace virtrain::resnet50::cpu
