#include "results/changes/scenario_version.h"

#include "common/text/sha256.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;

TEST_CASE("a scenario's version is that of its lines without comments") {
  CHECK(scenario_version("# why\nname: n  # first\n\nguest: {vcpus: 1, env: {A: \"#1\"}}  \n") ==
        sha256("name: n\nguest: {vcpus: 1, env: {A: \"#1\"}}\n").substr(0, 8));
}

TEST_CASE("an edited comment changes no version") {
  for (const std::string line :
       {"description: Ada's night  # ", "description: 'it''s'  # ", R"(a: "\" # text"  # )",
        "a: b\n  'tis its second line  # ", "---  # ", "- 'a': [b's, {'c':'d'}]  # ", "a: &x 'y'  # ",
        "a: |  # ", "a: |\n  text's\nb: c  # ", "a: |2\n    text\n  more # text\nb: c  # ",
        "- a: >-\n    text\n  # ", "a: |\n# ", "a: [b,\n  c's]  # ", "a:\n- b's\n- 'c'  # ", "? 'a'  # ",
        "%YAML 1.2\n---\n'a': b  # ", "a:\tb's  # ", "a: {b: \"c\",\n  d: e's}  # "}) {
    INFO(line);
    CHECK(scenario_version(line + "first") == scenario_version(line + "second"));
  }
}

TEST_CASE("an edited text that looks like a comment changes the version") {
  for (const std::string line :
       {"a: \"-O2\n  #", "a: 'b\n\n  #", "a: |\n  #", "a: |\n  b\n\n  #", "a: >-\n  b's\n  #",
        "a:\n  - |\n    #", "- a: |\n    b\n    #", "a: |1\n   b\n #", "a: 'it''s #", R"(a: "b\" #)", "a: b#",
        "a: [\"b\n #", "a: {'b':'c #", "a: !x 'b #", "a: |\r\n  #", "--- |\n #", "? 'a #"}) {
    INFO(line);
    CHECK(scenario_version(line + "first") != scenario_version(line + "second"));
  }
}
