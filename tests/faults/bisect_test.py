#!/usr/bin/python3
"""virtrain bisect on the real engine: nodes of a FakeHost, and a fake trainer that some variables of workload.env make slower."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time
import unittest

import outside

SLICE = "bare_metal_shared"


def scenario(**env):
    return outside.scenario(name="nightly", arms=[SLICE], workload={"steps": 2, "env": {"STEP_SECONDS": "0.05", **env}}, pairs=1)


class Bisect(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-bisect-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "nightly.db"
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state")}

    def virtrain(self, *arguments, status=0):
        done = subprocess.run([str(outside.KIT / "virtrain-fake-host"), *map(str, arguments), "--db", str(self.database)], capture_output=True, text=True,
                              timeout=120, env=self.environment, check=False)
        self.assertEqual(done.returncode, status, done)
        return done

    def night(self, text):
        """Runs it; the id of its experiment."""
        path = self.folder / "scenario.yaml"
        path.write_text(text)
        return self.virtrain("run", path, "--wait").stderr.split("\n")[0]

    def nights(self, text):
        """Fifteen good nights and three bad ones as records; the id of the loss."""
        lines = []
        for night in range(18):
            rate, label = (80, "libs-5") if night >= 15 else (100, "libs-4")
            experiment = f"n{night:02}"
            lines.append({"record": "experiment", "experiment": experiment, "scenario": "nightly", "label": label, "scenario_text": text,
                          "status": "finished", "started_at": f"2026-10-{night + 1:02}T02:00:00Z", "ended_at": f"2026-10-{night + 1:02}T02:00:02Z"})
            lines.append({"record": "trial", "experiment": experiment, "scenario": "nightly", "case": "one", "arm": SLICE, "pair": 1, "nodes": 1,
                          "gpus_per_node": 0, "images_per_second": rate * (1 + 0.001 * (night % 4)), "label": label,
                          "environment": {"threads_per_rank": "2" if night >= 15 else "1"}, "started_at": f"2026-10-{night + 1:02}T02:00:00Z"})
        path = self.folder / "nights.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.virtrain("import", path)
        change, = json.loads(self.virtrain("changes", "--format", "json").stdout)
        return change["id"]

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            return database.execute(sql).fetchall()

    def test_a_change_is_traced_to_the_switched_setting_and_stays_out_of_the_nights(self):
        change = self.nights(scenario())
        changes = self.virtrain("changes").stdout
        switch = ("--switch", "workload.env.LIBRARY", "4", "5", "--switch", "workload.env.SLOW", "0", "1")
        plan = self.virtrain("bisect", *switch, change, "--plan", "--seed", "7").stdout
        self.assertIn("At most 4 comparisons of 3 to 12 pairs: 24 to 96 trials, about 48.0 s to 3 min 12 s (2.0 s a trial, as in the stored runs)",
                      " ".join(plan.split()))
        self.assertRegex(plan, r"label +libs-4 +libs-5 +cannot be switched")
        self.assertEqual(len(self.rows("SELECT 1 FROM experiment")), 18, "a plan runs nothing")

        self.assertRegex(plan, r"workload\.env\.STEP_SECONDS +0\.05 +0\.05 +in all trials")
        self.assertIn("give --yes", plan)

        done = self.virtrain("bisect", change, *switch, "--seed", "7", "--wait", "--yes")
        self.assertRegex(done.stdout, r"workload\.env\.SLOW: 0 → 1 accounts for the change: (19|20)\.\d % \(\d+\.\d to \d+\.\d\), \d+ trials")
        self.assertRegex(done.stdout, r"workload\.env\.SLOW +0 +1 +cause")
        self.assertRegex(done.stdout, r"workload\.threads +1 +2 +not the cause")
        experiments = self.rows("SELECT scenario, label, json_extract(plan, '$.order_seed'), status FROM experiment WHERE number > 18")
        self.assertLessEqual(len(experiments), 4)
        self.assertEqual(set(experiments), {("nightly.bisect", f"bisect {change}", 7, "finished")})
        self.assertEqual(self.virtrain("changes").stdout, changes)
        compared = json.loads(self.virtrain("compare", "--format", "json").stdout)
        self.assertEqual([(one["baseline"], one["candidate"]) for one in compared], [("good", "tried")])

    def test_edits_between_two_nights_that_only_act_together_are_named_together(self):
        good = self.night(scenario(SLOW_A="0", X="1"))
        bad = self.night(scenario(SLOW_A="1", SLOW_B="1", X="2"))
        done = self.virtrain("bisect", good, bad, "--wait", "--yes")
        self.assertRegex(done.stdout, r"workload\.env\.SLOW_A: 0 → 1 and workload\.env\.SLOW_B: not set → 1 account for the change, and only together")
        standing = {row["suspect"]: row["standing"] for row in json.loads(self.virtrain("bisect", good, bad, "--plan", "--format", "json").stdout)}
        self.assertEqual(standing, {"workload.env.STEP_SECONDS": "in all trials",
                                    **{f"workload.env.{name}": "to be switched" for name in ("SLOW_A", "SLOW_B", "X")}})

    def test_a_strangers_record_runs_nothing_unconfirmed(self):
        marker = self.folder / "was-here"
        change = self.nights(scenario(LD_PRELOAD=f"/tmp/{'x' * 300}/e.so", BASH_ENV=f"{marker}\x1b[2J"))
        refused = self.virtrain("bisect", change, "--wait", status=2).stderr
        self.assertRegex(refused, r"workload\.env\.LD_PRELOAD: /tmp/xxx")
        self.assertIn("--yes", refused)
        self.assertNotIn("\x1b", refused)
        self.assertEqual(len(self.rows("SELECT 1 FROM experiment")), 18, "nothing was run")
        plan = self.virtrain("bisect", change, "--plan")
        self.assertIn(f"/tmp/{'x' * 300}/e.so", plan.stdout)
        self.assertNotIn("\x1b", plan.stdout)
        rows = {row["suspect"]: row["before"] for row in json.loads(self.virtrain("bisect", change, "--plan", "--format", "json").stdout)}
        self.assertIn("workload.env.LD_PRELOAD", rows)

    def test_what_no_setting_brings_back_is_said_so(self):
        change = self.nights(scenario())
        done = self.virtrain("bisect", change, "--wait", "--yes")
        self.assertRegex(done.stdout, r"no switched suspect brings it back .*what a scenario cannot switch: label: libs-4 → libs-5")
        self.assertEqual(len(self.rows("SELECT 1 FROM experiment WHERE scenario = 'nightly.bisect'")), 1)

    def test_a_signal_ends_it_and_what_was_measured_stays(self):
        change = self.nights(scenario(STEP_SECONDS="0.5"))
        process = subprocess.Popen([str(outside.KIT / "virtrain-fake-host"), "bisect", change, "--wait", "--yes", "--db", str(self.database)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=self.environment)
        deadline = time.monotonic() + 60
        while not self.rows("SELECT 1 FROM trial WHERE status = 'finished' AND arm IN ('good', 'tried')"):
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, (out, err))
        self.assertRegex(out, r"no verdict after \d+ trials: the cause is among workload\.threads")
        self.assertEqual(self.rows("SELECT status FROM experiment WHERE number > 18"), [("interrupted",)])
        self.assertGreaterEqual(len(self.rows("SELECT 1 FROM v_trial WHERE status = 'finished' AND scenario = 'nightly.bisect'")), 1)

    def test_what_cannot_be_bisected_is_refused(self):
        change = self.nights(scenario())
        wrong = change[:-1] + ("0" if change[-1] != "0" else "1")
        refused = self.virtrain("bisect", wrong, status=3).stderr
        self.assertIn(f"did you mean {change}?", refused)
        self.assertIn("did you mean", self.virtrain("bisect", change, "--pears", "3", status=2).stderr)
        self.assertIn("workload.threads", self.virtrain("bisect", change, "--switch", "workload.steps", "1", "2", status=2).stderr)
        self.assertIn("3", self.virtrain("bisect", change, "--pairs", "1", status=2).stderr)
        self.virtrain("bisect", "n01", "n99", status=3)
        self.virtrain("bisect", "n17", "n01", status=2)
        self.assertEqual(len(self.rows("SELECT 1 FROM experiment")), 18)


if __name__ == "__main__":
    unittest.main()
