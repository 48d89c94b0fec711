#!/usr/bin/python3
"""check_results.py JUNIT_XML EXPECTED_SKIPS: the end of each failed test's output, and each skipped test that is on no list.

Exit 1 if there was one of either kind.

JUNIT_XML is what `ctest --output-junit` wrote. EXPECTED_SKIPS has a line "REGULAR EXPRESSION | WHERE" for each test that
may be skipped; empty lines and those that begin with # are left out.
"""

import re
import sys
import xml.etree.ElementTree

LAST_LINES = 30
LONGEST_LINE = 400


def expected_names(path):
    patterns = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            name, separator, where = line.rpartition(" | ")
            if not separator or not where:
                sys.exit(f"{path}:{number}: a line is 'REGULAR EXPRESSION | WHERE it may be skipped'")
            patterns.append(re.compile(name))
    return patterns


def failed_tests(cases):
    """Name and the last lines of what it printed of each test that failed."""
    for case in cases:
        if case.get("status") == "fail" or case.find("failure") is not None:
            yield case.get("name"), (case.findtext("system-out") or "").rstrip().splitlines()[-LAST_LINES:]


def skipped_tests(cases):
    """Name and what it printed of each test that was skipped. Disabled and not-run tests are no skips."""
    for case in cases:
        if case.find("skipped") is None and case.get("status") != "notrun":
            continue
        printed = case.findtext("system-out") or ""
        reason = re.search(r"(?i)skip(ped)?: .*", printed)
        yield case.get("name"), reason.group(0) if reason else "(without a reason)"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    patterns = expected_names(sys.argv[2])
    cases = list(xml.etree.ElementTree.parse(sys.argv[1]).getroot().iter("testcase"))
    failed = list(failed_tests(cases))
    for name, lines in failed:
        print(f"--- {name} failed, the end of its output:", *(line[:LONGEST_LINE] for line in lines), sep="\n")
    unexpected = [
        (name, reason)
        for name, reason in skipped_tests(cases)
        if not any(pattern.fullmatch(name) for pattern in patterns)
    ]
    for name, reason in unexpected:
        print(f"skipped, but on no list ({sys.argv[2]}): {name}: {reason}")
    sys.exit(1 if failed or unexpected else 0)


if __name__ == "__main__":
    main()
