#include <algorithm>
#include <map>
#include <set>

#include "tests/support/catch.h"
#include "workloads/common/cuda/gpu_errors.h"
#include "workloads/resnet50/cuda/plan/fusion.h"

using namespace virtrain;
using namespace virtrain::resnet50::cuda;

namespace {

const virtrain::resnet50::Model whole_model = virtrain::resnet50::build_model(224, 1000);
const std::vector<Fusion> all{Fusion::full, Fusion::statistics, Fusion::addition, Fusion::none};

/// A stand-in for the GPU: seconds of each level, and which were asked for. One that has none refuses.
struct Stopwatch {
  std::map<Fusion, double> seconds;
  std::map<Fusion, ErrorCode> refusals = {};
  std::vector<Fusion> asked = {};
  FusionChoice choose(const std::vector<Fusion>& candidates, std::optional<FusionMix> remembered = {},
                      FusionRule rule = FusionRule::auto_) {
    return choose_fusion(whole_model, {rule, candidates, Numeric::fp16, std::move(remembered)},
                         [this](const FusionMix& mix, TimingOf what) -> TimedMix {
                           if (!mix.unfused.empty() || what == TimingOf::operations) { return {}; }
                           const Fusion fusion = mix.level;
                           asked.push_back(fusion);
                           if (const auto refusal = refusals.find(fusion); refusal != refusals.end()) {
                             throw Error("time it", refusal->second, std::string("no ") + to_string(fusion));
                           }
                           return {seconds.at(fusion), {}};
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
  const auto faults = [&](const FusionMix& mix, TimingOf) -> TimedMix {
    asked.push_back(mix.level);
    throw GpuFault(Error("train", ErrorCode::io, "an illegal memory access"));
  };
  CHECK_THROWS_AS(choose_fusion(whole_model, {FusionRule::auto_, all}, faults), GpuFault);
  CHECK(asked == std::vector{Fusion::full});
}

TEST_CASE("nothing is timed where there is one level or the choice is remembered") {
  Stopwatch gpu{{{Fusion::full, 0.03}, {Fusion::none, 0.02}}};
  CHECK(gpu.choose({Fusion::full}).fusion == Fusion::full);
  CHECK(gpu.choose(all, FusionMix{Fusion::none}).fusion == Fusion::none);
  CHECK(gpu.choose(all, FusionMix{Fusion::none}).remembered);
  CHECK(gpu.asked.empty());
  gpu.choose({Fusion::full, Fusion::none}, FusionMix{Fusion::addition});  // remembered, but not possible here
  CHECK(gpu.asked.size() == 2);
}

TEST_CASE("the highest level that runs does not depend on timing, nor on what is remembered") {
  Stopwatch gpu{{{Fusion::statistics, 0.05}, {Fusion::addition, 0.01}}, {{Fusion::full, ErrorCode::io}}};
  const FusionChoice choice = gpu.choose(all, FusionMix{Fusion::addition}, FusionRule::highest);
  CHECK(choice.fusion == Fusion::statistics);
  CHECK(gpu.asked == std::vector{Fusion::full, Fusion::statistics});
  CHECK_FALSE(choice.remembered);
}

TEST_CASE(
    "one step at a time is built for the choice, each once, and a shape that was slower fused stays apart") {
  const std::string slow = "statistics 64->256 56x56 k1 s1";
  int alive = 0, most_alive = 0;
  std::vector<std::string> built;
  struct Built {  // stands for an executor, whose memory and handles live as long
    int& alive;
    explicit Built(int& count) : alive(count) { ++alive; }
    ~Built() { --alive; }
    Built(const Built&) = delete;
    Built& operator=(const Built&) = delete;
  };
  const auto time = [&](const FusionMix& mix, TimingOf) -> TimedMix {
    const Built executor(alive);
    most_alive = std::max(most_alive, alive);
    built.push_back(to_text(mix));
    const bool fused = mix.level >= Fusion::statistics && !mix.unfused.contains(slow);
    return {fused ? 0.03 : 0.02, {{slow, fused ? 0.012 : 0.002}}, mix.unfused};
  };
  const FusionChoice choice = choose_fusion(whole_model, {FusionRule::auto_, all}, time);
  CHECK(choice.fusion == Fusion::addition);  // as fast as the mix, and uniform
  CHECK(most_alive == 1);
  const std::size_t steps = kinds_of(Fusion::full) + 1;
  CHECK(built.size() == steps + 1);  // and the mix
  CHECK(std::set<std::string>(built.begin(), built.end()).size() == built.size());
  CHECK(built.back() == "full; " + slow);

  const auto faster_mixed = [&](const FusionMix& mix, TimingOf what) {
    TimedMix timed = time(mix, what);
    if (mix == FusionMix{Fusion::full, {slow}}) { timed.step_seconds = 0.01; }
    return timed;
  };
  const FusionChoice mixed = choose_fusion(whole_model, {FusionRule::auto_, all}, faster_mixed);
  CHECK(mixed.fusion == Fusion::full);
  CHECK(mixed.unfused == std::set<std::string>{slow});
  built.clear();
  choose_fusion(whole_model, {FusionRule::highest, all}, time);
  CHECK(built == std::vector<std::string>{"full"});
}

TEST_CASE("by memory an earlier run's choice is taken, and where there is none the highest level that runs") {
  Stopwatch gpu{{{Fusion::statistics, 0.05}, {Fusion::addition, 0.01}}, {{Fusion::full, ErrorCode::io}}};
  const FusionChoice known = gpu.choose(all, FusionMix{Fusion::addition}, FusionRule::remembered);
  CHECK(known.fusion == Fusion::addition);
  CHECK(known.remembered);
  CHECK(gpu.asked.empty());
  const FusionChoice none = gpu.choose(all, {}, FusionRule::remembered);
  CHECK(none.fusion == Fusion::statistics);
  CHECK_FALSE(none.remembered);
  CHECK(fusion_rule("remembered") == FusionRule::remembered);
  CHECK(fusion_rule("highest") == FusionRule::highest);
  CHECK(fusion_rule("auto") == FusionRule::auto_);
  CHECK(fusion_candidates("remembered", Numeric::fp16, 90) == all);
}

TEST_CASE(
    "a shape without an engine is part of the choice, and kinds that a type lacks are not timed twice") {
  std::vector<FusionMix> built;
  const std::string lacking = "mask 256->64 56x56 k1 s1";
  const auto time = [&](const FusionMix& mix, TimingOf) -> TimedMix {
    built.push_back(mix);
    TimedMix timed{mix.level == Fusion::addition ? 0.01 : 0.02, {}, mix.unfused};
    timed.unfused.insert(lacking);
    return timed;
  };
  const FusionChoice choice = choose_fusion(whole_model, {FusionRule::auto_, all, Numeric::bf16}, time);
  CHECK(choice.fusion == Fusion::addition);
  CHECK(choice.unfused == std::set<std::string>{lacking});
  CHECK(built.size() == kinds_of(Fusion::full));  // without one for reading through a norm
  const FusionChoice one =
      choose_fusion(whole_model, {FusionRule::auto_, {Fusion::full}, Numeric::bf16}, time);
  CHECK(one.unfused == first_kinds(whole_model, kinds_of(Fusion::full), Numeric::bf16).unfused);
  const FusionMix known{Fusion::full, {lacking}};  // more than is taken untimed
  const FusionChoice remembered = choose_fusion(
      whole_model, {FusionRule::remembered, {Fusion::addition, Fusion::none}, Numeric::bf16, known}, time);
  CHECK(remembered.fusion == Fusion::full);
  CHECK(remembered.unfused == known.unfused);
}

TEST_CASE("which levels --fusion allows") {
  CHECK(fusion_candidates("highest", Numeric::fp16, 90) == all);
  CHECK(fusion_candidates("auto", Numeric::fp16, 90) == all);
  // Engines with sums that cuDNN compiles at run time are worth it only where timing says so.
  CHECK(fusion_candidates("auto", Numeric::bf16, 90) == all);
  CHECK(fusion_candidates("highest", Numeric::bf16, 90) == std::vector{Fusion::addition, Fusion::none});
  CHECK(fusion_candidates("remembered", Numeric::bf16, 90) == std::vector{Fusion::addition, Fusion::none});
  CHECK(fusion_candidates("auto", Numeric::fp32, 90) == std::vector{Fusion::addition, Fusion::none});
  CHECK(fusion_candidates("auto", Numeric::fp16, 89) == std::vector{Fusion::addition, Fusion::none});
  CHECK(fusion_candidates("full", Numeric::bf16, 90) == std::vector{Fusion::full});
  CHECK(fusion_candidates("auto", Numeric::fp16, 75) == std::vector{Fusion::none});
  CHECK(fusion_candidates("statistics", Numeric::fp16, 100) == std::vector{Fusion::statistics});
  CHECK_THROWS_WITH(fusion_candidates("full", Numeric::fp32, 90),
                    virtrain::test::Contains("--fusion full: for fp32 on compute capability 9.0") &&
                        virtrain::test::Contains("addition"));
}

TEST_CASE("a choice is remembered for its own model and batch") {
  CHECK(fusion_key(224, 1000, Numeric::fp16, 256, 1) == "fusion resnet50 224px 1000 classes fp16 n256 x1");
  CHECK(fusion_named("full") == Fusion::full);
  CHECK_FALSE(fusion_named("auto"));
}
