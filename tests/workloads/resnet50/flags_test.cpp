#include "workloads/resnet50/flags.h"

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::resnet50;

namespace {

const BackendAbility backend{"virtrain-resnet50-cpu", "CPU", {Precision::fp32, Precision::bf16}};
const BackendAbility without_bf16{"virtrain-resnet50-cpu", "CPU", {Precision::fp32}};
const BackendAbility gpu{"virtrain-resnet50-cuda",
                         "GPU",
                         {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16},
                         60,
                         {"none", "addition", "statistics", "full"},
                         true};

ParsedFlags parse(std::vector<const char*> arguments, const BackendAbility& on = backend) {
  arguments.insert(arguments.begin(), "virtrain-resnet50-cpu");
  return parse_flags(static_cast<int>(arguments.size()), arguments.data(), on);
}

/// The refusal's message; "" if nothing was refused or not as a usage error.
/// As CLI11 words it before version 2.4, which has "[1 - 4096]" where that has "1 to 4096".
std::string refusal(const std::vector<const char*>& arguments, const BackendAbility& on = backend) {
  try {
    parse(arguments, on);
  } catch (const Error& error) {
    std::string words = error.code() == ErrorCode::usage ? error.message() : "";
    if (const auto between = words.find(" - "); between != words.npos) { words.replace(between, 3, " to "); }
    return words;
  }
  return "";
}

}  // namespace

TEST_CASE("flags follow tf_cnn_benchmarks, with '=' or a blank") {
  const Flags flags = parse({"--batch_size=16", "--num_batches", "7", "--num_warmup_batches=3",
                             "--display_every=2", "--precision", "bf16", "--image_size=64", "--seed=9",
                             "--accumulate_steps=4", "--residual_gamma=0.1", "--learning_rate=0.2",
                             "--num_threads=3", "--bucket_mib=8", "--steady_seconds=30", "--stall_seconds=90",
                             "--trace=t.json", "--format=tf_cnn_benchmarks", "--num_classes=12"})
                          .flags;
  CHECK(flags.batch_size == 16);
  CHECK(flags.steps == 7);
  CHECK(flags.warmup_steps == 3);
  CHECK(flags.display_every == 2);
  CHECK(flags.precision == Precision::bf16);
  CHECK(flags.image_size == 64);
  CHECK(flags.seed == 9);
  CHECK(flags.accumulate_steps == 4);
  CHECK(flags.residual_gamma == 0.1);
  CHECK(flags.learning_rate == 0.2);
  CHECK(flags.threads == 3);
  CHECK(flags.bucket_mib == 8);
  CHECK(flags.format == OutputFormat::tf_cnn_benchmarks);
  CHECK(flags.num_classes == 12);
  CHECK(flags.steady_seconds == 30);
  CHECK(flags.stall_seconds == 90);
  CHECK(flags.trace == "t.json");
  CHECK(to_json(flags)["precision"] == "bf16");
  CHECK(to_json(flags)["trace"] == "t.json");
  CHECK(to_json(flags)["dump"].is_null());
}

TEST_CASE("levels of fusion and a step's profile are the GPU's") {
  const Flags flags = parse({"--fusion=statistics", "--profile_step=p.jsonl"}, gpu).flags;
  CHECK(to_json(flags)["fusion"] == "statistics");
  CHECK(to_json(flags)["profile_step"] == "p.jsonl");
  CHECK(parse({}, gpu).flags.fusion == "auto");
  CHECK_THAT(refusal({"--fusion=most"}, gpu),
             virtrain::test::Contains("--fusion") && virtrain::test::Contains("statistics"));
  CHECK(parse({"--fusion=auto"}).flags.fusion == "auto");
  CHECK_THAT(refusal({"--fusion=full"}),
             virtrain::test::Contains("--fusion") && virtrain::test::Contains("auto"));
  CHECK_THAT(refusal({"--profile_step=p.jsonl"}), virtrain::test::Contains("--profile_step"));
  CHECK_FALSE(parse({}, gpu).flags.shared_gpu);
  CHECK(to_json(parse({"--shared_gpu"}, gpu).flags)["shared_gpu"] == true);
  CHECK_THAT(refusal({"--shared_gpu"}), virtrain::test::Contains("--shared_gpu"));
  CHECK(to_json(parse({}, gpu).flags)["register_gradients"] == false);
  CHECK(parse({"--register_gradients"}, gpu).flags.register_gradients);
  CHECK_THAT(refusal({"--register_gradients"}), virtrain::test::Contains("--register_gradients"));
}

TEST_CASE("what is not allowed is refused with what is") {
  CHECK_THAT(refusal({"--batch_size=0"}),
             virtrain::test::Contains("--batch_size") && virtrain::test::Contains("1 to 4096"));
  CHECK_THAT(refusal({"--batch_size=1.5"}), virtrain::test::Contains("--batch_size"));
  CHECK_THAT(refusal({"--batch_size=many"}), virtrain::test::Contains("--batch_size"));
  CHECK_THAT(refusal({"--image_size=31"}), virtrain::test::Contains("32 to 1024"));
  CHECK_THAT(refusal({"--precision=fp8"}),
             virtrain::test::Contains("fp32") && virtrain::test::Contains("bf16"));
  CHECK_THAT(refusal({"--format=xml"}), virtrain::test::Contains("tf_cnn_benchmarks"));
  CHECK_THAT(refusal({"--no_such_flag"}), virtrain::test::Contains("--no_such_flag"));
  CHECK_THAT(refusal({"--num_batches=3", "--num_batches=4"}), virtrain::test::Contains("--num_batches"));
  CHECK_THAT(refusal({"stray"}), virtrain::test::Contains("stray"));
  for (const char* seed : {"--seed=-1", "--seed=18446744073709551616", "--seed=1x", "--seed=1.5"}) {
    CAPTURE(seed);
    CHECK_THAT(refusal({seed}),
               virtrain::test::Contains("--seed") && virtrain::test::Contains("0 to 18446744073709551615"));
  }
  CHECK(parse({"--seed=18446744073709551615"}).flags.seed == UINT64_MAX);
  for (const char* rate : {"--learning_rate=nan", "--learning_rate=-nan", "--learning_rate=NaN(1)",
                           "--learning_rate=inf", "--learning_rate=-0.1", "--learning_rate=10.1"}) {
    CAPTURE(rate);
    CHECK_THAT(refusal({rate}),
               virtrain::test::Contains("--learning_rate") && virtrain::test::Contains("0 to 10"));
  }
  CHECK_THAT(refusal({"--residual_gamma=nan"}), virtrain::test::Contains("--residual_gamma"));
  CHECK_THAT(refusal({"--bucket_mib=0"}),
             virtrain::test::Contains("--bucket_mib") && virtrain::test::Contains("1 to 1024"));
  CHECK_THAT(refusal({"--accumulate_steps=0"}), virtrain::test::Contains("1 to 1024"));
  CHECK_THAT(refusal({"--steady_seconds=3601"}), virtrain::test::Contains("0 to 3600"));
  CHECK_THAT(refusal({"--stall_seconds=0"}), virtrain::test::Contains("1 to 86400"));
  const std::string half(513, 'x');
  CHECK_THAT(
      refusal({"--num_batches=1", "--num_warmup_batches=0", "--dump", half.c_str(), "--trace", half.c_str()}),
      virtrain::test::Contains("1024 bytes"));
}

TEST_CASE("precisions that this machine lacks are refused with those it has") {
  CHECK_THAT(refusal({"--use_fp16"}),
             virtrain::test::Contains("--use_fp16") && virtrain::test::Contains("fp32|bf16"));
  CHECK_THAT(refusal({"--precision=fp16"}), virtrain::test::Contains("fp32|bf16"));
  CHECK_THAT(refusal({"--precision=bf16"}, without_bf16), virtrain::test::Contains("--precision fp32"));
  CHECK_THAT(refusal({"--precision=tf32"}),
             virtrain::test::Contains("tf32") && virtrain::test::Contains("fp32|bf16"));
  CHECK_THAT(refusal({"--use_fp16", "--precision=fp32"}), virtrain::test::Contains("contradicts"));
  CHECK_THAT(refusal({"--use_fp16", "--precision=tf32"}, gpu), virtrain::test::Contains("contradicts"));
}

TEST_CASE("a GPU has all precisions, each under its name") {
  for (const char* name : {"fp32", "tf32", "bf16", "fp16"}) {
    const Flags flags = parse({"--precision", name}, gpu).flags;
    CHECK(to_json(flags)["precision"] == name);
  }
  CHECK(parse({"--use_fp16"}, gpu).flags.precision == Precision::fp16);
}

TEST_CASE("a backend says for how long it looks for a steady state") {
  CHECK(parse({}).flags.steady_seconds == 0);
  CHECK(parse({}, gpu).flags.steady_seconds == 60);
  CHECK(parse({"--steady_seconds=0"}, gpu).flags.steady_seconds == 0);
  // A dump is of the first step.
  const std::vector<const char*> dump{"--dump=x", "--num_batches=1", "--num_warmup_batches=0"};
  CHECK(parse(dump, gpu).flags.steady_seconds == 0);
  CHECK_THAT(refusal({"--dump=x", "--num_batches=1", "--num_warmup_batches=0", "--steady_seconds=5"}, gpu),
             virtrain::test::Contains("--steady_seconds=0"));
}

TEST_CASE("contradictions are refused") {
  CHECK_THAT(refusal({"--dump=x", "--num_batches=2", "--num_warmup_batches=0"}),
             virtrain::test::Contains("--num_batches=1"));
  CHECK_THAT(refusal({"--dump=x", "--num_batches=1"}), virtrain::test::Contains("--num_warmup_batches=0"));
  CHECK_THAT(refusal({"--dump=x", "--num_batches=1", "--num_warmup_batches=0", "--num_later_batches=5"}),
             virtrain::test::Contains("--num_later_batches=0"));
  CHECK_THAT(refusal({"--batch_size=1", "--image_size=32"}), virtrain::test::Contains("--batch_size 2"));
  CHECK(refusal({"--batch_size=1", "--image_size=33"}).empty());
}

TEST_CASE("help has an example") {
  const ParsedFlags parsed = parse({"--help"});
  REQUIRE(parsed.help);
  CHECK_THAT(*parsed.help, virtrain::test::Contains("Examples:") && virtrain::test::Contains("--bucket_mib"));
}
