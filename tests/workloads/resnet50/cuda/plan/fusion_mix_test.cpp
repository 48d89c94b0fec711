#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/support/catch.h"
#include "tests/workloads/resnet50/cuda/program/step_settings.h"
#include "workloads/resnet50/cuda/plan/fusion.h"
#include "workloads/resnet50/cuda/writing/step_builder.h"

using namespace virtrain::resnet50;
using namespace virtrain::resnet50::cuda;

namespace {

const Model model = build_model(224, 1000);

StepProgram program_of(const FusionMix& mix) {
  StepSettings wanted = settings(8, Numeric::fp16, mix.level);
  wanted.unfused = mix.unfused;
  return build_step(model, wanted);
}

/// Operations that depend on no choice of this kind, as "name kernel".
std::multiset<std::string> independent_of(const StepProgram& program, const std::string& kind) {
  std::multiset<std::string> names;
  for (const Operation& operation : program.micro_batch) {
    const auto depends = [&](const std::string& site) { return site.starts_with(kind + " "); };
    if (std::none_of(operation.sites.begin(), operation.sites.end(), depends)) {
      const std::string graph = operation.graph ? to_string(operation.graph->spec.kind) : "";
      names.insert(operation.name + " " + operation.kernel + " " + graph);
    }
  }
  return names;
}

}  // namespace

TEST_CASE(
    "programs that follow each other differ in operations of one kind, each of which names its choice") {
  const char* const kinds[]{"addition", "mask", "statistics", "norm_gradient", "norm", "tail"};
  for (std::size_t k = 1; k <= 6; ++k) {
    CAPTURE(kinds[k - 1]);
    const StepProgram apart = program_of(first_kinds(model, k - 1, Numeric::fp16)),
                      fused = program_of(first_kinds(model, k, Numeric::fp16));
    CHECK(independent_of(apart, kinds[k - 1]) == independent_of(fused, kinds[k - 1]));
    CHECK(graphs_of(apart) != graphs_of(fused));
  }
  for (const Fusion level : {Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full}) {
    CHECK(first_kinds(model, kinds_of(level), Numeric::fp16) == FusionMix{level, {}});
  }
}

TEST_CASE("in bf16 nothing is normalized on reading, and each gradient may pass its norm all the same") {
  const FusionMix full = first_kinds(model, kinds_of(Fusion::full), Numeric::bf16);
  CHECK(full == first_kinds(model, kinds_of(Fusion::full), Numeric::tf32));
  std::set<GraphKind> kinds;
  for (const GraphSpec& spec : graphs_of(program_of(full))) { kinds.insert(spec.kind); }
  CHECK(kinds.contains(GraphKind::convolution_statistics));
  CHECK(kinds.contains(GraphKind::backward_data_norm));
  CHECK(kinds.contains(GraphKind::backward_data_tail));
  CHECK_FALSE(kinds.contains(GraphKind::norm_convolution_statistics));
  CHECK_FALSE(kinds.contains(GraphKind::norm_backward_weights));
}

TEST_CASE("each fused graph depends on the choice that its operation names") {
  for (std::size_t k = 0; k <= kinds_of(Fusion::full); ++k) {
    for (const Operation& operation : program_of(first_kinds(model, k, Numeric::fp16)).micro_batch) {
      if (!operation.graph) { continue; }
      const auto site = fusion_site(operation.graph->spec);
      CAPTURE(operation.name, site.value_or("none"));
      CHECK((!site ||
             std::find(operation.sites.begin(), operation.sites.end(), *site) != operation.sites.end()));
    }
  }
}

TEST_CASE("a graph that cuDNN refuses leaves its shape apart, and no other") {
  const StepSettings full = settings(8, Numeric::fp16, Fusion::full);
  const GraphSpec refused = convolution_graph(GraphKind::backward_data_tail, Numeric::fp16, 8,
                                              model.blocks[1].units[0].convolution);
  StepSettings apart = full;
  CHECK(leave_apart(apart, {refused}));
  CHECK_FALSE(leave_apart(apart, {refused}));  // nothing more
  CHECK(apart.unfused == std::set<std::string>{"tail 256->64 56x56 k1 s1"});
  const std::vector<GraphSpec> before = graphs_of(build_step(model, full)),
                               after = graphs_of(build_step(model, apart));
  const auto has = [](const std::vector<GraphSpec>& all, const GraphSpec& spec) {
    return std::find(all.begin(), all.end(), spec) != all.end();
  };
  CHECK(has(before, refused));
  CHECK_FALSE(has(after, refused));
  GraphSpec instead = refused;
  instead.kind = GraphKind::backward_data_add_mask;
  CHECK(has(after, instead));
  const auto lacking_in = [&](const std::vector<GraphSpec>& some, const std::vector<GraphSpec>& others) {
    return std::count_if(some.begin(), some.end(), [&](const GraphSpec& spec) { return !has(others, spec); });
  };
  CHECK(lacking_in(before, after) == 2);  // the same shape behind a block whose shortcut is projected
  CHECK(lacking_in(after, before) == 1);
  StepSettings plain = full;
  CHECK_FALSE(leave_apart(plain, {convolution_graph(GraphKind::convolution, Numeric::fp16, 8,
                                                    model.blocks[1].units[0].convolution)}));
}

TEST_CASE("whatever cuDNN refuses, a step is found that it has, with all else fused") {
  std::mt19937 generator(4);
  const Numeric numeric = GENERATE(Numeric::fp16, Numeric::bf16);
  for (int trial = 0; trial < 20; ++trial) {
    const FusionMix full = first_kinds(model, kinds_of(Fusion::full), numeric);
    StepSettings wanted = settings(8, numeric, full.level);
    wanted.unfused = full.unfused;
    std::map<GraphSpec, bool> is_refused;  // cuDNN as it may be: each fused graph is there or not
    const auto share = generator() % 5;
    std::vector<GraphSpec> refused;
    int builds = 0;
    do {
      ++builds;
      for (const GraphSpec& spec : graphs_of(build_step(model, wanted))) {
        if (is_refused.try_emplace(spec, fusion_site(spec) && generator() % 4 < share).first->second) {
          refused.push_back(spec);
        }
      }
    } while (leave_apart(wanted, refused));
    CHECK(builds <= 7);
    for (const GraphSpec& spec : graphs_of(build_step(model, wanted))) { CHECK_FALSE(is_refused[spec]); }
    for (const std::string& site : wanted.unfused) {
      const bool is_known = full.unfused.contains(site) ||
                            std::any_of(refused.begin(), refused.end(),
                                        [&](const GraphSpec& spec) { return fusion_site(spec) == site; });
      CHECK(is_known);
    }
  }
}

TEST_CASE("a shape is fused where that was faster, whatever the others are") {
  const std::string fast = "statistics 64->256 56x56 k1 s1", slow = "statistics 512->2048 7x7 k1 s1",
                    slow_mask = "mask 256->64 56x56 k1 s1";
  const std::vector<SiteSeconds> times{{{fast, 9}, {slow_mask, 9}},
                                       {{fast, 3}, {slow, 3}, {slow_mask, 2}},
                                       {{fast, 3}, {slow, 3}, {slow_mask, 2.5}},
                                       {{fast, 2}, {slow, 4}, {slow_mask, 7}}};
  const FusionMix mix{Fusion::statistics, slower_fused(model, times)};
  CHECK(mix.unfused == std::set<std::string>{slow, slow_mask});
  CHECK_FALSE(graphs_of(program_of(mix)).empty());
  CHECK(parse_fusion_mix(to_text(mix)) == mix);
}

TEST_CASE("a run says which shapes it leaves apart, so that two that chose otherwise are told apart") {
  CHECK(to_words({Fusion::full, {}}) == "full");
  const std::string one = to_words({Fusion::full, {"norm 64->64 56x56 k3 s1"}});
  CHECK(one.starts_with("full, 1 shape apart ("));
  CHECK(one == to_words({Fusion::full, {"norm 64->64 56x56 k3 s1"}}));
  CHECK(one != to_words({Fusion::full, {"norm 64->256 56x56 k1 s1"}}));
  CHECK(to_words({Fusion::statistics, {"a", "b"}}).starts_with("statistics, 2 shapes apart ("));
}

TEST_CASE("a choice that was kept is read again, and what is none is not") {
  CHECK(to_text({Fusion::full, {}}) == "full");
  CHECK(parse_fusion_mix("addition") == FusionMix{Fusion::addition, {}});
  CHECK_FALSE(parse_fusion_mix("auto"));
  CHECK_FALSE(parse_fusion_mix(""));
  CHECK_FALSE(parse_fusion_mix("full;"));
}
