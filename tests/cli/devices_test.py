#!/usr/bin/python3
"""`virtrain doctor --devices` and the plan of the study, on the recorded host that the repository ships."""

import contextlib
import csv
import fcntl
import os
import pathlib
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.etree.ElementTree

from command_line import BUILD, SCENARIOS, SOURCE, virtrain

R750XA = SOURCE / "tests/data/r750xa"
HOSTS = BUILD / "hosts"
PAIRS = [["0000:17:00.0", "0000:31:00.0"], ["0000:b1:00.0", "0000:ca:00.0"]]


def on_a_terminal(*arguments, columns=0, **environment):
    """What virtrain shows where standard output is a terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with subprocess.Popen([BUILD / "virtrain", *arguments], stdin=subprocess.DEVNULL, stdout=theirs,
                          env={**os.environ, "NO_COLOR": "", **environment}):
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody writes any more
            while piece := os.read(ours, 65536):
                shown += piece
    os.close(ours)
    return shown.decode()


class Devices(unittest.TestCase):
    def test_doctor_fits_the_terminal(self):
        shown = on_a_terminal("doctor", "--inventory", R750XA, columns=60)
        plain = re.sub(r"\x1b\[[0-9;]*m", "", shown).split()
        self.assertLessEqual(max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()), 60)
        self.assertEqual(plain, virtrain("doctor", "--inventory", R750XA).out.split())

    def test_json_has_every_fact_and_the_table_the_main_ones(self):
        result = virtrain("doctor", "--devices", "--inventory", R750XA, "--format", "json")
        self.assertEqual(result.status, 0, result)
        devices = {device["address"]: device for device in result.json()}
        self.assertEqual([kind for kind in (d["kind"] for d in result.json())].count("gpu"), 4)
        gpu = devices["0000:17:00.0"]
        self.assertEqual((gpu["iommu_group"], gpu["numa_node"], gpu["mechanism"]), (21, 0, "passthrough"))
        self.assertEqual(gpu["link_possible"], {"speed": "16.0 GT/s PCIe", "width": 16})
        self.assertEqual(max(bar["bytes"] for bar in gpu["bars"]), 64 << 30)
        for nothing in ["lease", "quarantine", "mig", "driver_override"]:
            self.assertIsNone(gpu[nothing], nothing)
        self.assertEqual(gpu["reset_methods"], ["flr", "bus"])
        self.assertEqual((gpu["root_complex"], gpu["bridges"]), ("pci0000:16", ["0000:16:02.0"]))
        self.assertEqual(devices["0000:98:00.0"]["ports"][0]["mtu_bytes"], 2044)
        table = virtrain("doctor", "--devices", "--inventory", R750XA).out
        for words in ["NVIDIA A100-PCIE-40GB", "2.5 GT/s x16 (of 16.0 GT/s x16)", "NVLink to 0000:ca:00.0",
                      "below pci0000:16 / 0000:16:02.0, BARs of 16MiB 64GiB 32MiB, resets by flr bus", "0 of 8 virtual functions on"]:
            self.assertIn(words, table)

    def test_each_device_is_named_and_says_what_it_carries(self):
        table = virtrain("doctor", "--devices", "--inventory", HOSTS / "vendor-vfio-host").out
        self.assertIn("\n0000:41:00.4 NVIDIA Corporation AD102GL [L40S]\n", table)
        self.assertEqual(table.count("carries a vGPU: type 1153"), 1)
        listed = virtrain("doctor", "--devices", "--inventory", HOSTS / "vendor-vfio-host", "--format", "json").json()
        vgpus = {device["address"]: device["vgpus"] for device in listed}
        self.assertEqual((vgpus["0000:41:00.4"], vgpus["0000:41:00.5"]), (["type 1153"], []))
        laptop = virtrain("doctor", "--devices", "--inventory", HOSTS / "laptop").out
        self.assertTrue(laptop.startswith("no NVIDIA GPU and no RDMA adapter;"), laptop)
        # With the list of pci.ids, where the machine has it, or without.
        self.assertRegex(laptop, r"0000:00:02\.0  other  Intel (0x9a49|Corporation TigerLake-LP GT2)")

    def test_this_host_answers_too(self):
        self.assertEqual(virtrain("doctor", "--devices").status, 0)

    def test_the_doctor_lists_every_check_once_those_of_trials_too(self):
        findings = virtrain("doctor", "--format", "json").json()
        ids = [finding["id"] for finding in findings]
        self.assertEqual(len(ids), len(set(ids)))
        topics = {"KVM": 4, "IOM": 4, "ACS": 1, "VER": 3, "DRV": 4, "USE": 3, "RST": 2, "LNK": 1, "AER": 1, "NUM": 2, "MEM": 4, "BAR": 1,
                  "FW": 1, "VG": 7, "LIC": 1, "FAB": 1, "P2P": 2, "RDM": 1, "ECC": 1, "CLK": 1, "CPU": 1, "CH": 1, "SEC": 1, "LEAK": 1, "TIME": 1}
        self.assertEqual({f"{topic}-{number + 1}" for topic, count in topics.items() for number in range(count)} - set(ids), set())

    def test_tables_for_other_programs_have_every_check_too(self):
        rows = list(csv.DictReader(virtrain("doctor", "--format", "csv").out.splitlines()))
        self.assertEqual([row["id"] for row in rows], [finding["id"] for finding in virtrain("doctor", "--format", "json").json()])
        self.assertTrue(virtrain("doctor", "--format", "markdown").out.startswith("| check"))

    def test_states_have_colours_on_a_terminal_only(self):
        command = ("doctor", "-v", "--inventory", R750XA)
        shown = on_a_terminal(*command)
        self.assertRegex(shown, r"\nIOM-2 +\x1b\[32mok +\x1b\[0m ")
        self.assertRegex(shown, r"\nRDM-1 +\x1b\[33minvalidates\x1b\[0m ")
        self.assertNotIn("\x1b", on_a_terminal(*command, NO_COLOR="1"))
        self.assertNotIn("\x1b", virtrain(*command).out)

    def test_the_doctor_says_in_plain_words_what_can_run_here(self):
        out = virtrain("doctor").out
        answers = out.split("\n\n")[0].splitlines()
        self.assertEqual([answer[:21].strip() for answer in answers], ["CPU scenarios run", "VM figures count", "GPUs in VMs"])
        for answer in answers:
            self.assertRegex(answer[21:], "^(yes|no: |on bare metal only: )")

    def test_what_passed_is_shown_where_it_is_asked_for(self):
        short, whole = virtrain("doctor").out, virtrain("doctor", "-v").out
        self.assertNotRegex(short, r"(?m)^\S+ +ok ")
        self.assertRegex(whole, r"(?m)^CPU-2 +ok +the host is an x86_64 machine$")
        failed = [finding["id"] for finding in virtrain("doctor", "--format", "json").json() if finding["status"] == "failed"]
        self.assertEqual(set(re.findall(r"(?m)^([A-Z0-9]+-\d) ", short)), set(failed))

    def test_a_check_is_explained(self):
        out = virtrain("doctor", "--explain", "ACS-1", "--inventory", R750XA).out
        self.assertIn("ACS-1: ACS is on in all bridges above the devices", out)
        self.assertIn("ACS-1: ACS was on above the tenants' devices from start to end.\n  Checked in each trial, where several tenants have devices. "
                      "Where it does not hold, figures do not count.\n", out)
        unknown = virtrain("doctor", "--explain", "IMO-1")
        self.assertEqual((unknown.status, unknown.out), (2, ""))
        self.assertRegex(unknown.err, r"IMO-1: no check has that id; did you mean I\w\w-1\?")

    def test_the_page_of_checks_is_what_the_tables_say(self):
        listed = virtrain("doctor", "--explain", "all", "--format", "markdown").out
        self.assertTrue((SCENARIOS.parent / "docs/checks.md").read_text().endswith(listed), "write it anew: doctor --explain all --format markdown")
        ids = {line.split(" | ")[0].strip("| ") for line in listed.splitlines()[2:]}
        self.assertEqual(ids, {finding["id"] for finding in virtrain("doctor", "--format", "json").json()})

    def test_of_a_recorded_host_the_devices_are_examined(self):
        result = virtrain("doctor", "-v", "--inventory", R750XA)
        self.assertEqual(result.status, 0, result)
        self.assertRegex(result.out, r"\nIOM-2 +ok ")
        self.assertRegex(result.out, r"\nRDM-1 +invalidates +neither nvidia-peermem")
        self.assertTrue(result.out.startswith("GPUs in VMs          yes: no problems found\n"), result.out)
        self.assertNotIn("VIRT-1", result.out)
        self.assertNotIn("CPU scenarios", result.out)
        self.assertEqual(virtrain("doctor", SCENARIOS / "dell-r750xa.yaml", "--inventory", R750XA).status, 2)


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

    def test_rebinds_and_hours(self):
        plan = virtrain("plan", SCENARIOS / "dell-r750xa.yaml", "--inventory", R750XA, "--format", "json").json()
        # Of each pair B V V B …, the GPUs go to VMs and come back three times in six pairs: cases of 2, 2, 4, 1, 2 and 4 GPUs.
        self.assertEqual(plan["device_bindings"], 2 * 3 * (2 + 2 + 4 + 1 + 2 + 4))
        table = virtrain("plan", SCENARIOS / "dell-r750xa.yaml", "--inventory", R750XA).out
        self.assertRegex(table, r"90 device rebinds, .+ to \d+ h")

    def test_the_xml_of_each_vm(self):
        plan = virtrain("plan", SCENARIOS / "dell-r750xa.yaml", "--inventory", R750XA, "--format", "json", "--xml").json()
        nodes = [node for trial in plan["trials"] if trial["arm"] == "vm" for tenant in trial["tenants"] for node in tenant["nodes"]]
        for node in nodes:
            domain = xml.etree.ElementTree.fromstring(node["xml"])
            self.assertEqual(domain.get("type"), "kvm")
            given = [f"{int(a.get('domain'), 16):04x}:{int(a.get('bus'), 16):02x}:{int(a.get('slot'), 16):02x}.{int(a.get('function'), 16)}"
                     for a in domain.iterfind("devices/hostdev/source/address")]
            self.assertEqual(given, node["devices"])
            self.assertTrue(all(device.get("managed") == "no" for device in domain.iterfind("devices/hostdev")))
            cells = {cell.get("id") for cell in domain.iterfind("cpu/numa/cell")}
            expanders = [c.findtext("target/node") for c in domain.iterfind("devices/controller") if c.get("model") == "pcie-expander-bus"]
            self.assertEqual((cells, expanders), ({"0"}, ["0"] * len(given)))  # each of these GPUs has a root complex of its own


class Busy(unittest.TestCase):
    """A recorded host whose second GPU a process has open."""

    SCENARIO = """
name: busy
workload: {}
guest: {vcpus: 1, memory: 1GiB}
devices: {kind: passthrough}
cases: [{name: two, tenants: [{gpus_per_node: 1}, {gpus_per_node: 1}]}]
"""

    def plan(self, *more):
        return virtrain("plan", "-", "--inventory", self.host, *more, stdin=self.SCENARIO)

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.host = pathlib.Path(self.folder.name) / "mig-host"
        subprocess.run([sys.executable, "-B", SOURCE / "scripts/reference/make_host_trees.py", self.folder.name], check=True)

    def tearDown(self):
        self.folder.cleanup()

    def test_is_named_with_who_has_it(self):
        result = self.plan()
        self.assertEqual(result.status, 75, result)
        self.assertIn("0000:47:00.0 (NVIDIA A100-SXM4-40GB): in use: python3 (pid 4242) has /dev/nvidia1 open", result.err)

    def test_but_a_service_that_the_run_keeps_away_is_no_hindrance(self):
        (self.host / "proc/4242/cgroup").write_text("0::/system.slice/nvidia-persistenced.service\n")
        self.assertEqual(self.plan().status, 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
