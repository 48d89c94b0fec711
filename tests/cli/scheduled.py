"""Schedules with a crontab of our own on PATH: nothing of this machine's is touched."""

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import time
import unittest

from command_line import BUILD, InAFolder, small_scenario
from nights import CRONTAB

MINE = "# mine\n5 4 * * * backup\n"
without_systemd = unittest.skipIf(os.path.isdir("/run/systemd/system"), "systemd runs here")


class Scheduled(InAFolder):
    """A scenario to run each night, its records of nights to import, and nights that go on beside a test. They run on a stand-in for a
    host (tests/support/fake_host.h): a trial takes a tenth of a second."""

    program = BUILD / "fault-kit/virtrain-fake-host"

    def setUp(self):
        super().setUp()
        self.scenario = self.folder / "nightly.yaml"
        self.scenario.write_text(small_scenario(name="nightly"))
        crontab = self.folder / "crontab"
        crontab.write_text(CRONTAB)
        crontab.chmod(0o755)
        self.table = self.folder / "table"

    def add(self, *options):
        self.virtrain("schedule", "add", self.scenario, "--at", "2:00", "--db", self.database, *options)

    def last_result(self, name="nightly"):
        listed = self.virtrain("schedule", "list", "--format", "json").json()
        return {one["name"]: one["last_result"] for one in listed}[name]

    def import_nights(self, name, nights, package, value):
        """One record of an experiment and its pair for each night."""
        lines = []
        for night in nights:
            started = f"2026-10-{night + 1:02}T02:00:00Z"
            lines.append({"record": "experiment", "experiment": f"n{night:02}", "scenario": "nightly", "label": package,
                          "scenario_text": self.scenario.read_text(), "status": "finished", "started_at": started})
            for arm, rate in (("bare_metal", 1000), ("vm", value)):
                lines.append({"record": "trial", "experiment": f"n{night:02}", "scenario": "nightly", "case": "one", "arm": arm,
                              "pair": 1, "nodes": 1, "gpus_per_node": 0, "images_per_second": rate * (1 + 0.001 * (night % 4)),
                              "label": package, "started_at": started})
        path = self.folder / name
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        self.virtrain("import", path, "--db", self.database)

    def import_a_loss(self):
        self.import_nights("before.jsonl", range(15), "mpi-4.1.4", 950)
        self.import_nights("after.jsonl", range(15, 18), "mpi-4.1.7", 855)

    def changes(self, status=0):
        return self.virtrain("changes", "--db", self.database, "--expect", "--format", "json", status=status).json()

    def start_night(self, name):
        """One that goes on beside the test, at most until its end."""
        night = subprocess.Popen([self.program, "schedule", "run", name], env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(self.kill_night, night)
        return night

    @staticmethod
    def kill_night(night):
        """With the run that it started, as a power cut does it."""
        if night.poll() is not None:
            return
        runs = subprocess.run(["pgrep", "-P", str(night.pid)], capture_output=True, text=True, check=False).stdout.split()
        night.kill()
        for run in runs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(run), signal.SIGKILL)  # a group of its own
        night.wait()

    def wait_until_training(self, database):
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            with contextlib.suppress(sqlite3.Error):
                if database.exists() and self.rows("SELECT 1 FROM trial WHERE status = 'running'", database):
                    return
            time.sleep(0.1)
        self.fail("the night does not begin to train")
