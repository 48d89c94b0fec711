#include <omp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <unordered_map>

#include "common/system/time.h"
#include "workloads/common/onednn.h"
#include "workloads/probe/compute.h"
#include "workloads/resnet50/model.h"

namespace virtrain::probe {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;
using dnnl::algorithm;
using dnnl::prop_kind;

/// fp32 sums over products of exact inputs keep to it in any order.
constexpr double gemm_tolerance = 1e-5;

class Gemm {
 public:
  Gemm(Type type, int n)
      : n_(n), stream_(engine_), a_(random_matrix(elements(), 1)), b_(random_matrix(elements(), 2)) {
    const dnnl::memory::dims dims{n, n};
    const onednn::Layout left(dims, type, Tag::ab), right(dims, type, Tag::any);
    const auto product =
        onednn::describe<dnnl::matmul>(engine_, left, right, onednn::Layout(dims, Type::f32, Tag::ab));
    matmul_ = dnnl::matmul(product);
    source_ = moved(a_, product.src_desc());
    weights_ = moved(b_, product.weights_desc());  // in the layout that the library multiplies fastest
    destination_ = dnnl::memory(product.dst_desc(), engine_);
  }

  void run() {
    matmul_.execute(stream_,
                    {{DNNL_ARG_SRC, source_}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, destination_}});
    stream_.wait();
  }

  std::int64_t wrong() const {
    const auto* const c = static_cast<const float*>(destination_.get_data_handle());
    return wrong_products(a_, b_, {c, a_.size()}, n_, gemm_tolerance);
  }

 private:
  std::size_t elements() const { return static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_); }

  dnnl::memory moved(std::vector<float>& values, const dnnl::memory::desc& layout) {
    dnnl::memory from({{n_, n_}, Type::f32, Tag::ab}, engine_, values.data());
    dnnl::memory to(layout, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  int n_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  std::vector<float> a_;
  std::vector<float> b_;
  dnnl::matmul matmul_;
  dnnl::memory source_;
  dnnl::memory weights_;
  dnnl::memory destination_;
};

Figure measure(Type type, const char* name, int n, int repetitions) {
  Gemm product(type, n);
  double best = INFINITY;
  for (int k = 0; k < repetitions; ++k) {
    const std::int64_t start_ns = monotonic_ns();
    product.run();
    const double seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    if (k > 0) { best = std::min(best, seconds); }
  }
  Figure figure = gemm_figure(name, n, best, product.wrong());
  figure.detail["threads"] = omp_get_max_threads();
  figure.detail["repetitions"] = repetitions;
  return figure;
}

/// Convolutions of equal shape are the same work.
struct Shape {
  int in_channels, out_channels, in_size, out_size, kernel, stride, padding;
  auto operator<=>(const Shape&) const = default;  // NOLINT(modernize-use-nullptr): clang 14's mistake
  double operations(int batch) const {
    return 2.0 * batch * in_channels * out_channels * out_size * out_size * kernel * kernel;
  }
};

enum Direction { forward, backward_data, backward_weights };
constexpr std::array<const char*, 3> names{"convolutions_forward", "convolutions_backward_data",
                                           "convolutions_backward_weights"};

/// One convolution in all directions, on numbers that are exact in 16 bits.
class Convolution {
 public:
  Convolution(const Shape& shape, int batch, Type type, dnnl::engine& engine, dnnl::stream& stream)
      : engine_(engine), stream_(stream) {
    const dnnl::memory::dims in{batch, shape.in_channels, shape.in_size, shape.in_size};
    const dnnl::memory::dims out{batch, shape.out_channels, shape.out_size, shape.out_size};
    const dnnl::memory::dims filter{shape.out_channels, shape.in_channels, shape.kernel, shape.kernel};
    const dnnl::memory::dims stride{shape.stride, shape.stride}, padding{shape.padding, shape.padding};
    const auto any = [](const dnnl::memory::dims& dims, Type of) {
      return dnnl::memory::desc(dims, of, Tag::any);
    };
    const auto method = algorithm::convolution_direct;
    const auto ahead = onednn::describe<dnnl::convolution_forward>(engine, prop_kind::forward_training,
                                                                   method, any(in, type), any(filter, type),
                                                                   any(out, type), stride, padding, padding);
    const auto data = onednn::describe_backward<dnnl::convolution_backward_data>(
        engine, ahead, method, any(in, type), any(filter, type), any(out, type), stride, padding, padding);
    const auto weights = onednn::describe_backward<dnnl::convolution_backward_weights>(
        engine, ahead, method, any(in, type), any(filter, Type::f32), any(out, type), stride, padding,
        padding);
    const auto x = filled(in, 1), w = filled(filter, 2), g = filled(out, 3);
    add(forward, dnnl::convolution_forward(ahead),
        {{DNNL_ARG_SRC, moved(x, ahead.src_desc())}, {DNNL_ARG_WEIGHTS, moved(w, ahead.weights_desc())}},
        DNNL_ARG_DST, ahead.dst_desc(), g);
    add(backward_data, dnnl::convolution_backward_data(data),
        {{DNNL_ARG_DIFF_DST, moved(g, data.diff_dst_desc())},
         {DNNL_ARG_WEIGHTS, moved(w, data.weights_desc())}},
        DNNL_ARG_DIFF_SRC, data.diff_src_desc(), x);
    add(backward_weights, dnnl::convolution_backward_weights(weights),
        {{DNNL_ARG_SRC, moved(x, weights.src_desc())},
         {DNNL_ARG_DIFF_DST, moved(g, weights.diff_dst_desc())}},
        DNNL_ARG_DIFF_WEIGHTS, weights.diff_weights_desc(), w);
  }

  double best_seconds(Direction direction, int repetitions) {
    double best = INFINITY;
    for (int k = 0; k < repetitions; ++k) {
      const std::int64_t start_ns = monotonic_ns();
      work_[direction].primitive.execute(stream_, work_[direction].arguments);
      stream_.wait();
      if (k > 0) { best = std::min(best, static_cast<double>(monotonic_ns() - start_ns) * 1e-9); }
    }
    return best;
  }

  /// The result times what it is the gradient of, the same number in all directions, and the product of their
  /// lengths, which rounding is relative to.
  struct Product {
    double value, lengths;
    std::size_t count;  ///< of the terms
  };
  Product product(Direction direction) {
    const Work& work = work_[direction];
    const dnnl::memory result = moved(work.result, plain(onednn::dims_of(work.result.get_desc())));
    const auto* const a = static_cast<const float*>(result.get_data_handle());
    const auto* const b = static_cast<const float*>(work.other.get_data_handle());
    double value = 0, a_square = 0, b_square = 0;
    const std::size_t count = result.get_desc().get_size() / sizeof(float);
    for (std::size_t i = 0; i < count; ++i) {
      value += static_cast<double>(a[i]) * b[i];
      a_square += static_cast<double>(a[i]) * a[i];
      b_square += static_cast<double>(b[i]) * b[i];
    }
    return {value, std::sqrt(a_square * b_square), count};
  }

 private:
  struct Work {
    dnnl::primitive primitive;
    std::unordered_map<int, dnnl::memory> arguments;
    dnnl::memory result, other;
  };

  static dnnl::memory::desc plain(const dnnl::memory::dims& dims) { return {dims, Type::f32, Tag::abcd}; }

  dnnl::memory filled(const dnnl::memory::dims& dims, std::uint32_t seed) {
    dnnl::memory memory(plain(dims), engine_);
    const std::vector<float> values = random_matrix(memory.get_desc().get_size() / sizeof(float), seed);
    std::copy(values.begin(), values.end(), static_cast<float*>(memory.get_data_handle()));
    return memory;
  }

  dnnl::memory moved(dnnl::memory from, const dnnl::memory::desc& layout) {
    dnnl::memory to(layout, engine_);
    dnnl::reorder(from, to).execute(stream_, from, to);
    stream_.wait();
    return to;
  }

  void add(Direction direction, const dnnl::primitive& primitive,
           std::unordered_map<int, dnnl::memory> arguments, int result_argument,
           const dnnl::memory::desc& layout, const dnnl::memory& other) {
    const dnnl::memory result(layout, engine_);
    arguments.emplace(result_argument, result);
    work_[direction] = {primitive, std::move(arguments), result, other};
  }

  dnnl::engine& engine_;
  dnnl::stream& stream_;
  std::array<Work, 3> work_;
};

struct Kind {
  Type type;
  const char* name;
  double tolerance;  ///< of a product of many terms, relative to the lengths: their rounding averages out
  double rounding;   ///< of a term, with that of the parts that a direction may add up in this type
};

using Product = Convolution::Product;

/// The difference that rounding explains, which leaves a product of few terms a random walk. A wrong
/// direction is off by about lengths / sqrt(terms).
double most_difference(const Kind& kind, const Product& a, const Product& b) {
  const double walk = kind.rounding / std::sqrt(static_cast<double>(std::min(a.count, b.count)));
  return std::max(kind.tolerance, walk) * std::max(a.lengths, b.lengths);
}

std::map<Shape, int> shapes_of(const resnet50::Model& model) {
  std::map<Shape, int> counts;
  for (const resnet50::Unit* unit : resnet50::units(model)) {
    const resnet50::Convolution& c = unit->convolution;
    ++counts[{c.in_channels, c.out_channels, c.in_size, c.out_size(), c.kernel, c.stride, c.padding}];
  }
  return counts;
}

std::vector<Figure> measure(const Kind& kind, const ConvolutionSetting& setting) {
  dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  dnnl::stream stream(engine);
  std::vector<Figure> figures(names.size());
  for (std::size_t d = 0; d < names.size(); ++d) {
    figures[d].name = names[d];
    figures[d].data_type = kind.name;
    figures[d].unit = "FLOP/s";
    figures[d].detail = {{"batch_size", setting.batch_size},
                         {"image_size", setting.image_size},
                         {"threads", omp_get_max_threads()},
                         {"repetitions", setting.repetitions}};
  }
  for (const auto& [shape, count] : shapes_of(resnet50::build_model(setting.image_size, 1000))) {
    Convolution convolution(shape, setting.batch_size, kind.type, engine, stream);
    const bool is_first = shape.in_channels == 3;  // training needs no gradient of the images
    for (std::size_t d = 0; d < names.size(); ++d) {
      const auto direction = static_cast<Direction>(d);
      const double seconds = convolution.best_seconds(direction, setting.repetitions);
      const Product expected = convolution.product(forward), found = convolution.product(direction);
      const double most = most_difference(kind, expected, found);
      figures[d].wrong += !(std::abs(found.value - expected.value) <= most) ? 1 : 0;
      if (is_first && direction == backward_data) { continue; }
      figures[d].seconds += count * seconds;
      figures[d].value += count * shape.operations(setting.batch_size);
    }
  }
  for (Figure& figure : figures) { figure.value /= figure.seconds; }
  return figures;
}

}  // namespace

std::vector<Figure> measure_gemm(int n, int repetitions) {
  onednn::avoid_fused_sums_where_emulated();
  std::vector<Figure> found{measure(Type::f32, "float", n, repetitions)};
  if (onednn::multiplies_bfloat16()) { found.push_back(measure(Type::bf16, "bfloat16", n, repetitions)); }
  return found;
}

std::vector<Figure> measure_convolutions(const ConvolutionSetting& setting) {
  onednn::avoid_fused_sums_where_emulated();
  std::vector<Figure> found = measure({Type::f32, "float", 1e-5, 0}, setting);
  if (onednn::multiplies_bfloat16()) {
    // Eight bits, 2^-9 a rounding; Zen 5 with oneDNN 2.7 errs by nine times a single rounding's mean.
    for (Figure& figure : measure({Type::bf16, "bfloat16", 5e-5, 0.016}, setting)) {
      found.push_back(std::move(figure));
    }
  }
  return found;
}

}  // namespace virtrain::probe
