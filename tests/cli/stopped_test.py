#!/usr/bin/python3
"""Runs and nights that are stopped, held up or fail: their exit status, and what goes on beside them or after them."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import time
import unittest

from command_line import BUILD, InAFolder, small_scenario
from nights import CRONTAB

LONG = {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 100000}
as_root = unittest.skipUnless(os.geteuid() == 0, "slices with namespaces need root")
without_systemd = unittest.skipIf(os.path.isdir("/run/systemd/system"), "systemd runs here")


def below(pid):
    """All processes that it has started, and they, now."""
    found = []
    for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split():
        found += [int(child), *below(child)]
    return found


def is_trainer(pid):
    with contextlib.suppress(OSError):
        return b"virtrain-resnet50-cpu" in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    return False


class Runs(InAFolder):
    def setUp(self):
        super().setUp()
        self.scenario = self.folder / "scenario.yaml"

    def start(self, *arguments):
        process = subprocess.Popen([self.program, *map(str, arguments)], env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(lambda: [os.kill(one, signal.SIGKILL) for one in [*below(process.pid), process.pid]]
                        if process.poll() is None else None)
        return process

    def start_run(self, *arguments, **changes):
        self.scenario.write_text(small_scenario(**changes))
        return self.start("run", self.scenario, "--wait", "--db", self.database, *arguments)

    def wait_for(self, what, seconds=60):
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            with contextlib.suppress(sqlite3.Error):
                if found := what():
                    return found
            time.sleep(0.1)
        return self.fail("it does not come")

    def wait_until_training(self, process):
        return self.wait_for(lambda: self.database.exists() and self.rows("SELECT 1 FROM event WHERE stage = 'run'") and
                             [one for one in below(process.pid) if is_trainer(one)])


class HeldUp(Runs):
    """What waits for seconds, on a stand-in for a host, whose cores nobody else has to wait for."""

    program = BUILD / "fault-kit/virtrain-fake-host"

    def test_a_run_outwaits_another_writer(self):
        self.environment["STEP_SECONDS"] = "0.05"
        run = self.start_run(workload={**LONG, "steps": 40}, pairs=2)
        self.wait_for(lambda: self.database.exists() and self.rows("SELECT 1 FROM event WHERE stage = 'run'"))
        with contextlib.closing(sqlite3.connect(self.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            time.sleep(14)
            self.assertIsNone(run.poll(), "it was to be held up")
        words = run.communicate(timeout=60)[0]
        self.assertEqual(run.returncode, 0, words)
        self.assertEqual(self.rows("SELECT status, valid, invalid_reason FROM trial"), [("finished", 1, None)] * 2)


class Stopped(Runs):
    @as_root
    def test_a_run_with_probes_that_is_stopped_before_them_says_so(self):
        run = self.start_run(arms=["bare_metal"], workload=LONG, security=True)
        self.wait_until_training(run)
        run.send_signal(signal.SIGTERM)
        words = run.communicate(timeout=60)[0]
        self.assertEqual(run.returncode, 143, words)
        self.assertEqual(self.rows("SELECT status FROM experiment"), [("interrupted",)])

    @as_root
    def test_a_run_that_ends_at_its_first_failure_probes_nothing(self):
        run = self.start_run("--fail-fast", arms=["bare_metal"], workload=LONG, security=True)
        for trainer in self.wait_until_training(run):
            os.kill(trainer, signal.SIGKILL)
        words = run.communicate(timeout=120)[0]
        self.assertEqual(run.returncode, 6, words)
        self.assertEqual(self.rows("SELECT count(*) FROM security_probe"), [(0,)])

    def add_a_night(self):
        crontab = self.folder / "crontab"
        crontab.write_text(CRONTAB)
        crontab.chmod(0o755)
        self.scenario.write_text(small_scenario(name="long", workload=LONG))
        self.virtrain("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database)

    def last_result(self):
        (one,) = self.virtrain("schedule", "list", "--format", "json").json()
        return one["last_result"]

    @without_systemd
    def test_a_night_that_is_stopped_ends_its_run_first(self):
        self.add_a_night()
        night = self.start("schedule", "run", "long")
        self.wait_until_training(night)
        started = below(night.pid)
        night.send_signal(signal.SIGTERM)
        words = night.communicate(timeout=60)[0]
        self.assertEqual(night.returncode, 143, words)
        self.assertEqual(self.rows("SELECT status FROM experiment"), [("interrupted",)])
        self.assertEqual([one for one in started if is_trainer(one)], [])
        self.assertEqual(self.last_result(), "stopped")

    @without_systemd
    def test_the_run_of_a_killed_night_tears_down_and_holds_off_the_next_one(self):
        self.add_a_night()
        night = self.start("schedule", "run", "long")
        self.wait_until_training(night)
        started = below(night.pid)
        for one in started:
            os.kill(one, signal.SIGSTOP)
        self.addCleanup(lambda: [os.kill(one, signal.SIGKILL) for one in started if os.path.exists(f"/proc/{one}")])
        night.kill()
        night.wait()
        self.assertIn("it still runs", self.virtrain("schedule", "run", "long", status=75).err)
        self.assertEqual(self.last_result(), "running")
        for one in started:
            os.kill(one, signal.SIGCONT)
        self.wait_for(lambda: self.rows("SELECT 1 FROM experiment WHERE status = 'interrupted'"))
        self.wait_for(lambda: self.last_result() == "killed")
        self.assertEqual([one for one in started if is_trainer(one)], [])

    @without_systemd
    def test_a_night_marks_what_ran_here_and_not_what_may_run_elsewhere(self):
        self.add_a_night()
        self.scenario.write_text(small_scenario(name="long"))
        for _ in range(2):
            self.virtrain("run", self.scenario, "--wait", "--db", self.database)
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute("UPDATE experiment SET status = 'running', ended_at = NULL")
            database.execute("UPDATE experiment SET host_name = 'elsewhere', boot_id = 'its own' WHERE number = 2")
        self.virtrain("schedule", "run", "long")
        self.assertEqual(self.rows("SELECT status FROM experiment ORDER BY number"), [("interrupted",), ("running",), ("finished",)])

    def clean(self, *arguments, status=0):
        """With nothing of this host's libvirt."""
        return self.virtrain("clean", "--connect", "test:///default", *arguments, "--db", self.database, status=status)

    def test_clean_marks_an_experiment_that_no_journal_knows(self):
        self.environment["VIRTRAIN_STATE_DIR"] = str(self.folder / "leases")
        run = self.start_run(workload=LONG)
        self.wait_until_training(run)
        ((experiment,),) = self.rows("SELECT id FROM experiment")
        self.assertIn("it may still run", self.clean("--experiment", experiment).err)
        self.assertEqual(self.rows("SELECT status FROM experiment"), [("running",)])
        run.send_signal(signal.SIGTERM)
        run.communicate(timeout=60)
        with contextlib.closing(sqlite3.connect(self.database)) as database, database:
            database.execute("UPDATE experiment SET status = 'running', ended_at = NULL")
        self.assertEqual(self.clean("--experiment", "20260101t000000-01ea4e").out, "nothing is left over\n")
        self.assertIn(f"interrupted: experiment {experiment}", self.clean("--experiment", experiment).out)
        self.assertEqual(self.rows("SELECT status FROM experiment"), [("interrupted",)])
        self.assertNotIn("interrupted:", self.clean("--experiment", experiment).out, "once")

    @as_root
    def test_root_marks_no_experiment_of_a_user_whose_virtrain_lives(self):
        somebody = 61_041  # no account
        started = "2026-11-20T02:00:00Z"
        records = self.folder / "e.jsonl"
        records.write_text(json.dumps({"record": "experiment", "experiment": "20261120t020000-0a1b2c", "scenario": "s", "status": "running",
                                       "started_at": started}) + "\n")
        self.virtrain("import", records, "--db", self.database)
        os.chown(self.database, somebody, somebody)
        theirs = shutil.copy("/bin/sleep", self.folder / "virtrain")
        self.folder.chmod(0o755)
        marking = ("--experiment", "20261120t020000-0a1b2c")
        with subprocess.Popen([theirs, "100"], user=somebody, group=somebody, extra_groups=[]) as other:
            try:
                self.wait_for(lambda: pathlib.Path(f"/proc/{other.pid}/comm").read_text(encoding="ascii") == "virtrain\n")
                self.assertIn("it may still run", self.clean(*marking).err)
            finally:
                other.kill()
        self.assertEqual(self.rows("SELECT status FROM experiment"), [("running",)])
        self.assertIn("interrupted: experiment", self.clean(*marking).out)


if __name__ == "__main__":
    unittest.main()
