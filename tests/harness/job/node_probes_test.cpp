#include "harness/job/node_probes.h"

#include "common/error.h"
#include "common/text/text.h"
#include "tests/support/catch.h"

namespace virtrain::harness {
namespace {

// Written by virtrain-probe, shortened.
constexpr const char* records =
    R"({"record":"hello","rank":0,"hostname":"t1n1","size":1}
{"record":"probe","rank":0,"name":"triad","node":"t1n1","nodes":1,"ranks":1,"data_type":"double","seconds":0.25,)"
    R"("size_bytes":67108864,"value":805306368.0,"unit":"B/s","transport":null,"bus_bytes_per_second":null,)"
    R"("wrong":0,"measured_at":"2026-11-20T19:37:09.258Z","detail":{"threads":2}}
{"record":"probe","rank":0,"name":"gemm","nodes":1,"ranks":1,"data_type":"float","size_bytes":null,"seconds":0.5,)"
    R"("value":4.0e9,"unit":"FLOP/s","wrong":0,"measured_at":"2026-11-20T19:37:13.296Z","detail":null}
{"record":"result","rank":0,"scope":"tenant","figures":2,"wrong":0}
)";

TEST_CASE("figures of virtrain-probe are of the arm and node that it ran in") {
  const auto figures = parse_probe_records(records, "vm", "t1n1");
  REQUIRE(figures.size() == 2);
  CHECK(figures[0].name == "triad");
  CHECK(figures[0].arm == "vm");
  CHECK(figures[0].node == "t1n1");
  CHECK(figures[0].size_bytes == 67108864);
  CHECK(figures[0].value == 805306368.0);
  CHECK(figures[0].detail["threads"] == 2);
  CHECK(figures[1].data_type == "float");
  CHECK(figures[1].unit == "FLOP/s");
  CHECK_FALSE(figures[1].size_bytes);
  CHECK_FALSE(figures[1].bus_bytes_per_second);
}

TEST_CASE("what is no record of virtrain-probe fails with the node's name") {
  for (const auto* text :
       {"Illegal instruction\n", "{\"rank\":0}\n", "5", R"({"record":"probe","value":"fast"})"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_probe_records(text, "vm", "t1n2"),
                      virtrain::test::Contains("virtrain-probe has measured in t1n2"));
  }
}

TEST_CASE("row 3: a figure that the database would refuse is refused in words, however deep it is") {
  const auto refusal = [](const std::string& changed) {
    const std::string figure =
        R"({"record":"probe","name":"triad","unit":"B/s","value":1.5,"seconds":0.1,"nodes":1,"wrong":0,)";
    try {
      parse_probe_records(figure + changed + "}", "vm", "t1n2");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::trial_failed);
      return error.message();
    }
    return std::string("(accepted)");
  };
  CHECK(refusal(R"("detail":{"a":[1]})") == "(accepted)");
  for (const auto* odd :
       {R"("unit":"furlongs")", R"("unit":null)", R"("unit":7)", R"("name":"")", R"("name":null)",
        R"("value":-1)", R"("value":null)", R"("value":"1")", R"("seconds":0)", R"("seconds":-1)",
        R"("nodes":0)", R"("nodes":1e300)", R"("nodes":18446744073709551615)", R"("ranks":1.5)",
        R"("size_bytes":-1)", R"("wrong":-1)", R"("bus_bytes_per_second":-1)", R"("transport":[])",
        R"("measured_at":5)"}) {
    INFO(odd);
    CHECK_THAT(refusal(odd), virtrain::test::Contains("is odd: {"));
  }
  CHECK_THAT(refusal("\"unit\":\"\x1b[2J\""), !virtrain::test::Contains("\x1b"));
  constexpr std::size_t deep = 32'000;
  CHECK_THAT(refusal("\"detail\":" + std::string(deep, '[') + std::string(deep, ']')),
             virtrain::test::Contains("nested deeper than 16 levels"));
}

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
