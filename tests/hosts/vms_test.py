#!/usr/bin/python3
"""Weak scaling over three hosts, VMs against bare metal, from a hosts file to its tables: real VMs that libvirt of their own host
boots, whose tenants' network is a VXLAN between the hosts. Three emulated VMs share two cores: their trainer computes nothing."""

import json
import os
import pathlib
import sys
import unittest

import rig as rigs

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
SCENARIO = {
    "name": "weak", "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 2},
    "guest": {"vcpus": 1, "memory": "768MiB"}, "cases": [{"name": "weak", "scale": {"nodes": [1, 3], "per_host": 1}}],
    "arms": ["bare_metal", "vm"], "pairs": 1, "probes": ["all_reduce"], "boot_timeout": "5m"}


class Weak(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = cls.enterClassContext(rigs.Rig(3, libvirt=True))
        cls.environment = {**os.environ, "VIRTRAIN_DB": str(cls.rig.folder / "results.db")}

    def virtrain(self, *words):
        return self.rig.run(BUILD / "virtrain", *words, env=self.environment, timeout=900)

    def test_from_a_hosts_file_to_the_tables(self):
        scenario = self.rig.folder / "weak.yaml"
        scenario.write_text(json.dumps({**SCENARIO, "hosts": "vxlan.yaml"}))
        done = self.virtrain("run", scenario, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("4 trials finished, 0 failed", done.stderr)
        by_case = {one["case"]: one for one in json.loads(done.stdout)}
        self.assertEqual(set(by_case), {"weak/1", "weak/3"})
        for arm in ("bare_metal", "vm"):
            self.assertGreater(by_case["weak/3"]["arms"][arm]["speedup"], 0)
        hosts = json.loads(self.virtrain("show", "--hosts", "--format", "json").stdout)
        self.assertEqual({(row["case"], row["arm"], row["host"]) for row in hosts},
                         {(f"weak/{n}", arm, host) for arm in ("bare_metal", "vm") for n in (1, 3) for host in self.rig.names[:n]})
        probes = json.loads(self.virtrain("show", "--probes", "--format", "json").stdout)
        self.assertEqual({(row["name"], row["nodes"], row["ranks"], row["arm"]) for row in probes},
                         {("all_reduce", 3, 3, arm) for arm in ("bare_metal", "vm")})
        clean = self.virtrain("clean", "--verify", "--hosts", self.rig.folder / "vxlan.yaml")
        self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)


if __name__ == "__main__":
    if rigs.missing():
        print(f"skipped: {rigs.missing()}")
        sys.exit(77)
    unittest.main()
