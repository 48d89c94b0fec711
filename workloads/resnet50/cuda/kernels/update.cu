// Kernels on parameters and gradients between two passes: update, overflow, sums, conversions. The update
// loads a pack of each of its three tensors at once. It moves 511 MB in 16 bits, 0.12 ms at 4.3 TB/s.

#include "workloads/resnet50/cuda/kernels/device.cuh"
#include "workloads/resnet50/cuda/kernels/kernels.h"

namespace virtrain::resnet50::cuda {
namespace {

template <typename Gradient, typename Copy>
__global__ void sgd_kernel(const Gradient* gradient, std::int64_t count, float* parameters, float* velocity,
                           Copy* copy, const SgdRule* rule, const LossScale* loss_scale) {
  struct Loaded {
    Pack<Gradient> gradient;
    Pack<float> parameters, velocity;
  };
  const auto load_one = [&](int pack) {
    return Loaded{load_pack<Gradient>(gradient, pack), load_pack<float>(parameters, pack),
                  load_pack<float>(velocity, pack)};
  };
  use_packs<1>(count / pack_size, load_one, [&](int pack, Loaded loaded) {
    if (loss_scale->overflow != 0) { return; }
    const SgdRule used = *rule;
    const float scale = used.gradient_scale / loss_scale->scale;
    Floats values;
#pragma unroll
    for (int c = 0; c < pack_size; ++c) {
      sgd_element(loaded.parameters.at[c], loaded.velocity.at[c], to_float(loaded.gradient.at[c]) * scale,
                  used);
      values.at[c] = loaded.parameters.at[c];
    }
    store<float>(velocity, pack, to_floats(loaded.velocity));
    store<float>(parameters, pack, values);
    if (copy != nullptr) { store<Copy>(copy, pack, values); }
  });
  use_rest(count, [&](std::int64_t i) {
    if (loss_scale->overflow != 0) { return; }
    sgd_element(parameters[i], velocity[i],
                to_float(gradient[i]) * (rule->gradient_scale / loss_scale->scale), *rule);
    if (copy != nullptr) { copy[i] = from_float<Copy>(parameters[i]); }
  });
}

template <typename T>
__global__ void find_overflow_kernel(const T* values, std::int64_t count, LossScale* loss_scale) {
  bool finite = true;
  use_packs<loads_in_flight>(
      count / pack_size, [&](int pack) { return load_pack<T>(values, pack); },
      [&](int, const Pack<T>& pack) {
#pragma unroll
        for (int c = 0; c < pack_size; ++c) { finite &= isfinite(to_float(pack.at[c])); }
      });
  use_rest(count, [&](std::int64_t i) { finite = finite && isfinite(to_float(values[i])); });
  // Several threads may write, all of them the same value.
  if (!finite) { loss_scale->overflow = 1; }
}

__global__ void advance_loss_scale_kernel(LossScale* loss_scale) {
  update_loss_scale(*loss_scale);
}

/// A thread's two packs of two tensors, which it loads together.
template <typename A, typename B>
struct Pair {
  Pack<A> a;
  Pack<B> b;
};

template <typename T>
__global__ void add_kernel(const void* a, const void* b, std::int64_t packs, void* sum) {
  use_packs<loads_in_flight>(
      packs,
      [&](int pack) {
        return Pair<T, T>{load_pack<T>(a, pack), load_pack<T>(b, pack)};
      },
      [&](int pack, const Pair<T, T>& both) {
        Floats values = to_floats(both.a);
        const Floats other = to_floats(both.b);
#pragma unroll
        for (int c = 0; c < pack_size; ++c) { values.at[c] += other.at[c]; }
        store<T>(sum, pack, values);
      });
}

template <typename T>
__global__ void accumulate_kernel(const T* values, std::int64_t count, float* sum) {
  use_packs<loads_in_flight>(
      count / pack_size,
      [&](int pack) {
        return Pair<T, float>{load_pack<T>(values, pack), load_pack<float>(sum, pack)};
      },
      [&](int pack, const Pair<T, float>& both) {
        Floats total = to_floats(both.b);
        const Floats more = to_floats(both.a);
#pragma unroll
        for (int c = 0; c < pack_size; ++c) { total.at[c] += more.at[c]; }
        store<float>(sum, pack, total);
      });
  use_rest(count, [&](std::int64_t i) { sum[i] += to_float(values[i]); });
}

__global__ void stamp_kernel(std::uint64_t* time) {
  *time = global_nanoseconds();
}

template <typename From, typename To>
__global__ void convert_kernel(const From* from, std::int64_t count, To* to) {
  use_packs<loads_in_flight>(
      count / pack_size, [&](int pack) { return load_pack<From>(from, pack); },
      [&](int pack, const Pack<From>& raw) { store<To>(to, pack, to_floats(raw)); });
  use_rest(count, [&](std::int64_t i) { to[i] = from_float<To>(to_float(from[i])); });
}

/// Mixes a counter's bits: each bit of it changes half of the result's (MurmurHash3's last steps).
__device__ inline std::uint32_t mixed(std::uint32_t bits) {
  bits = (bits ^ bits >> 16U) * 0x85ebca6bU;
  bits = (bits ^ bits >> 13U) * 0xc2b2ae35U;
  return bits ^ bits >> 16U;
}

__global__ void fill_noise_kernel(std::uint32_t* memory, std::int64_t words) {
  constexpr std::uint32_t signs_and_mantissas = 0x83ff83ffU, exponents = 0x3c003c00U;
  for (std::int64_t i = global_thread(); i < words; i += thread_count()) {
    memory[i] = (mixed(static_cast<std::uint32_t>(i)) & signs_and_mantissas) | exponents;
  }
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
      launch("sgd", sgd_kernel<Gradient, Copy>, pack_blocks(count, 1), block_threads, stream,
             static_cast<const Gradient*>(gradient), count, parameters, velocity, static_cast<Copy*>(copy),
             rule, loss_scale);
    });
  });
}

void find_overflow(Numeric numeric, const void* values, std::int64_t count, LossScale* loss_scale,
                   Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("find_overflow", find_overflow_kernel<T>, pack_blocks(count, loads_in_flight), block_threads,
           stream, static_cast<const T*>(values), count, loss_scale);
  });
}

void advance_loss_scale(LossScale* loss_scale, Stream stream) {
  launch("advance_loss_scale", advance_loss_scale_kernel, 1, 1, stream, loss_scale);
}

void add(Numeric numeric, const void* a, const void* b, std::int64_t count, void* sum, Stream stream) {
  const std::int64_t packs = count / pack_size;  // an activation has a multiple of them
  with_element(numeric, [&]<typename T>(T) {
    launch("add", add_kernel<T>, pack_blocks(count, loads_in_flight), block_threads, stream, a, b, packs,
           sum);
  });
}

void accumulate(Numeric numeric, const void* values, std::int64_t count, float* sum, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("accumulate", accumulate_kernel<T>, pack_blocks(count, loads_in_flight), block_threads, stream,
           static_cast<const T*>(values), count, sum);
  });
}

void stamp(std::uint64_t* time, Stream stream) {
  launch("stamp", stamp_kernel, 1, 1, stream, time);
}

void narrow(const float* values, std::int64_t count, Numeric numeric, void* out, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("narrow", convert_kernel<float, T>, pack_blocks(count, loads_in_flight), block_threads, stream,
           values, count, static_cast<T*>(out));
  });
}

void widen(Numeric numeric, const void* values, std::int64_t count, float* out, Stream stream) {
  with_element(numeric, [&]<typename T>(T) {
    launch("widen", convert_kernel<T, float>, pack_blocks(count, loads_in_flight), block_threads, stream,
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

void fill_noise(void* memory, std::int64_t bytes, Stream stream) {
  constexpr std::int64_t word = sizeof(std::uint32_t), most_blocks = 4096;
  const std::int64_t words = bytes / word;
  if (words == 0) { return; }
  launch("fill_noise", fill_noise_kernel,
         static_cast<unsigned>(std::min<std::int64_t>(blocks_for(words), most_blocks)), block_threads, stream,
         static_cast<std::uint32_t*>(memory), words);
}

}  // namespace virtrain::resnet50::cuda
