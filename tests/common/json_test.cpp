#include "common/text/json.h"

#include "common/error.h"
#include "tests/support/catch.h"

using namespace virtrain;
using virtrain::test::Contains;
using virtrain::test::Equals;
using virtrain::test::StartsWith;

namespace {

std::string nested(std::size_t levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

std::string fault(const std::string& text, const JsonLimits& limits = {}) {
  try {
    parse_json(text, "read", ErrorCode::protocol, limits);
  } catch (const Error& refused) {
    CHECK(refused.code() == ErrorCode::protocol);
    CHECK(refused.operation() == "read");
    return refused.message();
  }
  return "";
}

nlohmann::json parsed(const std::string& text, const JsonLimits& limits = {}) {
  return parse_json(text, "read", ErrorCode::protocol, limits);
}

}  // namespace

TEST_CASE("JSON from outside is bounded in depth") {
  CHECK(parsed(nested(64)).dump() == nested(64));
  CHECK_THAT(fault(nested(65)), Equals("this is nested deeper than 64 levels"));
  CHECK_THAT(fault(std::string(10'000'000, '[')), Equals("this is nested deeper than 64 levels"));
  CHECK_THAT(fault(nested(3), {.depth = 2}), Equals("this is nested deeper than 2 levels"));
  // Brackets in text, and behind an escaped quotation mark, open nothing.
  const std::string text = R"("\"\\)" + std::string(100, '[') + "\"";
  CHECK(parsed(text).get<std::string>() == "\"\\" + std::string(100, '['));
  CHECK(parsed("[" + nested(63) + "," + nested(63) + "]").size() == 2);
}

TEST_CASE("JSON from outside is bounded in size") {
  CHECK(parsed("[1,2]", {.bytes = 5}).size() == 2);
  CHECK_THAT(fault("[1,2] ", {.bytes = 5}), Equals("this is longer than 5 bytes"));
  CHECK_THAT(fault("[1,2,3]", {.values = 3}), Equals("this has more than 3 values"));
  CHECK(parsed("[1,2]", {.values = 3}).size() == 2);
}

TEST_CASE("where a limit of JSON is passed, or its syntax broken, is known") {
  const auto column = [](const std::string& text, const JsonLimits& limits) {
    try {
      parse_json(text, limits);
    } catch (const JsonRefusal& refusal) { return refusal.byte; }
    return std::size_t{999};
  };
  CHECK(column(" " + nested(65), {}) == 66);
  CHECK(column("[1,2,3]", {.values = 3}) == 5);
  CHECK(column("[1, nope]", {}) == 6);
  CHECK(column(R"(["1e999", 1e999])", {}) == 11);
  CHECK(column("[0.01e309,1e309]", {}) == 11);
}

TEST_CASE("a key given twice is refused where asked for") {
  const std::string twice = R"({"a":{"b":1,"b":2},"c":3})";
  CHECK(parsed(twice)["a"]["b"] == 2);
  CHECK_THAT(fault(twice, {.unique_keys = true}), Equals("the key \"b\" appears twice"));
  CHECK(parsed(R"({"a":{"b":1},"b":[{"a":1},{"a":2}]})", {.unique_keys = true}).size() == 2);
}

TEST_CASE("what is no JSON is refused in short words that are safe to show") {
  CHECK_THAT(fault("{\"a\": nope}"), StartsWith("this is not JSON: syntax error while") && !Contains("NaN"));
  CHECK_THAT(fault("{\"a\": NaN}"), Contains("NaN and Infinity are not JSON numbers"));
  CHECK_THAT(fault("[-Infinity]"), Contains("NaN and Infinity are not JSON numbers"));
  CHECK_THAT(fault("1e999"), Equals("this is not JSON: number overflow parsing '1e999'"));
  for (const std::string& text : {std::string(), std::string("\"\x1b[2J"), std::string("[\"\xff\"]"),
                                  "[" + std::string(3'000'000, '7') + "x]", std::string("\"\xc2\x9b")}) {
    const auto words = fault(text);
    INFO(words);
    CHECK(words.size() > 5);
    CHECK(words.size() < 400);
    CHECK(words.find('\x1b') == std::string::npos);
    CHECK(words.find("\xc2\x9b") == std::string::npos);
  }
  CHECK(parse_json_or_null("{").is_null());
  CHECK(parse_json_or_null("{}").is_object());
}

TEST_CASE("JSON that is shown holds nothing a terminal obeys, and reads back the same") {
  const std::string text = "\u009b2J \u202e \x7f \x1b grüße \U000e0041 \n\t";
  const auto shown = dump_json({{"key\u200f", text}});
  CHECK(shown == R"({"key\u200f":"\u009b2J \u202e \u007f \u001b grüße \udb40\udc41 \n\t"})");
  CHECK(parsed(shown)["key\u200f"] == text);
  CHECK(dump_json("\xff") == "\"\uFFFD\"");
  CHECK(dump_json({{"a", 1}}, 2) == "{\n  \"a\": 1\n}");
}
