#!/usr/bin/python3
"""Changes as CI systems and Prometheus read them: an XML parser and promtool are the judges."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from command_line import BUILD, SOURCE, virtrain
from nights import HOSTILE, records, write

SAMPLE = re.compile(r'^([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} ([-+0-9.e]+)$', re.M)
LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')
PROMTOOL = pathlib.Path(shutil.which("promtool") or BUILD / "tools/promtool")


class Changes(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-changes-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "nightly.db"

    def virtrain(self, *arguments, status=0):
        result = virtrain(*arguments, "--db", self.database)
        self.assertEqual(result.status, status, result)
        return result

    def nights(self, *arguments, **options):
        self.virtrain("import", write(self.folder / "nights.jsonl", records(*arguments, **options)))

    def junit(self):
        root = xml.etree.ElementTree.fromstring(self.virtrain("changes", "--format", "junit").out)
        self.assertEqual((root.tag, [suite.tag for suite in root]), ("testsuites", ["testsuite"] * len(root)))
        return root

    def changes(self):
        return self.virtrain("changes", "--format", "json").json()

    def samples(self):
        text = self.virtrain("changes", "--format", "prometheus").out
        found = [(name, dict(LABEL.findall(labels)), float(value)) for name, labels, value in SAMPLE.findall(text)]
        self.assertEqual(len(found), len([line for line in text.splitlines() if not line.startswith("#")]), text)
        return text, found

    def value(self, metric, **labels):
        hits = [value for name, has, value in self.samples()[1] if name == metric and labels.items() <= has.items()]
        self.assertEqual(len(hits), 1, (metric, labels, hits))
        return hits[0]

    def test_a_comment_beside_an_apostrophe_is_edited_and_the_loss_stays_open(self):
        text = "name: nightly\ndescription: Ada's night  # "
        self.nights(range(17), 950, text=text + "first words\n")
        self.nights(range(17, 20), 855, text=text + "first words\n")
        self.assertEqual({one["state"] for one in self.changes()}, {"open"})
        self.nights(range(20, 21), 855, text=text + "better words\n")
        self.assertEqual({one["state"] for one in self.changes()}, {"open"})

    def test_a_program_reads_what_bisect_would_run(self):
        def text(name="nightly", threads=1):
            return (f"name: {name}\nworkload: {{steps: 2, threads: {threads}}}\nguest: {{vcpus: 2, memory: 768MiB}}\n"
                    "cases: [{name: one, tenants: [{nodes: 1}]}]\narms: [bare_metal, vm]\n")
        self.nights(range(1), 950, text=text())
        self.nights(range(1, 2), 855, text=text(threads=2))
        self.nights(range(2, 3), 855, text=text("weekly", 2), scenario="weekly")
        plan = ("--plan", "--format", "json", "--seed", "7")
        result = self.virtrain("bisect", "nightly-n00", "nightly-n01", *plan)
        self.assertNotIn("two scenarios", result.err)
        row, = result.json()
        self.assertEqual((row["suspect"], row["before"], row["after"], row["standing"]), ("workload.threads", "1", "2", "to be switched"))
        self.assertEqual((row["seed"], row["most_trials"], row["answer"], row["trials"], row["ratio"]), (7, 24, None, None, None))
        self.assertGreater(row["most_seconds"], 0)
        given = ("--switch", "workload.threads", "1", "2")
        self.assertEqual(len(self.virtrain("bisect", "nightly-n00", "nightly-n01", *given, *plan).json()), 1)
        refused = self.virtrain("bisect", "nightly-n00", "nightly-n01", *given, *given, *plan, status=2).err
        self.assertIn("--switch workload.threads is given twice", refused)
        self.assertIn("weekly", self.virtrain("bisect", "nightly-n00", "weekly-n02", *plan).err)
        self.assertNotIn("most_trials", self.virtrain("bisect", "nightly-n00", "nightly-n01", "--plan").out)

    def test_an_open_loss_is_a_failure_of_its_series_alone(self):
        self.nights(range(15), 950)
        self.assertEqual(self.junit().attrib, {"name": "virtrain changes", "tests": "3", "failures": "0", "errors": "0", "skipped": "0"})
        self.nights(range(15, 18), 855, "mpi-4.1.7")
        root = self.junit()
        self.assertEqual((root.get("tests"), root.get("failures")), ("3", "2"))
        suite, = root
        self.assertEqual((suite.get("name"), suite.get("tests"), suite.get("failures")), ("nightly", "3", "2"))
        failed = {(case.get("classname"), case.get("name")): case.find("failure") for case in suite}
        self.assertIsNone(failed.pop(("nightly/one/bare_metal", "images_per_second")))
        self.assertEqual(set(failed), {("nightly/one/vm", "images_per_second"), ("nightly/one/vm", "ratio")})
        for failure in failed.values():
            self.assertRegex(failure.get("message"), r"^(much )?worse \(-(10\.0|9\.9) %\) since nightly-n15$")
            self.assertRegex(failure.text, r"95 % interval: -1\d\.\d % to -\d\.\d %")
            self.assertIn("first run: nightly-n15 of 2026-10-16", failure.text)
            self.assertIn("suspect: label (mpi-4.1.4 → mpi-4.1.7)", failure.text)

    def test_what_is_unconfirmed_or_acknowledged_passes_and_is_printed(self):
        self.nights(range(15), 950)
        self.nights(range(15, 16), 800)
        self.assertEqual(self.junit().get("failures"), "0")
        self.assertEqual([("unconfirmed" in node.text) for node in self.junit().iter("system-out")], [True, True])
        self.assertEqual(self.value("virtrain_series_verdict", arm="vm", figure="ratio", verdict="unconfirmed"), 1)
        self.nights(range(16, 19), 800)
        self.assertEqual(self.value("virtrain_series_large_losses", arm="vm", figure="ratio"), 1)
        for change in self.virtrain("changes", "--format", "json").json():
            self.virtrain("ack", change["id"], f"known {HOSTILE}")
        self.assertEqual(self.junit().get("failures"), "0")
        self.assertEqual([("acknowledged: known" in node.text) for node in self.junit().iter("system-out")], [True, True])
        self.assertEqual(self.value("virtrain_series_open_losses", arm="vm", figure="ratio"), 0)
        self.assertAlmostEqual(self.value("virtrain_series_level", arm="vm", figure="ratio"), 0.8)

    def test_prometheus_gets_level_last_night_verdict_and_losses(self):
        self.nights(range(15), 950)
        self.assertEqual(self.value("virtrain_series_verdict", arm="vm", figure="ratio", verdict="level"), 1)
        self.assertAlmostEqual(self.value("virtrain_series_level", arm="vm", figure="ratio"), 0.95)
        self.nights(range(15, 18), 855, "mpi-4.1.7")
        for verdict, holds in (("level", 0), ("unconfirmed", 0), ("gain", 0), ("loss", 1)):
            self.assertEqual(self.value("virtrain_series_verdict", arm="vm", figure="ratio", verdict=verdict), holds)
        self.assertEqual(self.value("virtrain_series_open_losses", arm="vm", figure="ratio"), 1)
        self.assertEqual(self.value("virtrain_series_open_losses", arm="bare_metal"), 0)
        self.assertAlmostEqual(self.value("virtrain_series_level", arm="vm", figure="ratio"), 0.855)
        self.assertAlmostEqual(self.value("virtrain_series_last_night", arm="vm", figure="images_per_second"), 855.855)
        self.assertEqual(self.value("virtrain_series_nights", arm="vm", figure="ratio"), 18)
        self.assertEqual(self.value("virtrain_series_last_night_timestamp_seconds", arm="vm", figure="ratio"), 1792288800)  # date -u -d 2026-10-18T02
        loss = {"arm": "vm", "figure": "ratio", "state": "open", "direction": "worse", "first_experiment": "nightly-n15", "suspect": "label"}
        self.assertAlmostEqual(self.value("virtrain_change_ratio", **loss), 0.9)
        self.assertLess(self.value("virtrain_change_low_ratio", **loss), 0.9)
        self.assertGreater(self.value("virtrain_change_high_ratio", **loss), 0.9)
        self.nights(range(18, 22), 950)
        self.assertAlmostEqual(self.value("virtrain_series_level", arm="vm", figure="ratio"), 0.95)
        self.assertNotIn("virtrain_change_ratio", self.samples()[0])

    def test_promtool_accepts_the_textfile_with_hostile_names(self):
        if not PROMTOOL.exists():
            print("no promtool; scripts/setup --all unpacks it")
            sys.exit(77)
        self.nights(range(15), 950, case=HOSTILE)
        self.nights(range(15, 18), 855, HOSTILE, case=HOSTILE)
        page = self.folder / "virtrain.prom"
        self.virtrain("changes", "--format", "prometheus", "-o", page)
        checked = subprocess.run([PROMTOOL, "check", "metrics"], input=page.read_text(), text=True, capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        self.assertEqual([path.name for path in self.folder.glob(".virtrain*")], [], "no temporary file is left")
        self.samples()
        case = next(iter(self.junit().iter("failure")))
        self.assertIn("label (mpi-4.1.4 → a \"quoted\" \\ back line <b>&amp;]]></b> \ufffd[31m \ufffd)", case.text)

    def test_what_can_be_told_of_each_series(self):
        self.nights(range(1), 950)
        self.assertIn("the first change can be detected after 15 runs", self.virtrain("changes").out)
        self.nights(range(1, 20), 950)
        said = self.virtrain("changes").out
        self.assertRegex(said, r"nightly/one/vm/ratio: noise 0\.\d % from run to run; smallest detectable loss 2\.\d % in 3 runs, 2\.\d % in 15")
        rows = self.virtrain("changes", "--noise", "--format", "json").json()
        self.assertEqual({(row["nights"], row["nights_to_go"]) for row in rows}, {(20, 0)})
        self.assertTrue(all(0.02 <= row["least_loss_15_nights"] <= row["least_loss_3_nights"] for row in rows), rows)
        self.assertAlmostEqual(self.value("virtrain_series_sigma", arm="vm", figure="ratio"),
                               next(row["sigma"] for row in rows if row["series"] == "nightly/one/vm/ratio"))
        self.assertIn("--noise has the formats", self.virtrain("changes", "--noise", "--format", "junit", status=2).err)

    def test_a_changed_scenario_leaves_no_stale_series(self):
        self.nights(range(15), 950)
        self.nights(range(15, 18), 855)
        self.nights(range(18, 19), 700, text="name: nightly\npairs: 9\n")
        self.assertEqual((self.junit().get("tests"), self.junit().get("failures")), ("3", "0"))
        self.assertEqual(self.value("virtrain_series_nights", arm="vm", figure="ratio"), 1)

    def test_an_empty_database_and_bad_places(self):
        empty = self.folder / "empty.jsonl"
        empty.write_text('{"record": "experiment", "experiment": "e", "scenario": "nightly"}\n')
        self.virtrain("import", empty)
        self.assertIn("0 series over 1 run: 0 losses are open.", self.virtrain("changes").out)
        self.assertIn("no run", self.virtrain("changes", "--expect", status=3).err, "nothing was judged")
        self.virtrain("import", write(self.folder / "nights.jsonl", records(range(1), 950)))
        self.assertIn("3 series over 2 runs: 0 losses are open.", self.virtrain("changes", "--expect").out)
        self.assertIn("<testsuites", self.virtrain("changes", "--format", "junit").out)
        self.assertIn("did you mean", self.virtrain("changes", "--format", "junitt", status=2).err)
        before = sorted(self.folder.iterdir())
        self.assertNotEqual(virtrain("changes", "--db", self.database, "-o", self.folder / "no" / "x").status, 0)
        self.assertEqual(sorted(self.folder.iterdir()), before)


unittest.main()
