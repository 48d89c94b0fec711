#!/usr/bin/python3
"""A job that counts tokens: an isolation matrix of it and its nights, by virtrain's own commands on a FakeHost. Its unit is in
all that is printed, and images/s in none of it."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

KIT = pathlib.Path(os.environ["VIRTRAIN_FAULT_KIT"])
UNIT = "tokens/s"
SLICE = "bare_metal_shared"


def workload(rate):
    """Says a rate forty times a second, so that a busy machine changes nothing of it."""
    return {"command": ["sh", "-c", f"for i in $(seq 8); do echo step $i tok/s: {rate} mfu: 41%; sleep 0.025; done"],
            "throughput": {"pattern": r"tok/s: (?P<value>[0-9.]+)", "example": "step 1 tok/s: 100.5 mfu: 41%", "unit": UNIT, "skip": 1},
            "figures": [{"name": "mfu", "pattern": r"mfu: (?P<value>[0-9.]+)%", "example": "mfu: 41%", "unit": "%"}]}


class Units(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-units-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.environment = {**os.environ, "XDG_STATE_HOME": str(self.folder / "state"), "XDG_CONFIG_HOME": str(self.folder / "config")}

    def virtrain(self, *arguments, status=0, database=True):
        words = [*map(str, arguments), *(["--db", self.folder / "results.db"] if database else [])]
        done = subprocess.run([KIT / "virtrain-fake-host", *words], capture_output=True, text=True, timeout=120, env=self.environment, check=False)
        self.assertEqual(done.returncode, status, f"{arguments}\n{done.stdout}\n{done.stderr}")
        return done

    def write(self, scenario):
        path = self.folder / f"{scenario['name']}.yaml"
        path.write_text(json.dumps(scenario))
        return path

    def report(self):
        page = self.folder / "report.html"
        self.virtrain("report", "-o", page)
        return page.read_text()

    def in_unit(self, text):
        self.assertIn(UNIT, text)
        self.assertNotIn("images/s", text)

    def test_an_isolation_matrix(self):
        file = self.write({"name": "neighbours", "workload": workload("$((1000 + i % 3))"), "guest": {"vcpus": 1, "memory": "512MiB"},
                           "isolation": {"victims": [{"name": "trainer", "nodes": 1}], "aggressors": ["cpu"], "levels": ["100%"]},
                           "arms": ["bare_metal"], "pairs": 2})
        self.virtrain("run", file, "--wait")
        shown = self.virtrain("isolate").stdout
        self.in_unit(shown)
        cells = json.loads(self.virtrain("isolate", "--format", "json").stdout)
        self.assertGreaterEqual(len(cells), 2, cells)
        self.assertEqual({cell["unit"] for cell in cells}, {UNIT})
        page = self.virtrain("export", "--format", "prometheus").stdout
        losses = [line for line in page.splitlines() if line.startswith("virtrain_isolation_loss_ratio")]
        self.assertTrue(losses)
        for line in losses:
            self.assertIn(f'unit="{UNIT}"', line)
        self.assertNotIn("images_per_second{", page)
        self.assertIn('name="mfu",unit="%"', page)
        self.in_unit(self.virtrain("show").stdout)
        self.assertIn("41 %", self.virtrain("show", "--figures").stdout)
        report = self.report()
        self.assertIn(UNIT, report)
        self.assertIn("Figures of jobs", report)

    def test_nights(self):
        rate = self.folder / "rate"
        file = self.write({"name": "nightly", "workload": workload(f"$(cat {rate})"), "guest": {"vcpus": 1, "memory": "512MiB"},
                           "cases": [{"name": "one", "tenants": [{"nodes": 1}]}], "arms": [SLICE], "pairs": 1})
        self.virtrain("schedule", "add", file, "--no-timer", "--at", "02:00")
        for night in range(18):  # fifteen show what is normal, three confirm a change
            rate.write_text(str(1000 + night % 4 if night < 15 else 700))
            done = self.virtrain("schedule", "run", "nightly", status=1 if night == 17 else 0, database=False)
        self.in_unit(done.stdout)
        changes = json.loads(self.virtrain("changes", "--format", "json").stdout)
        self.assertEqual([change["unit"] for change in changes], [UNIT])
        self.in_unit(self.virtrain("changes").stdout)
        suite = self.virtrain("changes", "--format", "junit").stdout
        failure = xml.fromstring(suite).find(".//failure")
        self.in_unit("".join(failure.itertext()) + failure.get("message", ""))
        page = self.virtrain("changes", "--format", "prometheus").stdout
        self.assertIn(f'unit="{UNIT}"', page)
        self.assertIn(UNIT, self.report())


if __name__ == "__main__":
    if not (KIT / "virtrain-fake-host").exists():
        print("skipped: the fault kit is not built")
        sys.exit(77)
    unittest.main()
