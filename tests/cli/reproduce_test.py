#!/usr/bin/python3
"""`virtrain reproduce`: the plan for this host, what a host lacks, and published figures beside an earlier run."""

import json
import pathlib
import shutil
import tempfile
import unittest

from command_line import SCENARIOS, SOURCE, virtrain

WITHOUT_GPU = SOURCE / "tests/data/inventory/two-nodes"
CASES = ["one-vm-two-gpus", "two-vms-one-gpu", "two-vms-two-gpus", "weak-scaling/1", "weak-scaling/2", "weak-scaling/4"]


class Reproduce(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-reproduce-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.database = self.folder / "results.db"

    def own_run(self):
        rows = [{"record": "trial", "experiment": "own", "scenario": "dell-r750xa-cpu", "case": f"weak-scaling/{nodes}", "arm": arm,
                 "pair": 1, "nodes": nodes, "gpus_per_node": 0, "images_per_second": rate, "virtualization": virtual}
                for nodes, arm, rate, virtual in [(1, "bare_metal", 100, "none"), (1, "vm", 90, "kvm"),
                                                  (4, "bare_metal", 360, "none"), (4, "vm", 270, "kvm")]]
        path = self.folder / "own.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.assertEqual(virtrain("import", path, "--db", self.database).status, 0)

    def test_a_host_without_gpus_is_told_what_is_missing_and_the_way_out(self):
        result = virtrain("reproduce", "dell-r750xa", "--plan", "--inventory", WITHOUT_GPU)
        self.assertEqual(result.status, 4, result)
        self.assertIn("needs 2 GPUs", result.err)
        self.assertIn("virtrain reproduce dell-r750xa --backend cpu", result.err)
        self.assertEqual(result.out, "")

    def test_a_host_without_gpus_hears_the_doctor_too(self):
        gpus = [device for device in virtrain("doctor", "--devices", "--format", "json").json() if device["kind"] == "gpu"]
        result = virtrain("reproduce", "dell-r750xa", "--plan")
        self.assertEqual("GPU-0: no NVIDIA GPU found" in result.err, not gpus, result)
        self.assertTrue(gpus or result.status == 4, result)

    def test_the_cpu_sized_version_has_the_same_cases(self):
        plan = virtrain("reproduce", "dell-r750xa", "--backend", "cpu", "--plan", "--format", "json")
        self.assertEqual(plan.status, 0, plan)
        self.assertEqual(list(dict.fromkeys(trial["case"] for trial in plan.json()["trials"])), CASES)
        printed = virtrain("reproduce", "dell-r750xa", "--backend", "cpu", "--print-scenario").out
        self.assertEqual(printed, (SCENARIOS / "dell-r750xa-cpu.yaml").read_text())

    def test_an_earlier_run_stands_beside_the_published_figures(self):
        self.own_run()
        for _ in range(2):  # the published rows are imported once, and found the second time
            result = virtrain("reproduce", "dell-r750xa", "--experiment", "own", "--db", self.database, "--format", "json")
            self.assertEqual(result.status, 0, result)
        four = next(arm for arm in result.json()["arms"] if (arm["case"], arm["arm"]) == ("weak-scaling/4", "vm"))
        self.assertAlmostEqual(four["published"]["speedup"], 10675.0925 / 2757.21, places=12)
        self.assertAlmostEqual(four["own"]["speedup"], 3.0, places=12)
        self.assertAlmostEqual(four["published"]["ratio"], 10675.0925 / 10818, places=12)
        self.assertIn("hypervisor", [line["topic"] for line in result.json()["differences"]])
        # The study came last, and is not what is meant by the latest experiment.
        self.assertIn("experiment own", virtrain("show", "--db", self.database).out)
        table = virtrain("reproduce", "dell-r750xa", "--experiment", "ow", "--db", self.database).out
        for words in ["What differs", "VMware ESXi 7.0.3", "not stated", "3.872", "3.000"]:
            self.assertIn(words, table)

    def test_what_is_not_known_is_named_with_what_is(self):
        unknown = virtrain("reproduce", "nobodys-study")
        self.assertEqual(unknown.status, 2)
        self.assertIn("dell-r750xa", unknown.err)
        look = ("reproduce", "dell-r750xa", "--experiment", "nowhere", "--db", self.database)
        self.assertNotEqual(virtrain(*look).status, 0)
        self.assertFalse(self.database.exists(), "looking makes no database")
        self.own_run()
        missing = virtrain(*look)
        self.assertNotEqual(missing.status, 0)
        self.assertIn("virtrain list", missing.err)
        self.assertEqual(len(virtrain("list", "--db", self.database, "--format", "json").json()), 1, "nothing is imported")


if __name__ == "__main__":
    unittest.main(verbosity=2)
