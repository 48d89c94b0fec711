#include <set>

#include "common/error.h"
#include "common/text/text.h"
#include "common/text/units.h"
#include "harness/cli/manual.h"
#include "tests/harness/cli/manual/small_program.h"
#include "tests/support/catch.h"

using namespace virtrain;
using namespace virtrain::harness::manual;
using virtrain::test::Contains;
using virtrain::test::StartsWith;

namespace {

std::string page_of(std::size_t verb) {
  static const auto program = small_program();
  return man_page(program.verbs[verb], program, "1.2");
}

}  // namespace

TEST_CASE("a page begins with its title and its name in one sentence") {
  CHECK_THAT(page_of(0),
             StartsWith(".TH VIRTRAIN\\-SHOW 1 \"\" \"virtrain 1.2\" \"User Commands\"\n"
                        ".SH NAME\nvirtrain\\-show \\- show one\n"
                        ".SH SYNOPSIS\n\\fBvirtrain show\\fR [\\fIoptions\\fR] [\\fIexperiment\\fR]\n"));
}

TEST_CASE("an option has its names, its value, its default and what it allows") {
  const auto page = page_of(0);
  CHECK_THAT(
      page,
      Contains(".TP\n\\fB\\-\\-format\\fR=\\fIFORMAT\\fR\nHow. Allowed: table, json. Default: table.\n"));
  CHECK_THAT(page, Contains("\\fB\\-o\\fR, \\fB\\-\\-output\\fR=\\fIFILE\\fR\nWhere: it\\(aqs [here].\n"));
  CHECK_THAT(page, Contains(".SS Marks:\n.TP\n\\fB\\-\\-label"));
}

TEST_CASE("no text becomes a request or an escape") {
  CHECK_THAT(page_of(0),
             Contains("\n\\&.hidden \\e text. It must be given. It may be given several times.\n"));
}

TEST_CASE("a footer becomes description, examples and exit status") {
  const auto page = page_of(0);
  CHECK_THAT(page, Contains(".SH DESCRIPTION\nIds are those of list. More of this.\n.SH OPTIONS"));
  CHECK_THAT(page, Contains(".SH EXIT STATUS\n0 done, 3 bad.\n"));
  CHECK_THAT(page, Contains(".SH EXAMPLES\n.EX\nvirtrain show a\\-b   the first\n.EE\n"));
}

TEST_CASE("verbs of verbs have pages of their own, to which those above refer") {
  const auto program = small_program();
  const auto verbs = all_verbs(program);
  REQUIRE(verbs.size() == 4);
  CHECK(page_name(*verbs[3]) == "virtrain-schedule-add");
  CHECK_THAT(page_of(1), Contains(".SH COMMANDS\n.TP\n.BR virtrain\\-schedule\\-add (1)\nAdd one.\n"));
  CHECK_THAT(page_of(1), Contains(".SH SEE ALSO\n.BR virtrain (1)\n"));
}

TEST_CASE("the program's own page has its files and exit codes") {
  const auto program = small_program();
  const auto page = man_page(program, program, "1.2");
  CHECK_THAT(page, StartsWith("'\\\" t\n.TH VIRTRAIN 1"));
  CHECK_THAT(page, Contains("\nvirtrain \\- measures something\n"));
  for (const auto* section : {".SH EXIT STATUS\n", ".SH ENVIRONMENT\n", ".SH FILES\n"}) {
    CHECK_THAT(page, Contains(section));
  }
  std::set<int> statuses{0, 1, 5};  // that no error has
  for (int code = 0; code <= static_cast<int>(ErrorCode::interrupted); ++code) {
    statuses.insert(exit_status(static_cast<ErrorCode>(code)));
  }
  for (const auto& line : split(page, '\n')) {
    const auto status = parse_integer(line.substr(0, line.find('\t')));
    INFO(line);
    CHECK((!status || statuses.contains(static_cast<int>(*status))));
  }
}
