// What happens to parameters and gradients between two passes: update, overflow, sums, conversions.
// The update takes each element alone: its 20 bytes a thread are enough to reach the copy rate where there
// are 25.6 million of them. It moves 511 MB in 16 bits, 0.12 ms at 4.3 TB/s.

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda {
namespace {

template <typename Gradient, typename Copy>
__global__ void sgd_kernel(const Gradient* gradient, std::int64_t count, float* parameters, float* velocity,
                           Copy* copy, const SgdRule* rule, const LossScale* loss_scale) {
  const std::int64_t i = global_thread();
  if (i >= count || loss_scale->overflow != 0) { return; }
  // Copies: for all that the compiler knows a store could change what is read after it.
  const SgdRule used = *rule;
  float parameter = parameters[i], speed = velocity[i];
  const float scale = used.gradient_scale / loss_scale->scale;
  sgd_element(parameter, speed, to_float(gradient[i]) * scale, used);
  parameters[i] = parameter;
  velocity[i] = speed;
  if (copy != nullptr) { copy[i] = from_float<Copy>(parameter); }
}

template <typename T>
__global__ void find_overflow_kernel(const T* values, std::int64_t count, LossScale* loss_scale) {
  const std::int64_t first = global_thread() * pack_size;
  bool finite = true;
  if (first + pack_size <= count) {
    const Floats pack = load<T>(values, global_thread());
#pragma unroll
    for (int c = 0; c < pack_size; ++c) { finite = finite && isfinite(pack.at[c]); }
  } else {
    for (std::int64_t i = first; i < count; ++i) { finite = finite && isfinite(to_float(values[i])); }
  }
  // Several threads may write, all of them the same value.
  if (!finite) { loss_scale->overflow = 1; }
}

__global__ void advance_loss_scale_kernel(LossScale* loss_scale) {
  update_loss_scale(*loss_scale);
}

template <typename T>
__global__ void add_kernel(const void* a, const void* b, std::int64_t packs, void* sum) {
  const std::int64_t i = global_thread();
  if (i >= packs) { return; }
  Floats values = load<T>(a, i);
  const Floats other = load<T>(b, i);
  for (int c = 0; c < pack_size; ++c) { values.at[c] += other.at[c]; }
  store<T>(sum, i, values);
}

template <typename T>
__global__ void accumulate_kernel(const T* values, std::int64_t count, float* sum) {
  const std::int64_t i = global_thread();
  if (i < count) { sum[i] += to_float(values[i]); }
}

__global__ void stamp_kernel(std::uint64_t* time) {
  *time = global_nanoseconds();
}

template <typename From, typename To>
__global__ void convert_kernel(const From* from, std::int64_t count, To* to) {
  const std::int64_t i = global_thread();
  if (i < count) { to[i] = from_float<To>(to_float(from[i])); }
}

template <typename T>
__global__ void pad_images_kernel(const float* images, int batch, int pixels, T* out) {
  const std::int64_t i = global_thread();
  if (i >= static_cast<std::int64_t>(batch) * pixels * padded_image_channels) { return; }
  const int channel = static_cast<int>(i % padded_image_channels);
  const std::int64_t pixel = i / padded_image_channels;
  const std::int64_t from = (pixel / pixels * 3 + channel) * pixels + pixel % pixels;
  out[i] = from_float<T>(channel < 3 ? images[from] : 0.0F);
}

}  // namespace

void sgd(Numeric gradient_numeric, const void* gradient, std::int64_t count, float* parameters,
         float* velocity, Numeric copy_numeric, void* copy, const SgdRule* rule, const LossScale* loss_scale,
         Stream stream) {
  with_element(gradient_numeric, [&]<typename Gradient>(Gradient) {
    with_element(copy_numeric, [&]<typename Copy>(Copy) {
      launch("sgd", sgd_kernel<Gradient, Copy>, blocks_for(count), block_threads, stream,
             static_cast<const Gradient*>(gradient), count, parameters, velocity, static_cast<Copy*>(copy),
             rule, loss_scale);
    });
  });
}

void find_overflow(Numeric numeric, const void* values, std::int64_t count, LossScale* loss_scale,
                   Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("find_overflow", find_overflow_kernel<T>, blocks_for((count + pack_size - 1) / pack_size),
           block_threads, stream, static_cast<const T*>(values), count, loss_scale);
  });
}

void advance_loss_scale(LossScale* loss_scale, Stream stream) {
  launch("advance_loss_scale", advance_loss_scale_kernel, 1, 1, stream, loss_scale);
}

void add(Numeric numeric, const void* a, const void* b, std::int64_t count, void* sum, Stream stream) {
  const std::int64_t packs = count / pack_size;  // an activation has a multiple of them
  with_element(numeric, [&]<typename T>(T) {
    launch("add", add_kernel<T>, blocks_for(packs), block_threads, stream, a, b, packs, sum);
  });
}

void accumulate(Numeric numeric, const void* values, std::int64_t count, float* sum, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("accumulate", accumulate_kernel<T>, blocks_for(count), block_threads, stream,
           static_cast<const T*>(values), count, sum);
  });
}

void stamp(std::uint64_t* time, Stream stream) {
  launch("stamp", stamp_kernel, 1, 1, stream, time);
}

void narrow(const float* values, std::int64_t count, Numeric numeric, void* out, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("narrow", convert_kernel<float, T>, blocks_for(count), block_threads, stream, values, count,
           static_cast<T*>(out));
  });
}

void widen(Numeric numeric, const void* values, std::int64_t count, float* out, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("widen", convert_kernel<T, float>, blocks_for(count), block_threads, stream,
           static_cast<const T*>(values), count, out);
  });
}

void pad_images(const float* images, int batch, int size, Numeric numeric, void* out, Stream stream) {
  const int pixels = size * size;
  with_element(numeric, [&]<typename T>(T) {
    launch("pad_images", pad_images_kernel<T>,
           blocks_for(static_cast<std::int64_t>(batch) * pixels * padded_image_channels), block_threads,
           stream, images, batch, pixels, static_cast<T*>(out));
  });
}

}  // namespace virtrain::resnet50::cuda
