#include "harness/job/node_probes.h"

#include "common/text/text.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

constexpr std::uint64_t gib = 1ULL << 30;

/// The command lines in a node with so many GPUs.
std::vector<std::string> lines_of(const std::vector<std::string>& probes, std::uint64_t memory_bytes,
                                  std::int64_t gpus = 0) {
  std::vector<std::string> lines;
  for (const auto& command : probe_commands("p", probes, memory_bytes, gpus)) {
    lines.push_back(join(command, " "));
  }
  return lines;
}

TEST_CASE("three arrays fit into half of the node, up to 1 GiB each") {
  CHECK(lines_of({"triad"}, 768ULL << 20)[0] ==
        "p --format jsonl --probe triad --repetitions 5 --bytes 128MiB");
  CHECK(lines_of({"triad"}, 64 * gib)[0] == "p --format jsonl --probe triad --repetitions 5 --bytes 1024MiB");
  CHECK(lines_of({"triad", "gemm"}, gib)[0] ==
        "p --format jsonl --probe triad,gemm --repetitions 5 --bytes 170MiB --gemm_size 1024");
}

TEST_CASE("virtrain-probe is given no flag that none of its probes reads") {
  CHECK(lines_of({"gemm"}, gib)[0] == "p --format jsonl --probe gemm --repetitions 5 --gemm_size 1024");
  CHECK(lines_of({"memory_copy"}, gib)[0] ==
        "p --format jsonl --probe memory_copy --repetitions 5 --bytes 170MiB");
  CHECK(lines_of({"gpu_gemm"}, gib, 1)[0] == "p --format jsonl --probe gpu_gemm --repetitions 5 --gpu 0");
}

TEST_CASE("each GPU of a node is measured, after its host and with host memory that the node has") {
  const auto lines = lines_of({"peer_copy", "gemm", "gpu_gemm"}, gib, 2);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0] == "p --format jsonl --probe gemm --repetitions 5 --gemm_size 1024");
  CHECK(lines[1] == "p --format jsonl --probe peer_copy,gpu_gemm --repetitions 5 --gpu 0 --bytes 128MiB");
  CHECK(lines[2] == "p --format jsonl --probe peer_copy,gpu_gemm --repetitions 5 --gpu 1 --bytes 128MiB");
  CHECK_THAT(lines_of({"device_copy"}, 64 * gib, 1)[0], virtrain::test::EndsWith("--bytes 256MiB"));
  CHECK(lines_of({"gpu_gemm"}, gib).empty());  // a node without GPUs
}

}  // namespace
}  // namespace virtrain::harness
