#include "results/changes/scenario_version.h"

#include "common/text/sha256.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::results;

TEST_CASE("a scenario's version is that of what it says, without comments and layout") {
  const auto version = scenario_version("name: n\nguest: {vcpus: 1, env: {A: \"#1\"}}\n");
  CHECK(version.size() == 8);
  CHECK(scenario_version("# why\nname: n  # first\n\nguest: {vcpus: 1, env: {A: \"#1\"}}  \n") == version);
  CHECK(scenario_version("name: n\nguest:\n  vcpus: 1\n  env:\n    A: \"#1\"\n") == version);
  CHECK(scenario_version("name: n\nguest: {vcpus: 2, env: {A: \"#1\"}}\n") != version);
  CHECK(scenario_version("guest: {vcpus: 1, env: {A: \"#1\"}}\nname: n\n") != version);
}

TEST_CASE("a text that is not one YAML document has a version of its own") {
  CHECK(scenario_version(",") == sha256(",").substr(0, 8));
  CHECK(scenario_version("a: 1\n---\na: 2\n") == sha256("a: 1\n---\na: 2\n").substr(0, 8));
  CHECK(scenario_version(std::string(100'000, '[')) == sha256(std::string(100'000, '[')).substr(0, 8));
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
