#include "harness/evidence/workload_records.h"

#include "common/error.h"
#include "common/text/text.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

std::optional<RankRecord> decode(const std::string& text, std::optional<std::int64_t> rank = std::nullopt) {
  return decode_record({rank, text});
}

std::string refusal(const std::string& text, std::optional<std::int64_t> rank = std::nullopt) {
  try {
    decode(text, rank);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::protocol);
    return error.message();
  }
  return "(accepted)";
}

// Written by virtrain-probe, shortened.
constexpr const char* probe_records =
    R"({"record":"hello","rank":0,"hostname":"t1n1","size":1}
{"record":"probe","rank":0,"name":"triad","node":"t1n1","nodes":1,"ranks":1,"data_type":"double","seconds":0.25,)"
    R"("size_bytes":67108864,"value":805306368.0,"unit":"B/s","transport":null,"bus_bytes_per_second":null,)"
    R"("wrong":0,"measured_at":"2026-11-20T19:37:09.258Z","detail":{"threads":2}}
{"record":"probe","rank":0,"name":"gemm","nodes":1,"ranks":1,"data_type":"float","size_bytes":null,"seconds":0.5,)"
    R"("value":4.0e9,"unit":"FLOP/s","wrong":0,"measured_at":"2026-11-20T19:37:13.296Z","detail":null}
{"record":"result","rank":0,"scope":"tenant","figures":2,"wrong":0}
)";

}  // namespace

TEST_CASE("records of each kind") {
  const std::vector<std::pair<std::string, Said>> records{
      {R"({"record":"hello","rank":3,"size":4,"local_rank":1,"hostname":"t1n2"})", protocol::Hello()},
      {R"({"record":"ready","rank":3,"parameters_hash":"ab"})", protocol::Ready()},
      {R"({"record":"warmup","rank":3,"t_ns":5})", protocol::Warmup()},
      {R"({"record":"sample","rank":3,"t_ns":5,"step":1,"images":4,"seconds":0.25,"loss":7.1})",
       protocol::Sample()},
      {R"({"record":"later","rank":3,"t_ns":5,"step":1,"images":4,"seconds":0.25})", protocol::Later()},
      {R"({"record":"result","rank":3,"images_per_second":16.0,"scope":"rank","parameters_hash":"cd"})",
       protocol::Result()},
      {R"({"record":"result","rank":3,"images_per_second":16.0,"scope":"trial"})", protocol::Result()},
      {R"({"record":"error","rank":3,"message":"no memory"})", protocol::Failure()},
      {R"({"record":"something new","rank":3,"x":1})", Said()}};
  for (const auto& [text, kind] : records) {
    INFO(text);
    const auto record = decode(text, 3);
    REQUIRE(record);
    CHECK(record->said.index() == kind.index());
    CHECK(record->rank == 3);
    CHECK_THAT(refusal(text, 2), Contains("rank 2 sent a record of another rank"));
  }
}

TEST_CASE("lines of libraries are no records") {
  for (const char* text : {"", "NCCL INFO", " {", "[{\"record\":\"hello\"}]", "onednn_verbose"}) {
    CHECK_FALSE(decode(text));
  }
}

TEST_CASE("broken records are refused in words") {
  const std::string sample = R"({"record":"sample","rank":0,"t_ns":5,"step":1,"images":4,"seconds":0.25})";
  const auto with = [&](const std::string& from, const std::string& to) {
    auto text = sample;
    return text.replace(text.find(from), from.size(), to);
  };
  CHECK(refusal(sample) == "(accepted)");
  CHECK_THAT(refusal("{"), Contains("not a JSON object"));
  CHECK_THAT(refusal("{} trailing"), Contains("not a JSON object"));
  CHECK_THAT(refusal("{}"), Contains("does not say which it is"));
  CHECK_THAT(refusal(R"({"record":"sample"})"), Contains("does not say its rank"));
  CHECK_THAT(refusal(R"({"record":"sample","rank":"0"})"), Contains("does not say its rank"));
  CHECK_THAT(refusal(R"({"record":"sample","rank":0.5})"), Contains("does not say its rank"));
  for (const char* bad : {"0", "-1", "1e999", "null", "\"1\"", "NaN", "Infinity"}) {
    CHECK(refusal(with("\"seconds\":0.25", std::string("\"seconds\":") + bad)) != "(accepted)");
  }
  for (const char* bad : {"-1", "1.5", "null", "99999999999999999999", "18446744073709551615"}) {
    CHECK_THAT(refusal(with("\"images\":4", std::string("\"images\":") + bad)),
               Contains("'images' must be a whole number"));
  }
  CHECK_THAT(refusal(with("\"t_ns\":5", "\"t\":5")), Contains("'t_ns'"));
  CHECK_THAT(
      refusal(R"({"record":"result","rank":0,"images_per_second":0,"scope":"rank","parameters_hash":"a"})"),
      Contains("'images_per_second' must be a positive finite number"));
  CHECK_THAT(
      refusal(R"({"record":"result","rank":0,"images_per_second":1,"scope":"rank","parameters_hash":5})"),
      Contains("'parameters_hash' must be text"));
  CHECK_THAT(refusal(R"({"record":"hello","rank":0,"size":1,"local_rank":0})"),
             Contains("'hostname' must be text"));
  CHECK_THAT(refusal(R"({"record":"error","rank":0,"message":5})"), Contains("'message' must be text"));
  CHECK_THAT(refusal("{\"\x1b[2J"), Contains("\uFFFD[2J"));
  CHECK_THAT(
      refusal(R"({"record":"hello","rank":0,"x":)" + std::string(900, '[') + std::string(900, ']') + "}"),
      Contains("not a JSON object"));
  CHECK(refusal(with("\"seconds\":0.25", "\"seconds\":1e9")) != "(accepted)");
}

TEST_CASE("row 5: what the schema would refuse is refused when it is received") {
  const auto hello = [](const std::string& more) {
    return refusal(R"({"record":"hello","rank":0,"size":1,"local_rank":0,"hostname":"a",)" + more + "}");
  };
  const auto result = [](const std::string& more) {
    return refusal(
        R"({"record":"result","rank":0,"images_per_second":1,"scope":"rank","parameters_hash":"a",)" + more +
        "}");
  };
  for (const char* good :
       {R"("pid":1,"isa":"avx2","threads":2,"cpuset":"0-3","memory_limit_bytes":5)",
        R"("pid":null,"isa":null,"threads":null,"cpuset":null,"memory_limit_bytes":null)"}) {
    CHECK(hello(good) == "(accepted)");
  }
  for (const char* bad :
       {R"("size":0)", R"("pid":0)", R"("pid":1e300)", R"("pid":"1")", R"("isa":7)", R"("threads":0)",
        R"("cpuset":[])", R"("memory_limit_bytes":0)", R"("memory_limit_bytes":1e300)"}) {
    INFO(bad);
    CHECK_THAT(hello(bad), Contains("must be"));
  }
  CHECK(result(R"("loss_first":-1,"loss_last":null,"peak_rss_bytes":0,"step_seconds_p50":0.1)") ==
        "(accepted)");
  for (const char* bad : {R"("loss_first":"x")", R"("loss_last":[])", R"("peak_rss_bytes":-1)",
                          R"("peak_rss_bytes":1e300)", R"("step_seconds_p50":0)", R"("step_seconds_p95":-1)",
                          R"("step_seconds_p99":"fast")", R"("allreduce_seconds_exposed":-1)"}) {
    INFO(bad);
    CHECK_THAT(result(bad), Contains("must be"));
  }
  CHECK_THAT(refusal(R"({"record":"sample","rank":0,"t_ns":5,"step":1,"images":0,"seconds":0.25})"),
             Contains("'images' must be a whole number of at least 1"));
}

TEST_CASE("a record that is longer than the protocol allows is refused") {
  CHECK_THAT(refusal("{" + std::string(max_record_bytes, 'x')), Contains("longer than 4,096 bytes"));
}

TEST_CASE("a stressor's records are read strictly") {
  const auto said = [](const std::string& line) { return decode_stressor_record({std::nullopt, line}); };
  const std::string good =
      R"({"record":"progress","t_ns":5,"seconds":1.0,"busy":0.5,"rate":7.0,"unit":"B/s"})";
  const auto record = said(good);
  REQUIRE(record);
  const auto* progress = std::get_if<protocol::Progress>(&*record);
  REQUIRE(progress != nullptr);
  CHECK(progress->t_ns == 5);
  CHECK(progress->busy == 0.5);
  CHECK(progress->unit == "B/s");
  for (const std::string field : {R"("t_ns":5)", R"("seconds":1.0)", R"("busy":0.5)", R"("rate":7.0)"}) {
    const auto name = field.substr(0, field.find(':'));
    for (const auto& bad : {std::string(R"("other":1)"), name + ":\"x\"", name + ":null", name + ":-1.5"}) {
      auto line = good;
      line.replace(line.find(field), field.size(), bad);
      INFO(line);
      CHECK_THROWS_WITH(said(line), Contains(" must be "));
    }
  }
  CHECK(std::get<protocol::StressorReady>(*said(R"({"record":"ready","port":4711})")).port == 4711);
  for (const auto* odd : {R"({"record":"ready"})", R"({"record":"ready","port":70000})"}) {
    CHECK_FALSE(std::get<protocol::StressorReady>(*said(odd)).port);
  }
  CHECK(std::get<protocol::Failure>(*said(R"({"record":"error","message":"full"})")).message == "full");
  CHECK(said(R"({"record":"hello"})")->index() == 0);
  CHECK_FALSE(said("a library's words"));
  CHECK_THROWS_WITH(said("{half"), Contains("not a JSON object"));
}

TEST_CASE("figures of virtrain-probe are of the arm and node that it ran in") {
  const auto figures = parse_probe_records(probe_records, "vm", "t1n1", 3);
  REQUIRE(figures.size() == 2);
  CHECK(figures[0].name == "triad");
  CHECK(figures[0].arm == "vm");
  CHECK(figures[0].node == "t1n1");
  CHECK(figures[0].run == 3);
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
    CHECK_THROWS_WITH(parse_probe_records(text, "vm", "t1n2", 3),
                      Contains("virtrain-probe has measured in t1n2"));
  }
}

TEST_CASE("row 3: a figure that the database would refuse is refused in words, however deep it is") {
  const auto refusal = [](const std::string& changed) {
    const std::string figure =
        R"({"record":"probe","name":"triad","unit":"B/s","value":1.5,"seconds":0.1,"nodes":1,"wrong":0,)";
    try {
      parse_probe_records(figure + changed + "}", "vm", "t1n2", 3);
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
    CHECK_THAT(refusal(odd), Contains(" must be "));
  }
  CHECK_THAT(refusal("\"unit\":\"\x1b[2J\""), !Contains("\x1b"));
  constexpr std::size_t deep = 32'000;
  CHECK_THAT(refusal("\"detail\":" + std::string(deep, '[') + std::string(deep, ']')),
             Contains("nested deeper than 16 levels"));
}
