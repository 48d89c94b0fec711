#!/usr/bin/python3
"""Bare metal on the hosts' own NICs against slices over a VXLAN, on two hosts whose NICs have different names: real slices and
ranks, no VM; and the same by ssh as a user who is not root there."""

import json
import os
import pathlib
import shutil
import sqlite3
import sys
import unittest

import rig as rigs

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
NICS = {"gpu-a": "data0", "gpu-b": "ens5f0"}
SCENARIO = {
    "name": "native", "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 2},
    "guest": {"vcpus": 1, "memory": "768MiB"}, "oversubscribe": True, "cases": [{"name": "weak", "scale": {"nodes": [1, 3]}}],
    "arms": ["bare_metal", "bare_metal_shared"], "pairs": 1, "probes": ["all_reduce"], "hosts": "nics.yaml"}
MOST_CONTROL_BYTES = 20_000_000  # of one host over ssh; gradients are 100 MB a step


class Native(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = cls.enterClassContext(rigs.Rig(2))
        other = cls.rig.host("gpu-b")
        other.sh("ip", "link", "set", "data0", "down")
        other.sh("ip", "link", "set", "data0", "name", "ens5f0")
        other.sh("ip", "link", "set", "ens5f0", "up")
        # What has the name of the first host's NIC here is another network.
        other.sh("ip", "link", "add", "data0", "type", "bridge")
        other.sh("ip", "address", "add", "10.99.0.2/24", "dev", "data0")
        other.sh("ip", "link", "set", "data0", "up")
        cls.write_hosts("nics.yaml", "")

    @classmethod
    def write_hosts(cls, file, user, launcher="ssh"):
        hosts = [{"name": user + name, "network": {"kind": "vxlan", "name": nic}} for name, nic in NICS.items()]
        (cls.rig.folder / file).write_text(json.dumps({"launcher": launcher, "hosts": hosts}))

    def setUp(self):
        self.environment = {**os.environ, "VIRTRAIN_DB": str(self.rig.folder / f"{self.id()}.db")}

    def virtrain(self, *words):
        return self.rig.run(BUILD / "virtrain", *words, env=self.environment, timeout=500)

    def rows(self, query):
        with sqlite3.connect(self.environment["VIRTRAIN_DB"]) as database:
            return database.execute(query).fetchall()

    def run_scenario(self, changes, *options):
        scenario = self.rig.folder / "native.yaml"
        scenario.write_text(json.dumps({**SCENARIO, **changes}))
        done = self.virtrain("run", scenario, "--format", "json", *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Every trial is valid: its ranks were where they belong, and the NICs have carried the gradients.
        self.assertEqual(self.rows("SELECT DISTINCT status, valid, invalid_reason FROM trial"), [("finished", 1, None)])
        for host in self.rig.hosts:
            self.assertEqual(host.sh("find", "/dev/shm", "/tmp", "-maxdepth", "2", "(", "-name", "vader_segment*", "-o", "-name",
                                     "virtrain-vt*", "-o", "-name", "ompi.*", ")", "-newer", scenario), "")
        return {one["case"]: one for one in json.loads(done.stdout)}

    def bytes_sent(self, name, nic):
        return int(self.rig.host(name).sh("cat", f"/sys/class/net/{nic}/statistics/tx_bytes"))

    def test_ranks_on_the_hosts_own_nics_are_a_column_of_their_own(self):
        before = {name: self.bytes_sent(name, "eth0") for name in NICS}
        case = self.run_scenario({})["weak/3"]
        self.assertGreater(case["arms"]["bare_metal_shared"]["speedup"], 0)
        self.assertEqual(case["verdict"], "not_comparable")
        self.assertIn("network_medium differs: vxlan in bare_metal, host_nic in bare_metal_shared", str(case["notes"]))
        # Two ranks are in the slice of the first host and one in that of the second.
        self.assertEqual(self.rows("SELECT r.node, count(*) FROM rank r JOIN tenant n ON n.id = r.tenant_id JOIN trial t ON t.id = n.trial_id "
                                   "WHERE t.arm = 'bare_metal_shared' AND n.nodes = 3 GROUP BY r.node ORDER BY r.node"),
                         [("t1n1", 2), ("t1n3", 1)])
        self.assertEqual(self.rows("SELECT DISTINCT w.from_node, w.to_node, w.transport FROM transport w JOIN tenant n ON n.id = w.tenant_id "
                                   "JOIN trial t ON t.id = n.trial_id WHERE t.arm = 'bare_metal_shared' ORDER BY 1, 2"),
                         [("t1n1", "t1n1", "shm"), ("t1n1", "t1n3", "tcp"), ("t1n3", "t1n1", "tcp")])
        for name in NICS:
            self.assertLess(self.bytes_sent(name, "eth0") - before[name], MOST_CONTROL_BYTES)
        probes = json.loads(self.virtrain("show", "--probes", "--format", "json").stdout)
        self.assertIn(("all_reduce", 3, "bare_metal_shared"), {(row["name"], row["ranks"], row["arm"]) for row in probes})
        clean = self.virtrain("clean", "--verify", "--hosts", self.rig.folder / "nics.yaml")
        self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)

    def test_a_user_needs_no_root_for_it(self):
        # Both hosts have this machine's /tmp, where the user's home is.
        self.write_hosts("worker.yaml", "worker@", ["ssh", "-T", "{host}", "env", "XDG_STATE_HOME=/tmp/state-{host}", "virtrain-host"])
        for name in NICS:
            self.rig.host(name).sh("install", "-d", "-o", "worker", "-m", "700", "/run/user/61234")  # as a login does
            self.addCleanup(shutil.rmtree, f"/tmp/state-worker@{name}", ignore_errors=True)
        self.run_scenario({"hosts": "worker.yaml", "arms": ["bare_metal_shared"], "probes": ["triad"],
                           "cases": [{"name": "two", "tenants": [{"nodes": 2}]}]}, "--mode", "session")


if __name__ == "__main__":
    if rigs.missing():
        print(f"skipped: {rigs.missing()}")
        sys.exit(77)
    unittest.main()
