#!/usr/bin/python3
"""Something goes away while a tenant's nodes are made, train and are removed on two hosts: the coordinator, an ssh, a host's process, a
host's network; at each stage of the second trial. Nothing may be left on any host, and the first trial stays."""

import contextlib
import json
import os
import pathlib
import signal
import sqlite3
import subprocess
import sys
import time
import unittest

import rig as rigs

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
STAGES = ("define", "boot", "run", "collect")
TRIAL_FAILED = 6
RIG = None


def setUpModule():
    global RIG
    RIG = unittest.enterModuleContext(rigs.Rig(2))


def kill(place, program, *words):
    for pid in place.pids_of(program):
        if all(word in rigs.command_of(pid) for word in words):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


class Faults(unittest.TestCase):
    def setUp(self):
        self.database = RIG.folder / "results.db"  # one for all: clean marks in its own one alone
        self.environment = {**os.environ, "VIRTRAIN_DB": str(self.database)}

    def virtrain(self, *arguments):
        return RIG.run(BUILD / "virtrain", *arguments, env=self.environment, timeout=200)

    def start(self):
        """A run of three trials, of which one has ended when the next one comes to a stage."""
        scenario = RIG.folder / "faults.yaml"
        scenario.write_text(json.dumps({
            "name": "faults", "hosts": "two.yaml", "guest": {"vcpus": 1, "memory": "768MiB"}, "arms": ["bare_metal"], "pairs": 3,
            "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 4},
            "cases": [{"name": "two", "tenants": [{"nodes": 2, "per_host": 1}]}]}))
        RIG.write_hosts("two.yaml", RIG.names, {"kind": "vxlan", "name": "data0"})
        run = subprocess.Popen(RIG.coordinator.words(BUILD / "virtrain", "-v", "run", scenario), env=self.environment, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(run.stderr.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.kill)
        return run

    def statuses(self):
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            return [status for (status,) in database.execute("SELECT status FROM trial WHERE experiment_number = (SELECT max(number) FROM experiment)"
                                                              " ORDER BY id")]

    def clean(self):
        done = self.virtrain("clean", "--hosts", ",".join(RIG.names))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def is_clean(self):
        return self.virtrain("clean", "--hosts", ",".join(RIG.names), "--verify").returncode == 0

    def at_stage(self, stage, fault):
        """The run after the fault, its log and its exit status."""
        run = self.start()
        log, seen = [], 0
        for line in run.stderr:
            log.append(line)
            seen += f"stage={stage}" in line
            if seen == 2:
                break
        self.assertEqual(seen, 2, "".join(log))
        fault()
        began = time.monotonic()
        log.append(run.stderr.read())
        status = run.wait(60)
        self.assertLess(time.monotonic() - began, 60)
        return "".join(log), status

    def assert_kept(self, log):
        statuses = self.statuses()
        self.assertEqual(statuses[0], "finished", (statuses, log[-3000:]))

    def test_the_coordinator_is_killed(self):
        for stage in STAGES:
            with self.subTest(stage):
                log, status = self.at_stage(stage, lambda: kill(RIG.coordinator, "virtrain"))
                self.assertEqual(status, -signal.SIGKILL, log[-3000:])
                # By itself: an experiment that nobody has marked as interrupted is all that clean finds.
                rigs.wait_for(lambda: not any(host.pids_of("virtrain-host") for host in RIG.hosts), "host processes have ended", 30)
                self.clean()
                self.assertTrue(self.is_clean())
                self.assert_kept(log)

    def test_an_ssh_is_killed(self):
        for stage in STAGES:
            with self.subTest(stage):
                log, status = self.at_stage(stage, lambda: kill(RIG.coordinator, "ssh", "gpu-b"))
                self.assertEqual(status, TRIAL_FAILED, log[-3000:])
                self.assertIn("virtrain-host is gone", log)
                rigs.wait_for(self.is_clean, "nothing left", 30)
                self.assert_kept(log)

    def test_a_host_process_is_killed(self):
        for stage in STAGES:
            with self.subTest(stage):
                log, status = self.at_stage(stage, lambda: kill(RIG.host("gpu-b"), "virtrain-host"))
                self.assertEqual(status, TRIAL_FAILED, log[-3000:])
                self.clean()
                rigs.wait_for(self.is_clean, "nothing left", 30)
                self.assert_kept(log)

    def test_a_host_is_cut_off(self):
        for stage in STAGES:
            with self.subTest(stage):
                self.addCleanup(RIG.host("gpu-b").restore)
                log, status = self.at_stage(stage, RIG.host("gpu-b").silence)
                self.assertEqual(status, TRIAL_FAILED, log[-3000:])
                self.assertIn("it was silent for", log)
                RIG.host("gpu-b").restore()
                rigs.wait_for(self.is_clean, "nothing left", 30)
                self.assert_kept(log)


if __name__ == "__main__":
    if rigs.missing():
        print(f"skipped: {rigs.missing()}")
        sys.exit(77)
    unittest.main()
