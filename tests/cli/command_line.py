"""Runs virtrain as a user does, and keeps what it says on each stream."""

import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
# Jobs have /tmp from their node, so that payloads of folders below it are refused: a build there makes them elsewhere.
PAYLOADS = "/var/tmp" if BUILD.resolve().is_relative_to("/tmp") else BUILD
SOURCE = pathlib.Path(os.environ["VIRTRAIN_SOURCE"])
SCENARIOS = SOURCE / "scenarios"


@dataclasses.dataclass
class Result:
    status: int
    out: str
    err: str

    def json(self):
        return json.loads(self.out)


def virtrain(*arguments, program=BUILD / "virtrain", stdin="", **options):
    done = subprocess.run([str(program), *map(str, arguments)], input=stdin, capture_output=True, text=True, timeout=120,
                          **options)
    return Result(done.returncode, done.stdout, done.stderr)


def verbs():
    """Those that --help lists."""
    listed = virtrain("--help").out.split("\nMeasure:\n")[1].split("Examples:")[0]
    return set(re.findall(r"^  ([a-z]+) ", listed, re.M))


def small_scenario(**changes):
    """One rank on bare metal without namespaces: runs anywhere, in a second or two."""
    scenario = {
        "name": "small",
        "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 2},
        "guest": {"vcpus": 1, "memory": "768MiB"},
        "cases": [{"name": "one", "tenants": [{"nodes": 1}]}],
        "arms": ["bare_metal_shared"],
        "pairs": 1,
    }
    return json.dumps({**scenario, **changes})  # JSON is YAML


class InAFolder(unittest.TestCase):
    """Schedules, state, a results database and programs of its own, which come before the system's."""

    program = BUILD / "virtrain"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-cli-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "results.db"
        self.environment = {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}",
                            "XDG_CONFIG_HOME": str(self.folder / "config"), "XDG_STATE_HOME": str(self.folder / "state")}

    def virtrain(self, *arguments, status=0):
        result = virtrain(*arguments, program=self.program, env=self.environment)
        self.assertEqual(result.status, status, result)
        return result

    def rows(self, sql, database=None):
        with contextlib.closing(sqlite3.connect(database or self.database)) as opened:
            return opened.execute(sql).fetchall()
