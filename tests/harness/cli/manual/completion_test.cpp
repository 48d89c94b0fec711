#include "harness/cli/manual/completion.h"

#include "common/error.h"
#include "common/files/new_file.h"
#include "common/system/subprocess.h"
#include "common/text/text.h"
#include "tests/harness/cli/manual/small_program.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness::manual;
using virtrain::test::Contains;

namespace {

/// What bash offers for the last of these words, where `virtrain` prints a list of experiments with hostile
/// ids.
std::vector<std::string> bash_offers(const std::vector<std::string>& words) {
  const TemporaryFolder folder;
  write_file_atomically(folder.path / "script", completion(small_program(), "bash"));
  write_file_atomically(folder.path / "virtrain",
                        "#!/bin/sh\necho id,trials\necho e1,3\necho '$(touch hacked),3'\necho '\"a,b\",3'\n"
                        "echo 'a b,3'\necho e-2.x,4\n");
  run_checked({"chmod", "+x", (folder.path / "virtrain").string()});
  std::vector<std::string> command{"bash",
                                   "--norc",
                                   "-c",
                                   "cd \"$1\" && PATH=$1:$PATH && . ./script && shift && COMP_WORDS=(\"$@\") "
                                   "COMP_CWORD=$(($# - 1)) && _virtrain && "
                                   "printf '%s\\n' \"${COMPREPLY[@]}\"; [ ! -e hacked ]",
                                   "_",
                                   folder.path.string()};
  command.insert(command.end(), words.begin(), words.end());
  std::vector<std::string> offered;
  for (const auto& line : split(run_checked(command).out, '\n')) {
    if (!line.empty()) { offered.push_back(line); }
  }
  return offered;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("bash: verbs, and verbs of verbs") {
  CHECK(bash_offers({"virtrain", ""}) == Words{"show", "schedule"});
  CHECK(bash_offers({"virtrain", "--log-format", "json", "sc"}) == Words{"schedule"});
  CHECK(bash_offers({"virtrain", "schedule", ""}) == Words{"add"});
}

TEST_CASE("bash: options of the verb, and the program's") {
  CHECK(bash_offers({"virtrain", "show", "--"}) ==
        Words{"--help", "--format", "--output", "--label", "--log-format"});
  CHECK(bash_offers({"virtrain", "schedule", "add", "--l"}) == Words{"--log-format"});
}

TEST_CASE("bash: values, also behind an equals sign") {
  CHECK(bash_offers({"virtrain", "show", "--format", ""}) == Words{"table", "json"});
  CHECK(bash_offers({"virtrain", "show", "--format", "=", "j"}) == Words{"json"});
  CHECK(bash_offers({"virtrain", "show", "--format", "="}) == Words{"table", "json"});
  CHECK(bash_offers({"virtrain", "show", "--label", ""}).empty());
  CHECK(bash_offers({"virtrain", "show", "--label", "schedule", "--fo"}) == Words{"--format"});
}

TEST_CASE("bash: files") {
  CHECK(bash_offers({"virtrain", "schedule", "add", "scr"}) == Words{"script"});
  CHECK(bash_offers({"virtrain", "show", "-o", "scr"}) == Words{"script"});
}

TEST_CASE("bash: experiments, of which none is a command") {
  CHECK(bash_offers({"virtrain", "show", ""}) == Words{"e1", "e-2.x"});
}

TEST_CASE("zsh: specifications, with what would end them escaped") {
  const auto script = completion(small_program(), "zsh");
  CHECK_THAT(script, Contains("'(--format)--format=[How]:FORMAT:(table json)'"));
  CHECK_THAT(script, Contains("'(-o --output)--output=[Where\\: it'\\''s \\[here\\]]:FILE:_files'"));
  CHECK_THAT(script, Contains("'*--label=[.hidden \\\\ text]:TEXT: '"));
  CHECK_THAT(script, Contains("'1::experiment:_virtrain_experiments'"));
  CHECK_THAT(script, Contains("'show:Show one'"));
  CHECK_THAT(script, Contains("add) _virtrain_schedule_add ;;"));
}

TEST_CASE("fish: each verb's own options") {
  const auto script = completion(small_program(), "fish");
  CHECK_THAT(script, Contains("complete -c virtrain -n '__virtrain_at \"\"' -a show -d 'Show one'\n"));
  CHECK_THAT(script, Contains("-n '__virtrain_at \"show\"' -l format -x -a 'table json' -d 'How'\n"));
  CHECK_THAT(script,
             Contains("-n '__virtrain_at \"show\"' -s o -l output -r -F -d 'Where: it\\'s [here]'\n"));
  CHECK_THAT(script, Contains("complete -c virtrain -n '__virtrain_at \"schedule add\"' -F\n"));
  CHECK_THAT(script, Contains("complete -c virtrain -l log-format -x -a 'text json' -d 'Logs'\n"));
}

TEST_CASE("other shells are refused") {
  CHECK_THROWS_AS(completion(small_program(), "tcsh"), Error);
}
