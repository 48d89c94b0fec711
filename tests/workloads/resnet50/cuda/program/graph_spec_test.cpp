#include "workloads/resnet50/cuda/program/graph_spec.h"

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

std::map<GraphKind, int> counts(Fusion fusion) {
  std::map<GraphKind, int> kinds;
  for (const GraphSpec& spec : graphs_of_step(build_model(224, 1000), 128, Numeric::fp16, fusion)) {
    ++kinds[spec.kind];
  }
  return kinds;
}

}  // namespace

TEST_CASE("a step has each distinct convolution of the model once, in its three directions") {
  // 23 shapes among the 53 convolutions (two 1x1 shapes of a stage's first block are also shortcuts'), and
  // the last layer; none goes back to the images.
  std::set<std::vector<int>> shapes;
  const Model model = build_model(224, 1000);
  for (const Unit* unit : units(model)) {
    const Convolution& c = unit->convolution;
    shapes.insert({c.in_channels, c.out_channels, c.in_size, c.kernel, c.stride});
  }
  const int distinct = static_cast<int>(shapes.size());
  const std::map<GraphKind, int> kinds = counts(Fusion::none);
  CHECK(kinds == std::map<GraphKind, int>{{GraphKind::convolution, distinct + 1},
                                          {GraphKind::backward_data, distinct},
                                          {GraphKind::backward_weights, distinct + 1}});
}

TEST_CASE("each level uses more fused graphs") {
  CHECK(counts(Fusion::addition).count(GraphKind::backward_data_add) == 1);
  CHECK(counts(Fusion::addition).count(GraphKind::convolution_statistics) == 0);
  CHECK(counts(Fusion::statistics).count(GraphKind::convolution_statistics) == 1);
  CHECK(counts(Fusion::full).count(GraphKind::norm_convolution_statistics) == 1);
}

TEST_CASE("the images have four channels and nothing else is padded") {
  const std::vector<GraphSpec> specs = graphs_of_step(build_model(224, 1000), 2, Numeric::bf16, Fusion::none);
  CHECK(specs.front().in_channels == 4);
  CHECK(to_string(specs.front()) == "convolution bf16 n2 4->64 224x224 k7 s2");
  CHECK(std::count_if(specs.begin(), specs.end(), [](const auto& s) { return s.in_channels < 64; }) == 2);
}
