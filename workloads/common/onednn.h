#pragma once

#include <oneapi/dnnl/dnnl.hpp>
#include <oneapi/dnnl/dnnl_debug.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

/// oneDNN 2 and 3 under one set of names; nothing else asks for its version.
namespace virtrain::onednn {

using Layout = dnnl::memory::desc;

/// Pooling over windows without gaps.
struct Pooling {
  dnnl::algorithm method;
  Layout source, destination;
  dnnl::memory::dims strides, window, before, after;
};

/// How a blocked layout's values lie in memory.
struct Blocking {
  std::vector<std::int64_t> strides, block_sizes, block_axes;
};

#if DNNL_VERSION_MAJOR >= 3

inline dnnl::memory::dims dims_of(const Layout& layout) {
  return layout.get_dims();
}
inline dnnl::memory::data_type type_of(const Layout& layout) {
  return layout.get_data_type();
}
inline Blocking blocking_of(const Layout& layout) {
  return {layout.get_strides(), layout.get_inner_blks(), layout.get_inner_idxs()};
}

/// Description of a primitive whose arguments are the same in both versions.
template <typename Primitive, typename... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments...);
}
/// Describes a backward pass, which needs the forward one's.
template <typename Primitive, typename Forward, typename... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(engine, arguments..., forward);
}

inline auto describe_norm(const dnnl::engine& engine, const Layout& layout, float epsilon,
                          dnnl::normalization_flags flags) {
  return dnnl::batch_normalization_forward::primitive_desc(engine, dnnl::prop_kind::forward_training, layout,
                                                           layout, epsilon, flags);
}
inline auto describe_norm_backward(const dnnl::engine& engine,
                                   const dnnl::batch_normalization_forward::primitive_desc& forward,
                                   const Layout& layout, float epsilon, dnnl::normalization_flags flags) {
  return dnnl::batch_normalization_backward::primitive_desc(engine, dnnl::prop_kind::backward, layout, layout,
                                                            layout, epsilon, flags, forward);
}
/// The shift has no part in the backward pass: version 3 refuses it, version 2 counts its arguments.
inline constexpr bool norm_backward_takes_shift = false;

inline auto describe_pooling(const dnnl::engine& engine, const Pooling& p) {
  const dnnl::memory::dims gaps(p.window.size(), 0);
  return dnnl::pooling_forward::primitive_desc(engine, dnnl::prop_kind::forward_training, p.method, p.source,
                                               p.destination, p.strides, p.window, gaps, p.before, p.after);
}
inline auto describe_pooling_backward(const dnnl::engine& engine,
                                      const dnnl::pooling_forward::primitive_desc& forward,
                                      const Pooling& p) {
  const dnnl::memory::dims gaps(p.window.size(), 0);
  return dnnl::pooling_backward::primitive_desc(engine, p.method, p.source, forward.dst_desc(), p.strides,
                                                p.window, gaps, p.before, p.after, forward);
}

#else

inline dnnl::memory::dims dims_of(const Layout& layout) {
  return layout.dims();
}
inline dnnl::memory::data_type type_of(const Layout& layout) {
  return layout.data_type();
}
inline Blocking blocking_of(const Layout& layout) {
  const dnnl_blocking_desc_t& found = layout.data.format_desc.blocking;
  return {{found.strides, found.strides + layout.data.ndims},
          {found.inner_blks, found.inner_blks + found.inner_nblks},
          {found.inner_idxs, found.inner_idxs + found.inner_nblks}};
}

/// Description of a primitive whose arguments are the same in both versions.
template <typename Primitive, typename... Arguments>
auto describe(const dnnl::engine& engine, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine);
}
/// Describes a backward pass, which needs the forward one's.
template <typename Primitive, typename Forward, typename... Arguments>
auto describe_backward(const dnnl::engine& engine, const Forward& forward, const Arguments&... arguments) {
  return typename Primitive::primitive_desc(typename Primitive::desc(arguments...), engine, forward);
}

inline auto describe_norm(const dnnl::engine& engine, const Layout& layout, float epsilon,
                          dnnl::normalization_flags flags) {
  return describe<dnnl::batch_normalization_forward>(engine, dnnl::prop_kind::forward_training, layout,
                                                     epsilon, flags);
}
inline auto describe_norm_backward(const dnnl::engine& engine,
                                   const dnnl::batch_normalization_forward::primitive_desc& forward,
                                   const Layout& layout, float epsilon, dnnl::normalization_flags flags) {
  return describe_backward<dnnl::batch_normalization_backward>(engine, forward, dnnl::prop_kind::backward,
                                                               layout, layout, epsilon, flags);
}
/// The shift has no part in the backward pass: version 3 refuses it, version 2 counts its arguments.
inline constexpr bool norm_backward_takes_shift = true;

inline auto describe_pooling(const dnnl::engine& engine, const Pooling& p) {
  return describe<dnnl::pooling_forward>(engine, dnnl::prop_kind::forward_training, p.method, p.source,
                                         p.destination, p.strides, p.window, p.before, p.after);
}
inline auto describe_pooling_backward(const dnnl::engine& engine,
                                      const dnnl::pooling_forward::primitive_desc& forward,
                                      const Pooling& p) {
  return describe_backward<dnnl::pooling_backward>(engine, forward, p.method, p.source, forward.dst_desc(),
                                                   p.strides, p.window, p.before, p.after);
}

#endif

/// Whether QEMU's TCG computes this processor's instructions in software: hypervisors tell their names in
/// CPUID's leaf 0x40000000.
inline bool is_processor_emulated() {
#if defined(__x86_64__)
  constexpr unsigned hypervisor_bit = 1U << 31, name_leaf = 0x4000'0000;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & hypervisor_bit) == 0) { return false; }
  std::array<unsigned, 3> name{};
  __cpuid(name_leaf, eax, name[0], name[1], name[2]);
  return std::memcmp(name.data(), "TCGTCGTCGTCG", sizeof name) == 0;
#else
  return false;
#endif
}

/// TCG takes 1.2 to 1.7 times as long for a fused multiply-add as for a product and a sum, so emulated
/// processors do without, unless ONEDNN_MAX_CPU_ISA (or its older name) says what to use. Before anything
/// else of oneDNN's.
inline void avoid_fused_sums_where_emulated() {
  const bool is_chosen =
      std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr || std::getenv("DNNL_MAX_CPU_ISA") != nullptr;
  if (is_processor_emulated() && !is_chosen) { dnnl::set_max_cpu_isa(dnnl::cpu_isa::sse41); }
}

/// The instruction set that oneDNN uses here, by its own name: "avx2", "avx512_core_bf16", ...
inline std::string instruction_set() {
  constexpr std::string_view prefix = "cpu_isa_";
  const std::string_view name = dnnl_cpu_isa2str(dnnl_get_effective_cpu_isa());
  return std::string(name.starts_with(prefix) ? name.substr(prefix.size()) : name);
}

/// Whether it may use these instructions. A set has the bits of all that it includes, so this holds for those
/// that a later version knows.
inline bool may_use(dnnl_cpu_isa_t wanted) {
  const auto isa = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  const auto least = static_cast<unsigned>(wanted);
  return (isa & least) == least;
}

/// Whether it multiplies bfloat16 in hardware.
inline bool multiplies_bfloat16() {
  return may_use(dnnl_cpu_isa_avx512_core_bf16);
}

}  // namespace virtrain::onednn
