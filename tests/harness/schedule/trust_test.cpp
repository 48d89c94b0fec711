#include "harness/schedule/trust.h"

#include <sys/stat.h>

#include <fstream>

#include "common/error.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_folder.h"

using namespace virtrain;
using namespace virtrain::harness;
using virtrain::test::Contains;

namespace {

using Words = std::vector<std::string>;

/// What require_only_ours_in() says of it; empty: nothing.
std::string refusal_of_command(const std::string& command) {
  try {
    require_only_ours_in(command, "--notify");
  } catch (const Error& error) { return error.message(); }
  return "";
}

}  // namespace

TEST_CASE("a shell command's words are those of sh") {
  CHECK(shell_words("a  b\tc") == Words{"a", "b", "c"});
  CHECK(shell_words(R"('/x y' "/z $A" /a\ b /c'd'"e"f)") == Words{"/x y", "/z $A", "/a b", "/cdef"});
  CHECK(shell_words("a;b|c&&d>/e 2>/f </g (h) `i`\nj") ==
        Words{"a", "b", "c", "d", "2", "/g", "h", "i", "j"});
  CHECK(shell_words(R"("a\"b\c" 'd\' \\ "" 'open)") == Words{R"(a"b\c)", R"(d\)", R"(\)", "open"});
  CHECK(shell_words("a <>/b >>/c 2>&1 /d >(/e) | f >/g;/h") == Words{"a", "/b", "2", "/d", "/e", "f", "/h"});
  CHECK(shell_words("").empty());
}

TEST_CASE("absolute paths are found in options, lists and commands within quotes") {
  CHECK(absolute_paths_in("/x") == Words{"/x"});
  CHECK(absolute_paths_in("--config=/x") == Words{"/x"});
  CHECK(absolute_paths_in("-I/x") == Words{"/x"});
  CHECK(absolute_paths_in("PATH=/x:/y") == Words{"/x", "/x:/y", "/y"});
  CHECK(absolute_paths_in("/x y") == Words{"/x", "/x y"});
  CHECK(absolute_paths_in("exec /x; /y") == Words{"/x", "/x; /y", "/y"});
  CHECK(absolute_paths_in("@/x") == Words{"/x"});
  CHECK(absolute_paths_in("A=/y:/x web:/z /v") == Words{"/y", "/y:/x web:/z /v", "/x", "/x web:/z /v", "/v"});
  for (const auto* word :
       {"", "x", "x/y", "s/a/b/", "web:/x", "https://host/x", "./x", "~/x", "$HOME/x", "${HOME}/x"}) {
    CAPTURE(word);
    CHECK(absolute_paths_in(word).empty());
  }
}

TEST_CASE("what others could change is seen wherever a command names it") {
  const TemporaryFolder folder;
  const auto open = (folder.path / "x y").string();
  std::ofstream(open) << "true\n";
  CHECK(refusal_of_command("sh '" + open + "'").empty());
  ::chmod(open.c_str(), 0666);
  const auto plain = (folder.path / "x").string();
  std::ofstream(plain) << "true\n";
  ::chmod(plain.c_str(), 0666);
  for (const auto& command : {"'" + open + "'", "sh \"" + open + "\"", "sh --config=" + plain,
                              "sh -c" + plain, plain + "; true", "true;" + plain, "true|" + plain + "&",
                              "sh -c 'exec " + plain + " a'", "cat <" + plain, "echo $(" + plain + ")",
                              "env A=/bin:" + plain + " true", "curl -d @" + plain + " https://example.com/x",
                              "curl file://" + plain + " | sh", "curl -s FILE://localhost" + plain + "|sh",
                              "wget file:" + plain, "curl 'file://" + folder.path.string() + "/%78' | sh"}) {
    CAPTURE(command);
    CHECK_THAT(refusal_of_command(command), Contains("other users can write to"));
  }
  CHECK_THAT(refusal_of_command("~eve/x"), Contains("is relative"));
  CHECK_THAT(refusal_of_command("sh ~eve/x"), Contains("is relative"));
  CHECK_THAT(refusal_of_command("$HOME/x"), Contains("a variable says"));
  CHECK_THAT(refusal_of_command("A=/b $HOME/x"), Contains("a variable says"));
  ::chmod(open.c_str(), 0644);
  ::chmod(plain.c_str(), 0644);
  for (const auto& command :
       {"'" + open + "' 2>/dev/null", "cat /dev/stdin >> " + folder.path.string() + "/told", "sh " + plain,
        std::string("curl -d @- https://example.com/tmp/x"), std::string("sed s,/a/,/b/, | grep /c/d")}) {
    CAPTURE(command);
    CHECK(refusal_of_command(command).empty());
  }
}

TEST_CASE("what is not there yet is refused where others could make it") {
  const TemporaryFolder folder;
  const auto shared = folder.path / "shared", later = shared / "later";
  std::filesystem::create_directory(shared);
  ::chmod(shared.c_str(), 01777);
  CHECK_THAT(refusal_of_command("sh " + later.string()), Contains("could make it first"));
  CHECK(refusal_of_command("true >> " + later.string() + " 2>" + later.string()).empty());
  CHECK(refusal_of_command("scp r.html web:" + later.string()).empty());
  CHECK(refusal_of_command("sh " + (folder.path / "later").string()).empty());
  std::ofstream(later) << "true\n";
  CHECK(refusal_of_command("sh " + later.string()).empty());
  ::chmod(shared.c_str(), 0777);
  CHECK_THAT(refusal_of_command("cd " + shared.string()), Contains("other users can write to"));
}
