#!/usr/bin/python3
"""check_skips.py JUNIT_XML EXPECTED_SKIPS: exit 1 naming each skipped test that is on no list.

JUNIT_XML is what `ctest --output-junit` wrote. EXPECTED_SKIPS has a line "REGULAR EXPRESSION | WHERE" for each test that
may be skipped; empty lines and those that begin with # are left out.
"""

import re
import sys
import xml.etree.ElementTree


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


def skipped_tests(path):
    """Name and what it printed of each test that was skipped. Disabled and not-run tests are no skips."""
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        if case.find("skipped") is None and case.get("status") != "notrun":
            continue
        printed = case.findtext("system-out") or ""
        reason = re.search(r"(?i)skip(ped)?: .*", printed)
        yield case.get("name"), reason.group(0) if reason else "(without a reason)"


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    patterns = expected_names(sys.argv[2])
    unexpected = [
        (name, reason)
        for name, reason in skipped_tests(sys.argv[1])
        if not any(pattern.fullmatch(name) for pattern in patterns)
    ]
    for name, reason in unexpected:
        print(f"skipped, but on no list ({sys.argv[2]}): {name}: {reason}")
    sys.exit(1 if unexpected else 0)


if __name__ == "__main__":
    main()
