#include "harness/evidence/rank_output.h"

#include <random>

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

using Lines = std::vector<std::pair<std::int64_t, std::string>>;  ///< rank (-1: none), text

Lines lines_of(const std::vector<std::string>& pieces, std::string_view tag_end = ":") {
  RankOutputSplitter splitter(tag_end);
  Lines lines;
  const auto keep = [&](RankLine line) { lines.emplace_back(line.rank.value_or(-1), std::move(line.text)); };
  for (const auto& piece : pieces) { splitter.feed(piece, keep); }
  splitter.finish(keep);
  return lines;
}

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

}  // namespace

TEST_CASE("tagged lines belong to their ranks, untagged ones to none") {
  CHECK(lines_of({"[1,0]<stdout>:one\n[1,1]<stdout>:two\nmpirun "
                  "says\n[1,10]<stderr>:three\n[1,2]<stddiag>:four\n"}) ==
        Lines{{0, "one"}, {1, "two"}, {-1, "mpirun says"}, {10, "three"}, {2, "four"}});
  CHECK(lines_of({"{\"record\":\"hello\"}\n\nlast without end"}) ==
        Lines{{-1, "{\"record\":\"hello\"}"}, {-1, ""}, {-1, "last without end"}});
  CHECK(lines_of({""}).empty());
}

TEST_CASE("Open MPI 5 ends its tags with a blank") {
  const std::string stream =
      "[1,0]<stdout>: {\"a\":1}\n[1,1]<stdout>:  two\n[1,0]<stderr>: \n[1,2]<stdout>:three\n[1,1]<stdout>: "
      "x[1,0]<stdout>: y\n";
  const Lines whole{{0, "{\"a\":1}"}, {1, " two"}, {0, ""}, {-1, "[1,2]<stdout>:three"}, {0, "y"}, {1, "x"}};
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CHECK(lines_of({stream.substr(0, cut), stream.substr(cut)}, ": ") == whole);
  }
  CHECK(lines_of({"[1,0]<stdout>:"}, ": ") == Lines{{-1, "[1,0]<stdout>:"}});
}

TEST_CASE("a tag within a line goes on with another rank's line") {
  // As mpirun forwards pieces of two ranks: each piece has its tag, and lines end whenever they end.
  CHECK(lines_of({"[1,0]<stdout>:abc[1,1]<stdout>:xyz[1,0]<stdout>:def\n[1,1]<stdout>:uvw\n"}) ==
        Lines{{0, "abcdef"}, {1, "xyzuvw"}});
  CHECK(lines_of({"[1,0]<stdout>:a[1,1]<stdout>:b"}) == Lines{{0, "a"}, {1, "b"}});
}

TEST_CASE("the split into reads makes no difference") {
  const std::string stream =
      "[1,0]<stdout>:{\"a\":[1,2]}\n[1,1]<stdout>:x[1,0]<stderr>:[1,[2]\n[1,1]<stdout>:y\nno tag "
      "[3,]\n[1,0]<stdoux>:z\n[";
  const auto whole = lines_of({stream});
  CHECK(whole == Lines{{0, "{\"a\":[1,2]}"},
                       {0, "[1,[2]"},
                       {1, "xy"},
                       {-1, "no tag [3,]"},
                       {-1, "[1,0]<stdoux>:z"},
                       {-1, "["}});
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    CHECK(lines_of({stream.substr(0, cut), stream.substr(cut)}) == whole);
  }
  std::vector<std::string> bytes;
  for (const char c : stream) { bytes.emplace_back(1, c); }
  CHECK(lines_of(bytes) == whole);
}

TEST_CASE("what only looks like a tag is text") {
  for (const char* text :
       {"[,0]<stdout>:a", "[1,]<stdout>:a", "[1,0]stdout:a", "[1,0]<stdout>a", "[[", "[1,-1]<stdout>:a",
        "[1,99999999999999999999]<stdout>:a", "[a,0]<stdout>:", "[1,0"}) {
    CHECK(lines_of({std::string(text) + "\n"}) == Lines{{-1, text}});
  }
  // Digits without end are not waited for.
  const std::string digits = "[" + std::string(5000, '7');
  CHECK(lines_of({digits.substr(0, 100), digits.substr(100), "\n"}).size() == 1);
}

TEST_CASE("a line that is too long is cut, and the next one is whole") {
  const auto lines = lines_of(
      {"[1,0]<stdout>:{" + std::string(1 << 20, 'x'), std::string(1 << 20, 'y') + "\n[1,0]<stdout>:next\n"});
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].second.size() == max_record_bytes + 1);
  CHECK(lines[1] == std::pair<std::int64_t, std::string>(0, "next"));
  CHECK_THAT(refusal(lines[0].second), Contains("longer than 4,096 bytes"));
}

TEST_CASE("endless unfinished lines of made-up ranks are a flood") {
  RankOutputSplitter splitter;
  const auto drop = [](const RankLine&) {};
  std::int64_t rank = 0;
  const auto flood = [&] {
    for (; rank < 1'000'000; ++rank) { splitter.feed("[1," + std::to_string(rank) + "]<stdout>:x", drop); }
  };
  CHECK_THROWS_WITH(flood(), Contains("of unfinished lines"));
  CHECK(rank < 100'000);
  // Many ranks that do end their lines are none.
  RankOutputSplitter patient;
  for (rank = 0; rank < 200'000; ++rank) {
    patient.feed("[1," + std::to_string(rank) + "]<stdout>:x\n", drop);
  }
}

TEST_CASE("random bytes never do harm") {
  std::mt19937 random(7);
  const std::string alphabet = "[]1,0<stdouterdiag>:\n{}\"x\xff";
  for (int i = 0; i < 2000; ++i) {
    std::string stream(200, ' ');
    for (char& c : stream) { c = alphabet[random() % alphabet.size()]; }
    const auto cut = random() % stream.size();
    const auto whole = lines_of({stream});
    REQUIRE(lines_of({stream.substr(0, cut), stream.substr(cut)}) == whole);
    for (const auto& [rank, text] : whole) {
      try {
        decode(text);
      } catch (const Error& error) { REQUIRE(error.code() == ErrorCode::protocol); }
    }
  }
}

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
