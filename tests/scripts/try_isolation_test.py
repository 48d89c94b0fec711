#!/usr/bin/python3
"""try_isolation_test.py SOURCE: what scripts/try-isolation says of an interval."""

import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

SCRIPT = str(pathlib.Path(sys.argv.pop()) / "scripts" / "try-isolation")
sys.dont_write_bytecode = True
LOADER = importlib.machinery.SourceFileLoader("try_isolation", SCRIPT)
MODULE = importlib.util.module_from_spec(importlib.util.spec_from_loader("try_isolation", LOADER))
LOADER.exec_module(MODULE)


class VerdictTest(unittest.TestCase):
    def test_an_interval_that_nothing_lies_outside_of_finds_nothing(self):
        def verdict(expected, low, high, expected_at_most=None):
            return MODULE.Found("what", "why", expected, expected, low, high, expected_at_most).verdict()
        self.assertEqual(verdict(0.10, 0.08, 0.12), "inside")
        self.assertEqual(verdict(0.10, -0.02, 0.22), "TOO WIDE")  # no loss at all would lie in it, too
        self.assertEqual(verdict(0.94, 0.84, 1.0), "TOO WIDE")
        self.assertEqual(verdict(0.50, 0.42, 0.58), "inside")
        self.assertEqual(verdict(0.50, 0.51, 0.58), "OUTSIDE")
        self.assertEqual(verdict(0.50, None, None), "OUTSIDE")
        self.assertEqual(verdict(0.495, 0.496, 0.497, 0.50), "inside")  # of a range as much as of a single figure
        self.assertEqual(verdict(0.495, 0.501, 0.503, 0.50), "OUTSIDE")
        self.assertEqual(verdict(0.495, 0.490, 0.494, 0.50), "OUTSIDE")

    def test_what_is_too_wide_is_measured_anew_once_and_then_counts_whatever_it_says(self):
        def measured(*intervals):
            asked = []

            def measure(rounds):
                asked.append(rounds)
                low, high = intervals[len(asked) - 1]
                return [MODULE.Found("what", "why", 0.10, 0.10, low, high)]
            return MODULE.narrow(measure, 12)[0].verdict(), asked
        self.assertEqual(measured((0.08, 0.12)), ("inside", [12]))
        self.assertEqual(measured((0.20, 0.22)), ("OUTSIDE", [12]))  # narrow: no second chance
        # Half of it is 5 %, of 3.5 % that it may be: (5 / 3.5)² · 1.2 of 12 rounds.
        self.assertEqual(measured((0.05, 0.15), (0.08, 0.12)), ("inside", [12, 30]))
        self.assertEqual(measured((0.05, 0.15), (0.13, 0.15)), ("OUTSIDE", [12, 30]))
        self.assertEqual(measured((None, None), (-0.2, 0.4)), ("TOO WIDE", [12, 60]))


unittest.main()
