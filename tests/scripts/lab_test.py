#!/usr/bin/python3
"""lab_test.py SOURCE: scripts/lab refuses options that a verb does not have."""

import pathlib
import subprocess
import sys
import unittest

LAB = pathlib.Path(sys.argv.pop()) / "scripts" / "lab"


class LabTest(unittest.TestCase):
    def test_a_suite_is_of_build_and_shell(self):
        run = subprocess.run([LAB, "run", "--suite", "trixie", "none"], capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertIn("no proof --suite", run.stderr)
        build = subprocess.run([LAB, "build", "--suite", "sarge"], capture_output=True, text=True, check=False)
        self.assertIn("unknown suite sarge", build.stderr)


unittest.main()
