#!/usr/bin/python3
"""`cmake --install` into a prefix of its own gives a virtrain that finds all that belongs to it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_line import BUILD, small_scenario, virtrain

HELPERS = {"virtrain-agent", "virtrain-host", "virtrain-rsh", "virtrain-payload", "virtrain-slice", "virtrain-guest-init"}


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Under /tmp, which a slice replaces by its own: what belongs to virtrain must stay visible there.
        cls.prefix = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-install-", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.prefix, ignore_errors=True)
        cls.prefix.chmod(0o755)
        subprocess.run([os.environ.get("CMAKE_COMMAND", "cmake"), "--install", BUILD, "--prefix", cls.prefix],
                       check=True, capture_output=True)
        cls.program = cls.prefix / "bin/virtrain"
        cls.scenarios = cls.prefix / "share/virtrain/scenarios"

    def test_everything_is_where_it_belongs(self):
        self.assertEqual({p.name for p in (self.prefix / "libexec/virtrain").iterdir()}, HELPERS)
        self.assertTrue({"virtrain", "virtrain-resnet50-cpu"} <= {p.name for p in (self.prefix / "bin").iterdir()})
        self.assertTrue((self.scenarios / "quickstart.yaml").exists())
        self.assertTrue((self.scenarios / "published/dell-r750xa.jsonl").exists())
        self.assertTrue((self.prefix / "share/virtrain/grafana/virtrain-nightly.json").exists())

    def test_plan_and_doctor_work(self):
        result = virtrain("plan", self.scenarios / "quickstart.yaml", program=self.program)
        self.assertEqual(result.status, 0, result)
        result = virtrain("doctor", "--format", "json", program=self.program)
        self.assertTrue(result.json())

    def test_a_bare_metal_run_finds_its_helpers(self):
        if os.geteuid() != 0:
            self.skipTest("slices need root")
        database = self.prefix / "results.db"
        cases = [{"name": "two", "tenants": [{"nodes": 2}]}]
        result = virtrain("run", "-", "--wait", "--db", database, program=self.program, cwd=self.prefix,
                          stdin=small_scenario(arms=["bare_metal"], cases=cases, oversubscribe=True))
        self.assertEqual(result.status, 0, result)
        self.assertIn("two", result.out)


if __name__ == "__main__":
    unittest.main()
