#include "common/error.h"
#include "common/text/text.h"
#include "harness/cli/manual.h"
#include "tests/harness/cli/manual/small_program.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness::manual;

namespace {

using Words = std::vector<std::string>;

std::string lines_for(const Words& words) {
  return completions(small_program(), words, [](Completes kind) {
    return kind == Completes::experiments
               ? Words{"e1", "$(touch hacked)", "a,b", "a b", "\x1b[1m", "-x", "e-2.x"}
               : Words{};
  });
}

/// The same without the sentences.
Words offers(const Words& words) {
  Words offered;
  for (const auto& line : split(lines_for(words), '\n')) {
    if (!line.empty()) { offered.push_back(split(line, '\t')[0]); }
  }
  return offered;
}

}  // namespace

TEST_CASE("verbs, and verbs of verbs, with a sentence each") {
  CHECK(offers({""}) == Words{"show", "schedule"});
  CHECK(offers({"--log-format", "json", "sc"}) == Words{"schedule"});
  CHECK(offers({"schedule", ""}) == Words{"add"});
  CHECK(lines_for({"sh"}) == "show\tShow one\n");
}

TEST_CASE("options of the verb, and the program's") {
  CHECK(offers({"show", "--"}) == Words{"--help", "--format", "--output", "--label", "--log-format"});
  CHECK(offers({"schedule", "add", "--l"}) == Words{"--log-format"});
  CHECK(lines_for({"show", "--f"}) == "--format\tHow\n");
  CHECK(offers({"show", "-"}) ==
        Words{"-h", "--help", "--format", "-o", "--output", "--label", "--log-format"});
}

TEST_CASE("an option that was given is offered again only if it may be repeated") {
  CHECK(offers({"show", "--label", "a", "--format=json", "-o", "x", "--"}) ==
        Words{"--help", "--label", "--log-format"});
}

TEST_CASE("values, also behind an equals sign") {
  CHECK(offers({"show", "--format", ""}) == Words{"table", "json"});
  CHECK(offers({"show", "--format", "=", "j"}) == Words{"json"});
  CHECK(offers({"show", "--format", "="}) == Words{"table", "json"});
  CHECK(offers({"show", "--format=j"}) == Words{"--format=json"});
  CHECK(offers({"show", "--label", ""}).empty());
  CHECK(offers({"show", "--nothing=", ""}) == Words{"e1", "e-2.x"});
  CHECK(offers({"show", "--label", "schedule", "--fo"}) == Words{"--format"});
}

TEST_CASE("files") {
  CHECK(offers({"schedule", "add", "scr"}) == Words{":files"});
  CHECK(offers({"show", "-o", "scr"}) == Words{":files"});
  CHECK(offers({"show", "--output=scr"}) == Words{":files"});
  CHECK(offers({"schedule", "add", "--", "-scr"}) == Words{":files"});
}

TEST_CASE("experiments, of which none is a command, and as many as the verb takes") {
  CHECK(offers({"show", ""}) == Words{"e1", "e-2.x"});
  CHECK(offers({"show", "e-"}) == Words{"e-2.x"});
  CHECK(offers({"show", "e1", ""}).empty());
}

TEST_CASE("other shells are refused") {
  CHECK_THROWS_AS(completion("tcsh"), Error);
}
