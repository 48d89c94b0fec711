#include "tests/workloads/resnet50/cuda/interpreter/operation_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"

// What cuDNN's operations are compared with on a GPU (cudnn_operations_gpu_test.cpp), where there is none.

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;
using namespace virtrain::resnet50::cuda::plain;

namespace {

const std::vector<Numeric> numerics{Numeric::fp32, Numeric::tf32, Numeric::bf16, Numeric::fp16};

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

const std::vector<GraphKind> kinds{GraphKind::convolution,
                                   GraphKind::convolution_statistics,
                                   GraphKind::norm_convolution_statistics,
                                   GraphKind::backward_data,
                                   GraphKind::backward_data_add,
                                   GraphKind::backward_data_norm,
                                   GraphKind::backward_data_add_mask,
                                   GraphKind::backward_data_tail,
                                   GraphKind::backward_data_tail_norm,
                                   GraphKind::backward_weights,
                                   GraphKind::norm_backward_weights};

bool is_like(const GraphSpec& a, const GraphSpec& b) {
  return a.kind == b.kind && a.kernel == b.kernel && a.stride == b.stride && a.padding == b.padding &&
         (a.in_size == 1) == (b.in_size == 1);
}

/// The first of `graphs` that none of the others is like.
std::string without_like(const std::vector<GraphSpec>& graphs, const std::vector<GraphSpec>& others) {
  for (const GraphSpec& spec : graphs) {
    if (std::none_of(others.begin(), others.end(),
                     [&](const GraphSpec& other) { return is_like(spec, other); })) {
      return to_string(spec);
    }
  }
  return "none";
}

/// The loss whose gradient with respect to y is dy, as a function of the tensors before the norm.
double loss(GraphSpec spec, Operands in, const std::vector<double>& dy) {
  const auto channels = static_cast<std::size_t>(spec.in_channels);
  std::vector<double> scale(channels), shift(channels);
  for (std::size_t c = 0; c < channels; ++c) {
    scale[c] = in.at(TensorId::scale)[c] * in.at(TensorId::inverse_std)[c];
    shift[c] = in.at(TensorId::shift)[c] - in.at(TensorId::mean)[c] * scale[c];
  }
  spec.kind = GraphKind::norm_convolution_statistics;
  in.at(TensorId::scale) = scale;
  in.at(TensorId::shift) = shift;
  return dot(reference(spec, in).at(TensorId::y), dy);
}

}  // namespace

TEST_CASE("the graphs checked alone are like those that the trainer takes") {
  const Numeric numeric = GENERATE(from_range(numerics));
  std::vector<GraphSpec> taken, checked;
  for (const Fusion fusion : {Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full}) {
    for (const GraphSpec& spec : graphs_of_step(build_model(224, 1000), 64, numeric, fusion)) {
      CHECK(level_of(spec.kind) <= fusion);
      taken.push_back(spec);
    }
  }
  for (const GraphKind kind : kinds) {
    const std::vector<GraphSpec> graphs = operation_graphs(kind, numeric);
    checked.insert(checked.end(), graphs.begin(), graphs.end());
  }
  CHECK(without_like(taken, checked) == "none");
  CHECK(without_like(checked, taken) == "none");
}

TEST_CASE("forward and backward references are each other's transpose, at each shape") {
  for (const GraphSpec& spec : operation_graphs(GraphKind::convolution, Numeric::fp32)) {
    CAPTURE(to_string(spec));
    GraphSpec data = spec, weights = spec;
    data.kind = GraphKind::backward_data;
    weights.kind = GraphKind::backward_weights;
    Operands in = random_inputs(spec);
    in[TensorId::dy] = random_inputs(data).at(TensorId::dy);
    const double product = dot(reference(spec, in).at(TensorId::y), in.at(TensorId::dy));
    CHECK(dot(reference(data, in).at(TensorId::dx), in.at(TensorId::x)) == Approx(product));
    CHECK(dot(reference(weights, in).at(TensorId::dw), in.at(TensorId::w)) == Approx(product));
  }
}

TEST_CASE("the sums are those of the output") {
  const GraphSpec spec = operation_graphs(GraphKind::norm_convolution_statistics, Numeric::fp16).front();
  const Operands out = reference(spec, random_inputs(spec));
  const std::vector<double>& y = out.at(TensorId::y);
  double sum = 0;
  for (std::size_t i = 3; i < y.size(); i += static_cast<std::size_t>(spec.out_channels)) { sum += y[i]; }
  CHECK(out.at(TensorId::sum)[3] == Approx(sum));
  const std::vector<double>& squares = out.at(TensorId::square_sum);
  CHECK(std::accumulate(squares.begin(), squares.end(), 0.0) == Approx(dot(y, y)));
}

TEST_CASE("the norm's gradients are the slopes of a loss") {
  const GraphSpec spec = operation_graphs(GraphKind::backward_data_norm, Numeric::fp16).front();
  const Operands in = random_inputs(spec), out = reference(spec, in);
  const auto slope = [&](TensorId id, std::size_t index) {
    const double h = 1e-4;  // no ReLU is so near its edge
    Operands more = in, less = in;
    more.at(id)[index] += h;
    less.at(id)[index] -= h;
    const std::vector<double>& dy = in.at(TensorId::dy);
    return (loss(spec, more, dy) - loss(spec, less, dy)) / (2 * h);
  };
  CHECK(slope(TensorId::scale, 5) == Approx(out.at(TensorId::scale_grad)[5]).epsilon(1e-4));
  CHECK(slope(TensorId::shift, 5) == Approx(out.at(TensorId::shift_grad)[5]).epsilon(1e-4));
  // Of the norm's output, so that the norm's own factors are on top of it.
  const std::vector<double>& dx = out.at(TensorId::dx);
  const auto passing = static_cast<std::size_t>(
      std::find_if(dx.begin(), dx.end(), [](double value) { return value != 0; }) - dx.begin());
  const std::size_t c = passing % static_cast<std::size_t>(spec.in_channels);
  const double factor = in.at(TensorId::scale)[c] * in.at(TensorId::inverse_std)[c];
  CHECK(slope(TensorId::x, passing) == Approx(dx[passing] * factor).epsilon(1e-4));
}

TEST_CASE("the other references follow from those") {
  const GraphSpec add = operation_graphs(GraphKind::backward_data_add, Numeric::bf16).front();
  GraphSpec plain = add;
  plain.kind = GraphKind::backward_data;
  const Operands in = random_inputs(add);
  CHECK(reference(add, in).at(TensorId::dx)[7] ==
        Approx(reference(plain, in).at(TensorId::dx)[7] + in.at(TensorId::other)[7]));
  const GraphSpec normed = operation_graphs(GraphKind::norm_backward_weights, Numeric::fp16).front();
  plain = normed;
  plain.kind = GraphKind::backward_weights;
  Operands by_hand = random_inputs(normed);
  const auto expected = reference(normed, by_hand).at(TensorId::dw);
  std::vector<double>& x = by_hand.at(TensorId::x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i % static_cast<std::size_t>(normed.in_channels);
    x[i] = std::max(0.0, by_hand.at(TensorId::scale)[c] * x[i] + by_hand.at(TensorId::shift)[c]);
  }
  CHECK(relative_error(reference(plain, by_hand).at(TensorId::dw), expected) < 1e-12);
}

TEST_CASE("the rules pass a result rounded to its type, and see one of the next coarser arithmetic") {
  const Numeric numeric = GENERATE(from_range(numerics));
  const GraphSpec spec = operation_graphs(GraphKind::convolution, numeric).at(3);
  const Operands in = random_inputs(spec);
  const std::vector<double> expected = reference(spec, in).at(TensorId::y);
  std::vector<double> stored = expected;
  for (double& value : stored) { value = rounded_input(numeric, value); }
  CAPTURE(to_string(numeric));
  CHECK(relative_error(stored, expected) < operation_tolerance(numeric) / 2);

  Operands coarse = in;
  for (auto& [id, values] : coarse) {
    for (double& value : values) {
      if (numeric == Numeric::fp32) { value = rounded_input(Numeric::tf32, value); }
      if (numeric == Numeric::tf32 || numeric == Numeric::fp16) {
        value = rounded_input(Numeric::bf16, value);
      }
      if (numeric == Numeric::bf16) {
        value = std::round(value * 16) / 16;  // about four bits
      }
    }
  }
  CHECK(relative_error(reference(spec, coarse).at(TensorId::y), expected) > operation_tolerance(numeric));
}

TEST_CASE("an error that is no number is no small one") {
  CHECK(relative_error({1, std::nan("")}, {1, 2}) == HUGE_VAL);
  CHECK(relative_error({0, 2}, {1, 0}) == Approx(std::sqrt(5)));
}
