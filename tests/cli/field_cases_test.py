#!/usr/bin/python3
"""field_cases_test.py: cases from the field, where ../shared lies next to the sources, as far as verbs take them without root."""

import os
import pathlib
import sys
import tarfile
import time
import unittest

from command_line import InAFolder, virtrain

CASES = pathlib.Path(os.environ["VIRTRAIN_SOURCE"]).parent / "shared/cases/field.tar.xz"


class FieldCases(InAFolder):
    def setUp(self):
        super().setUp()
        with tarfile.open(CASES) as packed:
            packed.extractall(self.folder)

    def case(self, number):
        return next((self.folder / "field").glob(f"{number:02}-*"))

    def diagnosed(self, *arguments):
        """Ids of the findings, by rank, with their losses."""
        begin = time.monotonic()
        findings = self.virtrain("diagnose", *arguments, "--json").json()
        self.assertLess(time.monotonic() - begin, 10)
        return {finding["id"]: finding for finding in findings}

    def first_two(self, *arguments):
        return list(self.diagnosed(*arguments))[:2]

    def test_two_nodes_of_vms_at_56_percent(self):
        case = self.case(1)
        found = self.diagnosed(case / "vm", "--baseline", case / "bare_metal")
        self.assertEqual(list(found), ["NCL-12"])
        self.assertAlmostEqual(found["NCL-12"]["loss"], 0.44, delta=0.05)
        for cause in ("ATS", "DirectTrans", "relaxed ordering"):
            self.assertIn(cause, found["NCL-12"]["fix"])
        self.virtrain("import", case, "--db", self.database)
        self.assertEqual(self.first_two("--db", self.database), ["NCL-12"])

    def test_each_rank_prints_the_total(self):
        case = self.case(2)
        into = ("import", "--db", self.database, "--arm", "bare_metal", "--case", "c", "--nodes", 2)
        self.assertIn("did not finish", self.virtrain(*into, "--experiment", "cut", "--gpus-per-node", 8, case / "stopped-early.log", status=3).err)
        total = case / "every-rank-prints-the-total.log"
        for scope in ("rank", "tenant"):
            refused = self.virtrain(*into, "--experiment", "total", "--gpus-per-node", 8, "--scope", scope, total, status=3)
            self.assertIn("each is of the whole job", refused.err)
        self.virtrain(*into, "--experiment", "total", "--gpus-per-node", 8, total)
        self.assertIn("757.4", self.virtrain("show", "total", "--db", self.database).out)
        two = self.virtrain(*into, "--experiment", "two", "--gpus-per-node", 2, "--scope", "rank",
                            case / "two-processes-that-know-nothing-of-each-other.log")
        self.assertIn("23 % of the fastest", two.err)
        self.assertIn("507.9", self.virtrain("show", "two", "--db", self.database).out)

    def test_speed_that_falls_after_twenty_minutes(self):
        for log in sorted(self.case(3).glob("*.log")):
            told = self.virtrain("import", "--db", self.database, "--experiment", log.stem, "--arm", "vm", "--case", "c", "--nodes", 1,
                                 "--gpus-per-node", 1, log).err
            self.assertIn("has no verdict", told)
            self.assertIn("licence", told)

    def test_scaling_that_stalls_from_one_to_two(self):
        self.virtrain("import", self.case(5) / "runs.csv", "--db", self.database)
        said = self.virtrain("compare", "--db", self.database, "--predict", "16,64").out
        for share in ("48.8 %", "44.2 %", "45.2 %", "the step from 1 to 2 nodes costs 51 %"):
            self.assertIn(share, said)

    def test_an_upgrade_that_makes_it_slower(self):
        for stack in ("5.3", "5.4"):
            self.virtrain("import", self.case(4) / f"stack-{stack}", "--label", f"stack-{stack}", "--db", self.database)
        compared = self.virtrain("compare", "--baseline", "label:stack-5.3", "--candidate", "label:stack-5.4",
                                 "--db", self.database).out
        self.assertIn("worse", compared)

    def test_the_topology_of_a_foreign_vm(self):
        for guest in ("flat-guest.xml", "switched-guest.xml"):
            self.virtrain("topology", "--for-guest", self.case(6) / guest, "--inventory", self.case(6) / "host")
        flat = self.diagnosed(self.case(6) / "flat-guest.xml", "--inventory", self.case(6) / "host")
        self.assertTrue({"DOM-4", "DOM-6", "DOM-7"} & set(flat), flat)

    def test_an_nvswitch_board_without_partitions(self):
        self.assertEqual(self.first_two("--inventory", self.case(7) / "host")[0], "FAB-2")

    def test_acs_without_nvlink(self):
        host = self.case(8) / "host"
        self.assertIn("ACS-2", self.first_two("--inventory", host))
        self.assertIn("ACS-2", self.virtrain("doctor", "--inventory", host, status=None).out)

    def test_a_card_that_is_lost(self):
        self.assertIn("answers with ones only", self.virtrain("doctor", "--inventory", self.case(9) / "host", status=None).out)

    def test_huge_regions(self):
        host = self.case(10) / "host"
        self.assertIn("VER-3", self.diagnosed("--inventory", host))
        self.virtrain("plan", self.case(10) / "scenario.yaml", "--inventory", host, status=4)

    def virtrain(self, *arguments, status=0):
        if status is None:
            return virtrain(*arguments, env=self.environment)
        return super().virtrain(*arguments, status=status)


if __name__ == "__main__":
    if not CASES.exists():
        print(f"skipped: {CASES} is not there")
        sys.exit(77)
    unittest.main()
