#include "workloads/probe/flags.h"

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::probe;
using virtrain::test::Contains;

namespace {

Flags parsed(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "virtrain-probe");
  return parse_flags(static_cast<int>(arguments.size()), arguments.data()).flags;
}

std::string refusal(const std::vector<const char*>& arguments, int ranks = 1) {
  try {
    chosen_probes(parsed(arguments), ranks);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    return error.message();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("flags are read") {
  const Flags flags = parsed({"--probe=all_reduce,round_trip", "--min_bytes=1KiB", "--max_bytes=1MiB",
                              "--factor=4", "--format=jsonl", "--transport=tcp"});
  CHECK(flags.probes == std::vector<std::string>{"all_reduce", "round_trip"});
  CHECK(flags.format == OutputFormat::jsonl);
  CHECK(sweep_sizes(flags) == std::vector<std::uint64_t>{1024, 4096, 16384, 65536, 262144, 1048576});
  CHECK(to_json(flags)["transport"] == "tcp");
}

TEST_CASE("without names, all that so many ranks can measure") {
  CHECK(chosen_probes({}, 1) == single_probes);
  CHECK(chosen_probes({}, 2) == rank_probes);
}

TEST_CASE("a GPU is measured where its probes are named") {
  CHECK(chosen_probes(parsed({"--probe=host_to_device,triad"}), 1) ==
        std::vector<std::string>{"host_to_device", "triad"});
}

TEST_CASE("the model's convolutions are measured where they are named, by one process") {
  CHECK(chosen_probes(parsed({"--probe=convolutions", "--batch_size=32", "--image_size=64"}), 1) ==
        std::vector<std::string>{"convolutions"});
  CHECK_THAT(refusal({"--probe=convolutions"}, 2), Contains("one process"));
  CHECK_THAT(refusal({"--batch_size=0"}), Contains("4096"));
  CHECK_THAT(refusal({"--image_size=31"}), Contains("32"));
}

TEST_CASE("NCCL is measured by any number of ranks where it is named") {
  const Flags flags = parsed({"--probe=nccl_all_reduce,nccl_broadcast", "--gpu=1", "--stall_seconds=30"});
  for (const int ranks : {1, 2, 8}) { CHECK(chosen_probes(flags, ranks) == flags.probes); }
  CHECK(flags.gpu == 1);
  CHECK(to_json(flags)["stall_seconds"] == 30);
  CHECK(nccl_collective("nccl_all_reduce") == Collective::all_reduce);
  CHECK(nccl_collective("nccl_all_gather") == Collective::all_gather);
  CHECK(nccl_collective("nccl_broadcast") == Collective::broadcast);
  CHECK_FALSE(nccl_collective("all_reduce"));
}

TEST_CASE("what cannot be is refused with what is allowed") {
  CHECK_THAT(refusal({"--bogus"}), Contains("--bogus"));
  CHECK_THAT(refusal({"--probe=treiad"}),
             Contains("treiad") && Contains("triad, memory_copy, gemm, convolutions, gpu_gemm") &&
                 Contains("nccl_all_reduce, nccl_all_gather, nccl_broadcast, all_reduce"));
  CHECK_THAT(refusal({"--probe=nccl_reduce"}), Contains("nccl_broadcast"));
  CHECK_THAT(refusal({"--stall_seconds=0"}), Contains("1"));
  CHECK_THAT(refusal({"--probe=device_copy"}, 2), Contains("one process"));
  CHECK_THAT(refusal({"--gpu=-1"}), Contains("--gpu"));
  CHECK_THAT(refusal({"--probe=triad,triad"}), Contains("twice"));
  CHECK_THAT(refusal({"--probe=all_reduce"}), Contains("mpirun -np 2") && Contains("nccl_all_reduce"));
  CHECK_THAT(refusal({"--probe=triad"}, 2),
             Contains("all_reduce, all_gather, broadcast, round_trip, nccl_all_reduce"));
  CHECK_THAT(refusal({"--min_bytes=1MB"}), Contains("16MiB"));
  CHECK_THAT(refusal({"--min_bytes=2"}), Contains("4B"));
  CHECK_THAT(refusal({"--min_bytes=1MiB", "--max_bytes=1KiB"}), Contains("less than"));
  CHECK_THAT(refusal({"--max_bytes=8GiB"}), Contains("4GiB"));
  const std::vector<const char*> large{"--min_bytes=2GiB", "--max_bytes=4GiB"};
  CHECK_THAT(refusal(large, 2), Contains("round_trip") && Contains("less than 2GiB"));
  CHECK_THAT(refusal({"--probe=round_trip", "--min_bytes=4GiB", "--max_bytes=4GiB"}, 2),
             Contains("round_trip"));
  CHECK(refusal({"--probe=round_trip", "--min_bytes=2147483647", "--max_bytes=4GiB"}, 2)
            .find("round_trip sends") == std::string::npos);
  CHECK_THAT(refusal({"--factor=1"}), Contains("2"));
  CHECK_THAT(refusal({"--iterations=0"}), Contains("1"));
  CHECK_THAT(refusal({"--repetitions=1"}), Contains("2"));
  CHECK_THAT(refusal({"--format=xml"}), Contains("table"));
  CHECK_THAT(refusal({"--bytes=1"}), Contains("4KiB"));
}

TEST_CASE("a flag that none of the probes reads is refused with those that do") {
  CHECK_THAT(refusal({"--probe=triad", "--gpu=3"}), Contains("gpu_gemm") && Contains("nccl_broadcast"));
  CHECK_THAT(refusal({"--probe=triad", "--gemm_size=64"}),
             Contains("--probe triad (allowed with: gemm, gpu_gemm)"));
  CHECK_THAT(refusal({"--probe=gemm", "--bytes=1MiB"}), Contains("triad") && Contains("peer_copy"));
  CHECK_THAT(refusal({"--probe=device_copy", "--threads=2"}), Contains("memory_copy"));
  CHECK_THAT(refusal({"--probe=triad", "--batch_size=2"}), Contains("convolutions"));
  CHECK_THAT(refusal({"--probe=triad", "--stall_seconds=5"}), Contains("gpu_gemm"));
  CHECK_THAT(refusal({"--probe=round_trip", "--max_bytes=8KiB"}, 2), Contains("all_gather"));
  CHECK_THAT(refusal({"--probe=nccl_broadcast", "--repetitions=3"}), Contains("triad"));
  CHECK_THAT(refusal({"--image_size=64"}), Contains("--probe triad,memory_copy,gemm"));
  CHECK_THAT(refusal({"--transport=tcp"}), Contains("round_trip"));
  CHECK_THAT(refusal({"--repetitions=3"}, 2), Contains("gemm"));
}

TEST_CASE("a flag that one of the probes reads is taken") {
  for (const auto& [arguments, ranks] : std::vector<std::pair<std::vector<const char*>, int>>{
           {{"--gemm_size=64", "--bytes=1MiB", "--repetitions=3", "--threads=2"}, 1},
           {{"--probe=triad,gpu_gemm", "--gemm_size=64", "--gpu=1", "--stall_seconds=5"}, 1},
           {{"--probe=round_trip", "--min_bytes=8", "--iterations=3", "--transport=tcp"}, 2},
           {{"--max_bytes=1MiB", "--factor=4", "--warmup_iterations=1"}, 2},
           {{"--probe=nccl_all_reduce", "--max_bytes=1MiB", "--gpu=1", "--format=jsonl"}, 1}}) {
    CHECK(refusal(arguments, ranks) == "not refused");
  }
}

TEST_CASE("help has examples") {
  const char* const arguments[] = {"virtrain-probe", "--help"};
  CHECK_THAT(parse_flags(2, arguments).help.value(), Contains("mpirun -np 2 virtrain-probe"));
}
