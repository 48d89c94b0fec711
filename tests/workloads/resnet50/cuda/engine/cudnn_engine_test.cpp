#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/common/cuda/cublas.h"
#include "workloads/resnet50/cuda/engine/cudnn_plan.h"
#include "workloads/resnet50/cuda/plan/fusion.h"

// Asks cuDNN itself which graphs it has for which GPU, from descriptions of GPUs: no GPU is needed.

using namespace virtrain;
using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

const std::vector<int> families{75, 80, 86, 89, 90, 100, 120};
const std::vector<Numeric> numerics{Numeric::fp32, Numeric::tf32, Numeric::bf16, Numeric::fp16};

DeviceDescription describe(int family) {
  const std::string path =
      VIRTRAIN_SOURCE_DIR "/tests/workloads/resnet50/cuda/devices/sm_" + std::to_string(family) + ".json";
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return DeviceDescription(text.str());
}

/// How often the stand-in of the driver was given machine code (driver_stand_in.cpp).
int loaded_images() {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  void* const count = driver == nullptr ? nullptr : dlsym(driver, "virtrain_loaded_images");
  if (count == nullptr) { FAIL("LD_LIBRARY_PATH has no driver-stand-in; run this test by ctest"); }
  return reinterpret_cast<int (*)()>(count)();
}

/// Whether cuDNN compiles this plan; to load it takes the GPU's own machine. Where it does not, its words say
/// that the compiler failed, and not the driver.
bool compiles(BuiltGraph& graph, std::int64_t plan) {
  const int before = loaded_images();
  const bool is_built = graph.build(plan), is_loaded = loaded_images() > before;
  CAPTURE(graph.refusal());
  CHECK((is_built || is_loaded == (graph.refusal().find("NVRTC") == std::string::npos)));
  return is_built || is_loaded;
}

/// Whether cuDNN has an engine for this graph: its heuristics' choices, then its fallbacks. One that is
/// compiled at run time is only offered here: the GPU's own machine alone can load it.
bool has_engine(BuiltGraph& graph) {
  for (std::int64_t i = 0; i < graph.offered(); ++i) {
    if (graph.name(i) && (graph.is_runtime_compiled(i) || graph.build(i))) { return true; }
  }
  return false;
}

/// The first graph that cuDNN refuses, with its words; "none" if it has all of them.
std::string refusal(const std::vector<GraphSpec>& specs, const DeviceDescription& device) {
  for (const GraphSpec& spec : specs) {
    BuiltGraph graph(spec, device);
    if (!has_engine(graph)) { return to_string(spec) + ": " + graph.refusal(); }
  }
  return "none";
}

std::vector<GraphSpec> steps_graphs(Numeric numeric, Fusion fusion, int batch = 128) {
  return graphs_of_step(build_model(224, 1000), batch, numeric, fusion);
}

}  // namespace

TEST_CASE("the library of cuBLAS that cuDNN opens is found, else said to be missing") {
  CHECK_NOTHROW(load_cublas_lt(nullptr));
}

TEST_CASE("every family has an engine for each graph of each level that the trainer takes untimed there") {
  const int family = GENERATE(from_range(families));
  const DeviceDescription device = describe(family);
  for (const Numeric numeric : numerics) {
    if (!is_possible(numeric, family)) { continue; }
    for (const Fusion fusion : fusion_candidates("highest", numeric, family)) {
      CAPTURE(family, to_string(numeric), to_string(fusion));
      CHECK(refusal(steps_graphs(numeric, fusion), device) == "none");
    }
  }
}

TEST_CASE("no family could take a higher level than the table says") {
  const int family = GENERATE(75, 80, 90, 100, 120);  // 86 is as 80; 89 is kept lower on purpose
  const DeviceDescription device = describe(family);
  for (const Numeric numeric : numerics) {
    const Fusion highest = highest_fusion(numeric, family);
    if (!is_possible(numeric, family) || highest == Fusion::full || family == 75) { continue; }
    CAPTURE(family, to_string(numeric));
    CHECK_FALSE(refusal(steps_graphs(numeric, static_cast<Fusion>(static_cast<int>(highest) + 1)), device) ==
                "none");
  }
}

TEST_CASE("Turing has no bf16") {
  CHECK_FALSE(is_possible(Numeric::bf16, 75));
  CHECK(refusal(steps_graphs(Numeric::bf16, Fusion::none), describe(75)) != "none");
}

TEST_CASE("odd, large and largest batches have engines on Hopper") {
  const int batch = GENERATE(7, 256, 2560);
  CAPTURE(batch);
  const DeviceDescription device = describe(90);
  CHECK(refusal(steps_graphs(Numeric::fp16, Fusion::full, batch), device) == "none");
  CHECK(refusal(steps_graphs(Numeric::bf16, Fusion::none, batch), device) == "none");
}

TEST_CASE("strict fp32 has engines that need no compiler and little workspace at batch 256") {
  const int family = GENERATE(from_range(families));
  CAPTURE(family);
  const DeviceDescription device = describe(family);
  for (const GraphSpec& spec : steps_graphs(Numeric::fp32, Fusion::none, 256)) {
    CAPTURE(to_string(spec));
    const GraphPlan plan(BuiltGraph(spec, device), std::nullopt);
    CHECK(plan.found());
    CHECK(plan.workspace_bytes() <= most_workspace_bytes);
  }
}

TEST_CASE("engines that do not repeat bit by bit are taken only where there is no other") {
  const int family = GENERATE(75, 80, 90, 100, 120);
  CAPTURE(family);
  const DeviceDescription device = describe(family);
  int left_out = 0;
  for (const GraphSpec& spec : steps_graphs(Numeric::fp32, Fusion::none)) {
    CAPTURE(to_string(spec));
    BuiltGraph graph(spec, device);
    for (std::int64_t i = 0; i < graph.offered(); ++i) { left_out += graph.is_repeatable(i) ? 0 : 1; }
    GraphPlan plan(std::move(graph), std::nullopt);
    for (std::size_t i = 0; i < plan.candidates(); ++i) {
      plan.choose(i);
      CHECK(plan.is_repeatable());
    }
  }
  CHECK(left_out > 0);
  // Blackwell's only engines with the norm's sums.
  const GraphSpec sums{GraphKind::convolution_statistics, Numeric::fp16, 128, 64, 64, 56, 1, 1, 0};
  if (family == 100) { CHECK_FALSE(GraphPlan(BuiltGraph(sums, device), std::nullopt).is_repeatable()); }
}

TEST_CASE("where all engines want more workspace than is allowed the one that wants the least is taken") {
  const GraphSpec spec{GraphKind::backward_data, Numeric::fp32, 256, 64, 256, 56, 1, 1, 0};
  const DeviceDescription device = describe(90);
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  BuiltGraph graph(spec, device);
  for (std::int64_t i = 0; i < graph.offered(); ++i) {
    if (graph.build(i)) { least = std::min(least, graph.workspace_bytes(i).value_or(least)); }
  }
  const GraphPlan plan(BuiltGraph(spec, device), "an engine that is gone", least - 1);
  REQUIRE(plan.candidates() == 1);
  CHECK(plan.workspace_bytes() == least);
  CHECK(GraphPlan(BuiltGraph(spec, device), plan.name()).name() == plan.name());
}

TEST_CASE("each precompiled engine is a candidate, and each name once") {
  const DeviceDescription device = describe(90);
  std::size_t most = 0, named_twice = 0;
  for (const Numeric numeric : {Numeric::fp16, Numeric::fp32}) {
    for (const GraphSpec& spec : steps_graphs(numeric, Fusion::none)) {
      if (spec.kind != GraphKind::backward_data) { continue; }
      CAPTURE(to_string(spec));
      BuiltGraph graph(spec, device);
      std::multiset<std::string> names;
      for (std::int64_t i = 0; i < graph.offered(); ++i) {
        const std::optional<std::string> name = graph.name(i);
        const bool fits = graph.build(i) && graph.workspace_bytes(i).value_or(0) <= most_workspace_bytes;
        if (name && graph.is_repeatable(i) && fits) { names.insert(*name); }
      }
      const std::set<std::string> distinct(names.begin(), names.end());
      named_twice += names.size() - distinct.size();
      const GraphPlan plan(BuiltGraph(spec, device), std::nullopt);
      if (!distinct.empty()) { CHECK(plan.candidates() == distinct.size()); }
      if (!distinct.empty()) {
        CHECK(GraphPlan(BuiltGraph(spec, device), *distinct.begin()).candidates() == 1);
      }
      most = std::max(most, plan.candidates());
    }
  }
  CHECK(most > 16);
  CHECK(named_twice > 0);
}

TEST_CASE("the ends of blocks have engines that pass the ReLU, and some that have the norms' sums") {
  GraphSpec spec{GraphKind::backward_data_tail, Numeric::fp16, 128, 256, 64, 56, 1, 1, 0};
  for (const int family : {80, 90}) {
    const DeviceDescription device = describe(family);
    for (const GraphKind kind : {GraphKind::backward_data_tail, GraphKind::backward_data_tail_norm}) {
      spec.kind = kind;
      CAPTURE(family, to_string(kind));
      CHECK(GraphPlan(BuiltGraph(spec, device), std::nullopt).found());
    }
  }
  spec.kind = GraphKind::backward_data_add_mask;
  for (const Numeric numeric : {Numeric::bf16, Numeric::fp16}) {
    spec.numeric = numeric;
    BuiltGraph graph(spec, describe(90));
    CHECK(graph.offered() >= 8);
    for (std::int64_t i = 0; i < graph.offered(); ++i) { CHECK(graph.is_runtime_compiled(i)); }
  }
}

TEST_CASE(
    "asked for reductions, cuDNN compiles engines with sums for bf16, for one shape and not for another") {
  const DeviceDescription device = describe(90);
  const auto compiles_first = [&](GraphKind kind, int in, int out, int size, int kernel, int stride) {
    const GraphSpec spec{kind, Numeric::bf16, 8, in, out, size, kernel, stride, kernel / 2};
    CAPTURE(to_string(spec));
    BuiltGraph nodes(spec, device);
    CHECK_FALSE(has_engine(nodes));
    BuiltGraph graph(spec, device, SumsAs::reductions);
    REQUIRE(graph.offered() > 0);
    CHECK(graph.is_runtime_compiled(0));
    return compiles(graph, 0);
  };
  CHECK(compiles_first(GraphKind::convolution_statistics, 64, 256, 56, 1, 1));
  CHECK(compiles_first(GraphKind::convolution_statistics, 64, 64, 56, 3, 1));
  CHECK(compiles_first(GraphKind::backward_data_norm, 256, 64, 56, 1, 1));
  CHECK(compiles_first(GraphKind::backward_data_tail, 256, 64, 56, 1, 1));
  CHECK(compiles_first(GraphKind::backward_data_tail_norm, 256, 128, 56, 1, 1));
  // With a stride this one does not compile in cuDNN 9.19; compiles() checks that it is the compiler's word.
  const bool with_stride = compiles_first(GraphKind::backward_data_norm, 128, 128, 56, 3, 2);
  if (cudnn_version().starts_with("9.19.")) { CHECK_FALSE(with_stride); }
}

TEST_CASE("strict fp32 has the addition and no mask: the only engine with it does not compile") {
  const DeviceDescription device = describe(90);
  const auto any_compiles = [&](GraphKind kind) {
    BuiltGraph graph({kind, Numeric::fp32, 8, 256, 64, 56, 1, 1, 0}, device);
    for (std::int64_t i = 0; i < graph.offered(); ++i) {
      if (graph.is_selected(i) && compiles(graph, i)) { return true; }
    }
    return false;
  };
  CHECK(any_compiles(GraphKind::backward_data_add));
  const bool with_mask = any_compiles(GraphKind::backward_data_add_mask);
  if (cudnn_version().starts_with("9.19.")) { CHECK_FALSE(with_mask); }
}

TEST_CASE("reductions are asked for where nodes have no engine, and for 1x1 convolutions") {
  const DeviceDescription device = describe(90);
  const auto forms = [&](const GraphSpec& spec, const std::optional<std::string>& wanted = {}) {
    std::vector<SumsAs> asked;
    const GraphPlan plan(
        spec,
        [&](SumsAs sums) {
          asked.push_back(sums);
          // Without a driver none of the others would be built.
          return BuiltGraph(
              sums == SumsAs::node ? spec : GraphSpec{GraphKind::convolution, spec.numeric, 8, 8, 8, 8},
              device, sums);
        },
        wanted);
    CHECK(plan.found());
    return asked;
  };
  using enum SumsAs;
  const GraphSpec inner{GraphKind::convolution_statistics, Numeric::fp16, 8, 64, 64, 56, 3, 1, 1};
  const GraphSpec outer{GraphKind::convolution_statistics, Numeric::fp16, 8, 64, 256, 56, 1, 1, 0};
  GraphSpec plain = outer, bf16 = inner;
  plain.kind = GraphKind::convolution;
  bf16.numeric = Numeric::bf16;
  CHECK(forms(inner) == std::vector{node});
  CHECK(forms(outer) == std::vector{node, reductions});
  CHECK(forms(plain) == std::vector{node});
  CHECK(forms(bf16) == std::vector{node, reductions});
  const std::string known = GraphPlan(BuiltGraph(outer, device), std::nullopt).name();
  CHECK(forms(outer, known) == std::vector{node});
  CHECK(forms(outer, "reductions an engine that is gone") == std::vector{reductions, node, reductions});
  const GraphPlan other(BuiltGraph({GraphKind::convolution, Numeric::bf16, 8, 8, 8, 8}, device, reductions),
                        std::nullopt);
  REQUIRE(other.name().starts_with("reductions "));
  CHECK(other.candidates() <= 2);
  CHECK(forms(bf16, other.name()) == std::vector{reductions});
}

TEST_CASE("small images and few classes have engines") {
  const DeviceDescription device = describe(90);
  for (const Numeric numeric : numerics) {
    CAPTURE(to_string(numeric));
    CHECK(refusal(graphs_of_step(build_model(64, 10), 8, numeric, highest_fusion(numeric, 90)), device) ==
          "none");
  }
}

TEST_CASE("a graph that cuDNN does not have is refused with its words") {
  GraphSpec bf16{GraphKind::convolution_statistics, Numeric::bf16, 8, 64, 64, 56, 1, 1, 0};
  BuiltGraph with_sums(bf16, describe(90));
  CHECK_FALSE(has_engine(with_sums));
  CHECK_FALSE(with_sums.refusal().empty());
  bf16.kind = GraphKind::convolution;
  CHECK(refusal({bf16}, describe(90)) == "none");
}

TEST_CASE("a description without a key is refused with the key's name") {
  CHECK_THROWS_WITH(DeviceDescription(R"({"warpSize": 32})"),
                    virtrain::test::Contains("read the description of a GPU"));
}
