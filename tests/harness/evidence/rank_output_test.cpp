#include "harness/evidence/rank_output.h"

#include <random>

#include "common/error.h"
#include "harness/evidence/workload_records.h"
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

TEST_CASE("a carriage return ends a line, as progress bars have it") {
  CHECK(lines_of({"one\r\n\r\ntwo\r\n"}) == Lines{{-1, "one"}, {-1, "two"}});
  CHECK(lines_of({"\r 1 %\r 2 %\r 3 %\nend\n"}) ==
        Lines{{-1, " 1 %"}, {-1, " 2 %"}, {-1, " 3 %"}, {-1, "end"}});
  CHECK(lines_of({"1 %\r", "2 %\r", "\n", "\n"}) == Lines{{-1, "1 %"}, {-1, "2 %"}, {-1, ""}});
  CHECK(lines_of({"[1,2]<stdout>:1 %\r2 %\r", "[1,0]<stdout>:x\n[1,2]<stdout>:3 %\r\nmpirun\n"}) ==
        Lines{{2, "1 %"}, {2, "2 %"}, {0, "x"}, {2, "3 %"}, {-1, "mpirun"}});
  // A bar's text comes before what ends it, and its figure is of that time.
  RankOutputSplitter splitter;
  std::vector<std::int64_t> times;
  const auto keep = [&](const RankLine& line) { times.push_back(line.t_ns); };
  splitter.feed("\r1 %", keep, 10);
  splitter.feed("\r2 %", keep, 20);
  splitter.feed("\n", keep, 30);
  splitter.feed("\n", keep, 40);
  CHECK(times == std::vector<std::int64_t>{10, 20, 40});
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
        decode_record({std::nullopt, text});
      } catch (const Error& error) { REQUIRE(error.code() == ErrorCode::protocol); }
    }
  }
}
