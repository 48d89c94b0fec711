#include "harness/execute/node_probes.h"

#include <catch2/catch.hpp>

#include "common/error.h"
#include "common/text.h"

namespace virtrain::harness {
namespace {

// Written by virtrain-probe, shortened.
constexpr const char* kRecords =
    R"({"record":"hello","rank":0,"hostname":"t1n1","size":1}
{"record":"probe","rank":0,"name":"triad","node":"t1n1","nodes":1,"ranks":1,"data_type":"double","seconds":0.25,)"
    R"("size_bytes":67108864,"value":805306368.0,"unit":"B/s","transport":null,"bus_bytes_per_second":null,)"
    R"("wrong":0,"measured_at":"2026-11-20T19:37:09.258Z","detail":{"threads":2}}
{"record":"probe","rank":0,"name":"gemm","nodes":1,"ranks":1,"data_type":"float","size_bytes":null,"seconds":0.5,)"
    R"("value":4.0e9,"unit":"FLOP/s","wrong":0,"measured_at":"2026-11-20T19:37:13.296Z","detail":null}
{"record":"result","rank":0,"scope":"tenant","figures":2,"wrong":0}
)";

TEST_CASE("figures of virtrain-probe are of the arm and node that it ran in") {
  const auto figures = parse_probe_records(kRecords, "vm", "t1n1");
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
       {"Illegal instruction\n", "{\"rank\":0}\n", R"({"record":"probe","value":"fast"})"}) {
    INFO(text);
    CHECK_THROWS_WITH(parse_probe_records(text, "vm", "t1n2"),
                      Catch::Contains("virtrain-probe has measured in t1n2"));
  }
}

TEST_CASE("three arrays fit into half of the node, up to 1 GiB each") {
  const auto bytes = [](std::uint64_t memory) { return probe_command("p", {"triad", "gemm"}, memory)[8]; };
  CHECK(bytes(768ULL << 20) == "128MiB");
  CHECK(bytes(64ULL << 30) == "1024MiB");
  CHECK(join(probe_command("p", {"triad", "gemm"}, 1ULL << 30), " ") ==
        "p --format jsonl --probe triad,gemm --repetitions 5 --bytes 170MiB --gemm_size 1024");
}

TEST_CASE("virtrain-probe is given no flag that none of its probes reads") {
  CHECK(join(probe_command("p", {"gemm"}, 1ULL << 30), " ") ==
        "p --format jsonl --probe gemm --repetitions 5 --gemm_size 1024");
  CHECK(join(probe_command("p", {"memory_copy"}, 1ULL << 30), " ") ==
        "p --format jsonl --probe memory_copy --repetitions 5 --bytes 170MiB");
}

}  // namespace
}  // namespace virtrain::harness
