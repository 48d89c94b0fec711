#!/usr/bin/python3
"""security_test.py BUILD: `isolate --security` with slices. As they are, no tenant reaches another one. Then the planted leak: while the searches'
networks are up, the test joins them, and each search of the network says so; the gate (--expect) fails. Nothing is left behind."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(sys.argv[1])
SCENARIO = """name: planted
workload: {backend: cpu}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: one, tenants: [{nodes: 1}]}]
arms: [bare_metal]
"""
NETWORK = ("network_tcp", "network_ipv6", "network_arp")
SKIPPED = 77


def bridges(tag):
    """Those of the experiment, as an outside observer sees them."""
    links = json.loads(subprocess.run(["ip", "-json", "-details", "link", "show", "type", "bridge"], capture_output=True, text=True, check=True).stdout)
    return sorted(link["ifname"] for link in links if tag in link["ifname"])


def join(first, second):
    subprocess.run(["ip", "link", "add", "vtjoin0", "type", "veth", "peer", "name", "vtjoin1"], check=True)
    for end, bridge in (("vtjoin0", first), ("vtjoin1", second)):
        subprocess.run(["ip", "link", "set", end, "master", bridge, "up"], check=True)


def search(folder, planted):
    command = [BUILD / "virtrain", "isolate", "--security", "--expect", pathlib.Path(folder, "planted.yaml"), "--db", pathlib.Path(folder, "s.db"),
               "--report", pathlib.Path(folder, "report.html"), "--format", "json", "--mode", "system", "--wait"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            experiment = run.stderr.readline().strip()
            while planted and run.poll() is None:
                found = bridges(experiment[-6:])
                if len(found) == 2:
                    join(*found)
                    break
                time.sleep(0.02)
            out, err = run.communicate(timeout=240)
        finally:
            subprocess.run(["ip", "link", "delete", "vtjoin0"], stderr=subprocess.DEVNULL, check=False)
    assert out, err
    return experiment, run.returncode, {row["name"]: row for row in json.loads(out)}


def run_prints_one_document(folder):
    scenario, database = pathlib.Path(folder, "run.yaml"), pathlib.Path(folder, "run.db")
    scenario.write_text(SCENARIO.replace("backend: cpu", "backend: cpu, batch_size: 2, image_size: 32, warmup_steps: 0, steps: 1") +
                        "pairs: 1\nsecurity: true\n", encoding="utf-8")
    run = subprocess.run([BUILD / "virtrain", "run", scenario, "--db", database, "--format", "json", "--mode", "system", "--wait"],
                         capture_output=True, text=True, check=True)
    assert [one["case"] for one in json.loads(run.stdout)] == ["one"], run.stdout
    assert "isolate --security --experiment" in run.stderr, run.stderr


def main():
    if os.geteuid() != 0:
        print("skipped: slices with networks of their own need root")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "planted.yaml").write_text(SCENARIO, encoding="utf-8")
        experiment, status, apart = search(folder, planted=False)
        for name in (*NETWORK, "host_addresses", "shared_memory", "leftovers", "file_modes"):
            assert apart[name]["result"] == "not_found" and apart[name]["control"], apart[name]
        # A slice is a process of whoever runs virtrain: it sees the host's files, and the search says so.
        assert apart["host_files"]["result"] == "leak" and status == 1, (status, apart["host_files"])
        # As root it may write to the memory of the host's devices, where the host has any.
        functions = list(pathlib.Path("/sys/bus/pci/devices").glob("*"))
        regions = [region for one in functions for region in one.glob("resource[0-5]")]
        expected = "leak" if regions else "not_found" if functions else "not_possible"
        assert apart["foreign_devices"]["result"] == expected, (functions, regions, apart["foreign_devices"])
        left = [str(path) for place in ("/etc", "/root", "/var/lib/virtrain") for path in pathlib.Path(place).glob("*canary-" + experiment[-6:])]
        assert not left, left
        assert "what could not be told" in pathlib.Path(folder, "report.html").read_text(encoding="utf-8")
        shown = subprocess.run([BUILD / "virtrain", "isolate", "--security", "--experiment", experiment, "--db", pathlib.Path(folder, "s.db"),
                                "--format", "json"], capture_output=True, text=True, check=True)
        assert {row["name"]: row for row in json.loads(shown.stdout)} == apart
        exported = pathlib.Path(folder, "s.jsonl")
        with exported.open("wb") as out:
            subprocess.run([BUILD / "virtrain", "export", "--experiment", experiment, "--format", "jsonl", "--db", pathlib.Path(folder, "s.db")],
                           stdout=out, check=True)
        subprocess.run([BUILD / "virtrain", "import", exported, "--db", pathlib.Path(folder, "again.db")], capture_output=True, check=True)
        shown = subprocess.run([BUILD / "virtrain", "isolate", "--security", "--experiment", experiment, "--db", pathlib.Path(folder, "again.db"),
                                "--format", "json"], capture_output=True, text=True, check=True)
        again = {row["name"]: row for row in json.loads(shown.stdout)}
        assert {name: (row["result"], row["unit"]) for name, row in again.items()} == {name: (row["result"], row["unit"]) for name, row in apart.items()}
        _, status, joined = search(folder, planted=True)
        for name in NETWORK:
            assert joined[name]["result"] == "leak" and joined[name]["found"], joined[name]
        assert status == 1, status
        run_prints_one_document(folder)
    return 0


sys.exit(main())
