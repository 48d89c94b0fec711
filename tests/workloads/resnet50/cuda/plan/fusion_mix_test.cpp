#include <algorithm>

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
    const auto depends = [&](const std::string& site) { return site.starts_with(kind); };
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
  const char* const kinds[]{"addition", "mask", "statistics", "norm", "tail"};
  for (std::size_t k = 1; k <= 5; ++k) {
    CAPTURE(kinds[k - 1]);
    const StepProgram apart = program_of(first_kinds(model, k - 1)),
                      fused = program_of(first_kinds(model, k));
    CHECK(independent_of(apart, kinds[k - 1]) == independent_of(fused, kinds[k - 1]));
    CHECK(graphs_of(apart) != graphs_of(fused));
  }
  for (const Fusion level : {Fusion::none, Fusion::addition, Fusion::statistics, Fusion::full}) {
    CHECK(first_kinds(model, kinds_of(level)) == FusionMix{level, {}});
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
