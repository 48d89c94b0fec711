#include <map>

#include "tests/support/catch.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/plan/fusion.h"

using namespace virtrain;
using namespace virtrain::resnet50::cuda;

namespace {

const std::vector<Fusion> all{Fusion::full, Fusion::statistics, Fusion::addition, Fusion::none};

/// A stand-in for the GPU: seconds of each level, and which were asked for. One that has none refuses.
struct Stopwatch {
  std::map<Fusion, double> seconds;
  std::map<Fusion, ErrorCode> refusals = {};
  std::vector<Fusion> asked = {};
  FusionChoice choose(const std::vector<Fusion>& candidates, std::optional<Fusion> remembered = {},
                      FusionRule rule = FusionRule::fastest) {
    return choose_fusion(rule, candidates, remembered, [this](Fusion fusion) {
      asked.push_back(fusion);
      if (const auto refusal = refusals.find(fusion); refusal != refusals.end()) {
        throw Error("time it", refusal->second, std::string("no ") + to_string(fusion));
      }
      return seconds.at(fusion);
    });
  }
};

}  // namespace

TEST_CASE("the fastest level is taken, not the highest") {
  Stopwatch gpu{
      {{Fusion::full, 0.033}, {Fusion::statistics, 0.031}, {Fusion::addition, 0.034}, {Fusion::none, 0.04}}};
  const FusionChoice choice = gpu.choose(all);
  CHECK(choice.fusion == Fusion::statistics);
  CHECK(gpu.asked == all);
  CHECK_FALSE(choice.remembered);
  CHECK(to_json(choice)["fusion_timed"].size() == 4);
  CHECK(to_json(choice)["fusion_timed"]["full"] == 0.033);
}

TEST_CASE("of two that are equally fast the higher one is taken: it needs less memory") {
  Stopwatch gpu{{{Fusion::addition, 0.03}, {Fusion::none, 0.03}}};
  CHECK(gpu.choose({Fusion::addition, Fusion::none}).fusion == Fusion::addition);
}

TEST_CASE("a level that refuses is passed over and said") {
  Stopwatch gpu{{{Fusion::addition, 0.03}, {Fusion::none, 0.04}},
                {{Fusion::full, ErrorCode::io}, {Fusion::statistics, ErrorCode::host_unable}}};
  const FusionChoice choice = gpu.choose(all);
  CHECK(choice.fusion == Fusion::addition);
  CHECK(to_json(choice)["fusion_refused"].size() == 2);
  CHECK_THAT(to_json(choice)["fusion_refused"]["full"].get<std::string>(),
             virtrain::test::Contains("no full"));
}

TEST_CASE("where all refuse a batch that is too large is said before what cuDNN lacks") {
  Stopwatch gpu{{}, {{Fusion::full, ErrorCode::usage}, {Fusion::addition, ErrorCode::host_unable}}};
  try {
    gpu.choose({Fusion::full, Fusion::addition});
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(error.message() == "no full");
  }
  Stopwatch other{{}, {{Fusion::full, ErrorCode::io}, {Fusion::addition, ErrorCode::host_unable}}};
  CHECK_THROWS_WITH(other.choose({Fusion::full, Fusion::addition}),
                    virtrain::test::Contains("no full") && virtrain::test::Contains("no addition"));
}

TEST_CASE("after a fault of the GPU no further level is tried") {
  std::vector<Fusion> asked;
  const auto faults = [&](Fusion fusion) -> double {
    asked.push_back(fusion);
    throw GpuFault(Error("train", ErrorCode::io, "an illegal memory access"));
  };
  CHECK_THROWS_AS(choose_fusion(FusionRule::fastest, all, {}, faults), GpuFault);
  CHECK(asked == std::vector{Fusion::full});
}

TEST_CASE("nothing is timed where there is one level or the choice is remembered") {
  Stopwatch gpu{{{Fusion::full, 0.03}, {Fusion::none, 0.02}}};
  CHECK(gpu.choose({Fusion::full}).fusion == Fusion::full);
  CHECK(gpu.choose(all, Fusion::none).fusion == Fusion::none);
  CHECK(gpu.choose(all, Fusion::none).remembered);
  CHECK(gpu.asked.empty());
  gpu.choose({Fusion::full, Fusion::none}, Fusion::addition);  // remembered, but not possible here
  CHECK(gpu.asked.size() == 2);
}

TEST_CASE("the highest level that runs does not depend on timing, nor on what is remembered") {
  Stopwatch gpu{{{Fusion::statistics, 0.05}, {Fusion::addition, 0.01}}, {{Fusion::full, ErrorCode::io}}};
  const FusionChoice choice = gpu.choose(all, Fusion::addition, FusionRule::highest);
  CHECK(choice.fusion == Fusion::statistics);
  CHECK(gpu.asked == std::vector{Fusion::full, Fusion::statistics});
  CHECK_FALSE(choice.remembered);
}

TEST_CASE("by memory an earlier run's choice is taken, and where there is none the highest level that runs") {
  Stopwatch gpu{{{Fusion::statistics, 0.05}, {Fusion::addition, 0.01}}, {{Fusion::full, ErrorCode::io}}};
  const FusionChoice known = gpu.choose(all, Fusion::addition, FusionRule::remembered);
  CHECK(known.fusion == Fusion::addition);
  CHECK(known.remembered);
  CHECK(gpu.asked.empty());
  const FusionChoice none = gpu.choose(all, {}, FusionRule::remembered);
  CHECK(none.fusion == Fusion::statistics);
  CHECK_FALSE(none.remembered);
  CHECK(fusion_rule("remembered") == FusionRule::remembered);
  CHECK(fusion_rule("highest") == FusionRule::highest);
  CHECK(fusion_rule("auto") == FusionRule::fastest);
  CHECK(fusion_candidates("remembered", Numeric::fp16, 90) == all);
}

TEST_CASE("which levels --fusion allows") {
  CHECK(fusion_candidates("highest", Numeric::fp16, 90) == all);
  CHECK(fusion_candidates("auto", Numeric::fp16, 90) == all);
  CHECK(fusion_candidates("auto", Numeric::bf16, 90) == std::vector{Fusion::addition, Fusion::none});
  CHECK(fusion_candidates("auto", Numeric::fp16, 75) == std::vector{Fusion::none});
  CHECK(fusion_candidates("statistics", Numeric::fp16, 100) == std::vector{Fusion::statistics});
  CHECK_THROWS_WITH(fusion_candidates("full", Numeric::bf16, 90),
                    virtrain::test::Contains("--fusion full: for bf16 on compute capability 9.0") &&
                        virtrain::test::Contains("addition"));
}

TEST_CASE("a choice is remembered for its own model and batch") {
  CHECK(fusion_key(224, 1000, Numeric::fp16, 256, 1) == "fusion resnet50 224px 1000 classes fp16 n256 x1");
  CHECK(fusion_named("full") == Fusion::full);
  CHECK_FALSE(fusion_named("auto"));
}
