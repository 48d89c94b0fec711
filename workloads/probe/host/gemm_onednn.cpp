#include <omp.h>

#include <algorithm>
#include <cmath>

#include "common/system/time.h"
#include "workloads/common/onednn.h"
#include "workloads/probe/host/gemm.h"

namespace virtrain::probe {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

struct Kind {
  Type type;
  const char* name;
  double tolerance;  ///< of fp32 sums over products of exact inputs; wide enough for any order
};

class Product {
 public:
  Product(const Kind& kind, int n)
      : n_(n), stream_(engine_), a_(random_matrix(elements(), 1)), b_(random_matrix(elements(), 2)) {
    const dnnl::memory::dims dims{n, n};
    const onednn::Layout left(dims, kind.type, Tag::ab), right(dims, kind.type, Tag::any);
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

  std::int64_t wrong(double tolerance) const {
    const auto* const c = static_cast<const float*>(destination_.get_data_handle());
    return wrong_products(a_, b_, {c, a_.size()}, n_, tolerance);
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

Figure measure(const Kind& kind, int n, int repetitions) {
  Product product(kind, n);
  double best = INFINITY;
  for (int k = 0; k < repetitions; ++k) {
    const std::int64_t start_ns = monotonic_ns();
    product.run();
    const double seconds = static_cast<double>(monotonic_ns() - start_ns) * 1e-9;
    if (k > 0) { best = std::min(best, seconds); }
  }
  Figure figure = gemm_figure(kind.name, n, best, product.wrong(kind.tolerance));
  figure.detail["threads"] = omp_get_max_threads();
  figure.detail["repetitions"] = repetitions;
  return figure;
}

}  // namespace

bool multiplies_bfloat16() {
  return onednn::multiplies_bfloat16();
}

std::vector<Figure> measure_gemm(int n, int repetitions) {
  onednn::avoid_fused_sums_where_emulated();
  std::vector<Figure> found{measure({Type::f32, "float", 1e-5}, n, repetitions)};
  if (multiplies_bfloat16()) { found.push_back(measure({Type::bf16, "bfloat16", 1e-5}, n, repetitions)); }
  return found;
}

}  // namespace virtrain::probe
