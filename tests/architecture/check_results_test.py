#!/usr/bin/python3
"""tests/support/check_results.py: a failure has its last words, an unexpected skip is named, an expected one passes."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "support/check_results.py"
JUNIT = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="x" tests="3" failures="0" disabled="0" skipped="2">
  <testcase name="vm_test: boots" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/>
    <system-out>skipped: needs root
</system-out></testcase>
  <testcase name="unit: adds" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/><system-out></system-out></testcase>
  <testcase name="other" status="run"><system-out>fine</system-out></testcase>
</testsuite>
"""


FAILED = """  <testcase name="runs" status="fail"><failure message="Failed"/><system-out>%s
AssertionError: 3 &lt; 4
</system-out></testcase>
</testsuite>
"""


def check(expected, junit_text=JUNIT):
    with tempfile.TemporaryDirectory() as folder:
        junit, skips = pathlib.Path(folder, "test.xml"), pathlib.Path(folder, "skips.txt")
        junit.write_text(junit_text)
        skips.write_text(expected)
        return subprocess.run([sys.executable, SCRIPT, junit, skips], capture_output=True, text=True, check=False)


class CheckResults(unittest.TestCase):
    def test_expected_skips_pass(self):
        result = check("# words\n\nvm_test: .* | without root\nunit: adds | never\n")
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_an_unexpected_skip_is_named_with_its_reason(self):
        result = check("unit: .* | never\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("vm_test: boots: skipped: needs root", result.stdout)
        self.assertNotIn("unit: adds", result.stdout)

    def test_the_whole_name_must_match(self):
        self.assertEqual(check("vm_test | a\nunit | b\n").returncode, 1)

    def test_a_skip_without_a_reason_is_said(self):
        self.assertIn("unit: adds: (without a reason)", check("vm_test: .* | a\n").stdout)

    def test_a_failure_has_its_last_words(self):
        words = "\n".join(f"line {number}" for number in range(100))
        result = check("vm_test: .* | a\nunit: .* | b\n", JUNIT.replace("</testsuite>\n", FAILED % words))
        self.assertEqual(result.returncode, 1)
        self.assertTrue(result.stdout.startswith("--- runs failed"), result.stdout)
        self.assertTrue(result.stdout.endswith("line 99\nAssertionError: 3 < 4\n"), result.stdout)
        self.assertNotIn("line 50\n", result.stdout)

    def test_a_line_without_a_condition_is_refused(self):
        result = check("vm_test: .*\n")
        self.assertEqual(result.returncode, 1)
        self.assertIn("skips.txt:1:", result.stderr)


if __name__ == "__main__":
    unittest.main()
