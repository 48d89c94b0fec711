#!/usr/bin/python3
"""`virtrain doctor --devices` and the plan of the study, on the recorded host that the repository ships."""

import unittest

from command_line import SCENARIOS, SOURCE, virtrain

R750XA = SOURCE / "tests/data/r750xa"
PAIRS = [["0000:17:00.0", "0000:31:00.0"], ["0000:b1:00.0", "0000:ca:00.0"]]


class Devices(unittest.TestCase):
    def test_json_has_every_fact_and_the_table_the_main_ones(self):
        result = virtrain("doctor", "--devices", "--inventory", R750XA, "--format", "json")
        self.assertEqual(result.status, 0, result)
        devices = {device["address"]: device for device in result.json()}
        self.assertEqual([kind for kind in (d["kind"] for d in result.json())].count("gpu"), 4)
        gpu = devices["0000:17:00.0"]
        self.assertEqual((gpu["iommu_group"], gpu["numa_node"], gpu["mechanism"]), (21, 0, "passthrough"))
        self.assertEqual(gpu["link_possible"], {"speed": "16.0 GT/s PCIe", "width": 16})
        self.assertEqual(max(bar["bytes"] for bar in gpu["bars"]), 64 << 30)
        self.assertIsNone(gpu["lease"])
        self.assertEqual(devices["0000:98:00.0"]["ports"][0]["mtu_bytes"], 2044)
        table = virtrain("doctor", "--devices", "--inventory", R750XA).out
        for words in ["NVIDIA A100-PCIE-40GB", "2.5 GT/s x16 (of 16.0 GT/s x16)", "NVLink to 0000:ca:00.0"]:
            self.assertIn(words, table)

    def test_this_host_answers_too(self):
        self.assertEqual(virtrain("doctor", "--devices").status, 0)

    def test_a_recorded_host_is_for_devices_only(self):
        self.assertEqual(virtrain("doctor", "--inventory", R750XA).status, 2)


class StudyPlan(unittest.TestCase):
    """The study on its own machine: VMs of 32 vCPUs and 64 GiB, NVLink pairs together, cores beside their GPUs."""

    def test_placement(self):
        result = virtrain("plan", SCENARIOS / "dell-r750xa.yaml", "--inventory", R750XA, "--format", "json")
        self.assertEqual(result.status, 0, result)
        numa_of_gpu = {"0000:17:00.0": 0, "0000:31:00.0": 0, "0000:b1:00.0": 1, "0000:ca:00.0": 1}
        for trial in result.json()["trials"]:
            nodes = [node for tenant in trial["tenants"] for node in tenant["nodes"]]
            given = [address for node in nodes for address in node["devices"]]
            self.assertEqual(len(given), len(set(given)), trial["case"])
            for node in nodes:
                self.assertEqual((len(node["cores"]), node["memory_bytes"]), (32, 64 << 30))
                self.assertEqual({numa_of_gpu[address] for address in node["devices"]}, {node["numa_node"]})
                if len(node["devices"]) == 2:
                    self.assertIn(node["devices"], PAIRS)
                    self.assertIn("NVLink", node["devices_reason"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
