#include "common/frames/frame.h"

#include <random>

#include "common/error.h"
#include "common/text/json.h"
#include "harness/agent/messages.h"
#include "tests/support/catch.h"
#include "tests/support/made_frame.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) { out.push_back(static_cast<char>(value >> (8 * i) & 0xff)); }
}

/// A frame written down by hand, from the wire format's description.
std::string raw(const std::string& json, const std::string& body = "", std::uint64_t version = 1,
                std::uint64_t zero = 0) {
  std::string out = "VTRM";
  put(out, version, 2);
  put(out, zero, 2);
  put(out, json.size(), 4);
  put(out, body.size(), 4);
  return out + json + body;
}

/// Why a stream is refused, or "" where it is not (yet).
std::string refusal(const std::string& bytes) {
  FrameDecoder decoder;
  decoder.feed(bytes);
  try {
    while (decoder.next()) {}
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::protocol);
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("the wire format is what its description says") {
  CHECK(encode(make_frame("ping", 7)) == raw(R"({"id":7,"type":"ping"})"));
  Frame frame = make_frame("stdin", 1, "eof", true);
  frame.body = std::string("a\0b", 3);
  CHECK(encode(frame) == raw(R"({"eof":true,"id":1,"type":"stdin"})", std::string("a\0b", 3)));
}

TEST_CASE("frames come back as they went, however the stream is cut") {
  Frame first = make_frame("output", 3, "stream", "stdout", "t_ns", std::int64_t{1} << 62);
  for (int i = 0; i < 256; ++i) { first.body.push_back(static_cast<char>(i)); }
  const Frame second = make_frame("pong", 4, "words", "grüße \"\\\n");
  const std::string stream = encode(first) + encode(second);
  for (std::size_t cut = 0; cut <= stream.size(); ++cut) {
    FrameDecoder decoder;
    std::vector<Frame> got;
    for (const auto& piece : {stream.substr(0, cut), stream.substr(cut)}) {
      decoder.feed(piece);
      while (auto frame = decoder.next()) { got.push_back(std::move(*frame)); }
    }
    REQUIRE(got.size() == 2);
    REQUIRE(got[0].message == first.message);
    REQUIRE(got[0].body == first.body);
    REQUIRE(got[1].message == second.message);
  }
  FrameDecoder decoder;
  std::size_t count = 0;
  for (const char byte : stream) {
    decoder.feed({&byte, 1});
    while (decoder.next()) { ++count; }
  }
  CHECK(count == 2);
}

TEST_CASE("limits hold on both sides, and the largest frame passes") {
  Frame largest = make_frame("file", 1);
  largest.body.assign(max_body_bytes, 'x');
  FrameDecoder decoder;
  decoder.feed(encode(largest));
  CHECK(decoder.next()->body.size() == max_body_bytes);
  largest.body.push_back('x');
  CHECK_THROWS_AS(encode(largest), Error);
  CHECK_THROWS_AS(encode(make_frame("hello", 1, "nonce", std::string(max_json_bytes, 'x'))), Error);
  // The header alone is enough to refuse: nothing of that size is ever waited for or held.
  std::string header = "VTRM";
  put(header, 1, 2);
  put(header, 0, 2);
  CHECK_THAT(refusal([&] {
               auto h = header;
               put(h, max_json_bytes + 1, 4);
               put(h, 0, 4);
               return h;
             }()),
             Contains("over the limits"));
  CHECK_THAT(refusal([&] {
               auto h = header;
               put(h, 2, 4);
               put(h, 0xffffffff, 4);
               return h;
             }()),
             Contains("over the limits"));
}

TEST_CASE("what is no frame of ours is refused in words") {
  CHECK_THAT(refusal("GET / HTTP/1.1\r\n\r\n"), Contains("wrong magic number"));
  CHECK_THAT(refusal(raw(R"({"type":"ping","id":1})", "", 2)),
             Contains("the peer speaks version 2, this side 1"));
  CHECK_THAT(refusal(raw(R"({"type":"ping","id":1})", "", 1, 1)), Contains("a frame of another kind"));
  for (const char* json : {"", "[]", "null", "1", "{", "{}}", "{\"type\":\"a\",}", "\"type\"",
                           "{\"type\":\"\xff\"}", "{\"type\":NaN}"}) {
    CHECK_THAT(refusal(raw(json)), Contains("is not JSON") || Contains("not a JSON object"));
  }
  for (const char* json : {"{}", R"({"type":1})", R"({"type":null})", R"({"Type":"a"})"}) {
    CHECK_THAT(refusal(raw(json)), Contains("field 'type' is missing or not text"));
  }
  CHECK(refusal("VTRM").empty());  // a beginning
  CHECK(refusal("").empty());
}

TEST_CASE("nesting is bounded, so that nobody recurses deeply over a message") {
  const auto nested = [](std::size_t depth) {
    return raw(R"({"type":"telemetry","id":0,"values":)" + std::string(depth, '[') + std::string(depth, ']') +
               "}");
  };
  CHECK(refusal(nested(10)).empty());
  CHECK_THAT(refusal(nested(20)), Contains("nested deeper than 16"));
  CHECK_THAT(refusal(nested(30'000)), Contains("nested deeper than 16"));
  CHECK_THAT(refusal(raw(std::string(60'000, '['))), Contains("nested deeper than 16"));
  std::string objects;
  for (int i = 0; i < 10'000; ++i) { objects += R"({"a":)"; }
  CHECK_THAT(refusal(raw(objects)), Contains("nested deeper than 16"));
}

TEST_CASE("fields of the wrong type are refused with their names") {
  const auto message = nlohmann::json::parse(
      R"({"text":"a","whole":-3,"fraction":1.5,"huge":18446744073709551615,"large":9223372036854775807,"list":[1]})");
  CHECK(string_field(message, "text") == "a");
  CHECK(integer_field(message, "whole") == -3);
  CHECK(integer_field(message, "large") == INT64_MAX);
  for (const char* name : {"fraction", "huge", "list", "text", "absent"}) {
    CHECK_THROWS_WITH(integer_field(message, name), Contains(std::string("'") + name + "'"));
  }
  for (const char* name : {"whole", "list", "absent"}) {
    CHECK_THROWS_AS(string_field(message, name), Error);
  }
  CHECK(text_in(message, "whole").empty());
  CHECK(text_in(message, "text") == "a");
}

TEST_CASE("a message has the bytes of its description, and is read strictly where it comes in") {
  const message::Start start{{"sleep", "1"}, Variables{{"A", "b"}}};
  CHECK(encode(message::frame_of(start, 4)) ==
        raw(R"({"argv":["sleep","1"],"environment":{"A":"b"},"id":4,"type":"start"})"));
  CHECK(encode(message::frame_of(message::Stdin{true}, 1, "x")) ==
        raw(R"({"eof":true,"id":1,"type":"stdin"})", "x"));
  CHECK(encode(message::frame_of(message::Pong{5, std::nullopt}, 7)) ==
        raw(R"({"id":7,"t_ns":5,"type":"pong"})"));

  const auto read_start = [](const nlohmann::json& argv, const nlohmann::json& environment) {
    return message::read<message::Start>(make_frame("start", 1, "argv", argv, "environment", environment));
  };
  CHECK(read_start({"a", "b"}, nullptr).argv == std::vector<std::string>{"a", "b"});
  CHECK_THROWS_WITH(read_start({"a", 1}, nullptr), Contains("field 'argv' must be a list of texts"));
  CHECK_THROWS_WITH(read_start("a", nullptr), Contains("field 'argv'"));
  CHECK_THROWS_WITH(read_start({"a"}, {{"A", 1}}), Contains("field 'environment' must be an object"));
  CHECK_THROWS_WITH(message::read<message::Exit>(make_frame("exit", 1, "status", 256, "t_ns", 1)),
                    Contains("field 'status' must be a whole number from 0 to 255"));
  // An agent of an older version says no wall_ns.
  CHECK(!message::read<message::Pong>(make_frame("pong", 1, "t_ns", 1)).wall_ns);
}

TEST_CASE("hostile bytes in our own strings do not break our frames") {
  FrameDecoder decoder;
  decoder.feed(encode(make_frame("failed", 1, "message", std::string("\xff\xfe\x00 bad", 7))));
  CHECK(decoder.next()->message["message"].is_string());
}

TEST_CASE("a hundred thousand mutated, cut and random streams: refused or within the limits, never worse") {
  std::mt19937 random(20261120);
  const auto below = [&](std::size_t n) { return random() % n; };
  std::vector<std::string> seeds;
  Frame with_body = make_frame("output", 3, "stream", "stdout", "t_ns", 123456789);
  with_body.body = "some bytes of a trainer\n";
  for (const auto& frame :
       {make_frame("ping", 1), with_body,
        make_frame("hello", 2, "nonce", "0123", "facts", nlohmann::json{{"a", {1, 2}}})}) {
    seeds.push_back(encode(frame));
  }
  std::size_t accepted = 0, refused = 0;
  for (int i = 0; i < 100'000; ++i) {
    std::string stream = seeds[below(seeds.size())] + seeds[below(seeds.size())];
    switch (below(4)) {
      case 0:
        for (std::size_t k = 0; k <= below(4); ++k) {
          stream[below(stream.size())] = static_cast<char>(random());
        }
        break;
      case 1:
        stream.resize(below(stream.size() + 1));
        break;
      case 2:
        stream.erase(below(stream.size()), 1 + below(8));
        break;
      default:
        for (char& byte : stream) { byte = static_cast<char>(random()); }
        if (below(2) == 0) { stream.replace(0, 8, seeds[0].substr(0, 8)); }
    }
    FrameDecoder decoder;
    try {
      for (std::size_t at = 0; at < stream.size();) {
        const auto piece = 1 + below(64);
        decoder.feed(std::string_view(stream).substr(at, piece));
        at += piece;
        while (const auto frame = decoder.next()) {
          ++accepted;
          if (!frame->message.is_object() || frame->body.size() > max_body_bytes ||
              frame->message.dump().size() > max_json_bytes) {
            FAIL("accepted what it may not");
          }
        }
      }
    } catch (const Error& error) {
      if (error.code() != ErrorCode::protocol) { FAIL(error.what()); }
      ++refused;
    }
  }
  CHECK(accepted > 10'000);
  CHECK(refused > 10'000);
}
