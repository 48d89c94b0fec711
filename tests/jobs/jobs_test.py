#!/usr/bin/python3
"""jobs_test.py slices | gpt | vm
Commands of the user's own (docs/jobs.md) on this host: under mpirun over two slices, a small GPT under torchrun on one
slice and on two, and the same bytes in a VM and a slice. Needs root."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77

# Sleeps its steps, so that a busy host changes little, and says what place it has.
SLEEPER = r"""
import os, sys, time
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
before = time.perf_counter()
for step in range(1, 31):
    time.sleep(0.1)
    now = time.perf_counter()
    print("rank %s of %s step %d steps/s: %.2f" % (rank, sys.argv[1], step, 1 / (now - before)))
    before = now
"""


def run(scenario, *options):
    with tempfile.TemporaryDirectory(prefix="virtrain-jobs-") as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario), encoding="utf-8")
        db = str(pathlib.Path(folder) / "results.db")
        ran = subprocess.run([BUILD / "virtrain", "run", file, "--db", db, *options], capture_output=True, text=True)
        assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        exported = subprocess.run([BUILD / "virtrain", "export", "--db", db, "--format", "jsonl"], capture_output=True, text=True, check=True)
        records = [json.loads(line) for line in exported.stdout.splitlines()]
        return [one for one in records if one["record"] == "trial"]


def check(trials, unit, least, most):
    for trial in trials:
        assert trial["status"] == "finished" and trial.get("valid", True), trial
        assert trial["unit"] == unit and least < trial["throughput"] < most, trial
        assert "images_per_second" not in trial, trial


def sleeper(**more):
    return {
        "name": "sleeper",
        "workload": {"command": ["python3", "-c", SLEEPER, "{ranks}"],
                     "throughput": {"pattern": r"steps/s: (?P<value>[\d.]+)", "example": "steps/s: 9.99", "unit": "steps/s", "skip": 3}},
        "guest": {"vcpus": 1, "memory": "512MiB", "packages": ["python3"]},
        "cases": [{"name": "one", "tenants": [{"nodes": 1}]}],
        "pairs": 1,
        **more,
    }


def slices():
    """mpirun starts two ranks in each of two slices; each says its own figure, and they are added."""
    scenario = sleeper(cases=[{"name": "two", "tenants": [{"nodes": 2, "ranks_per_node": 2}]}], arms=["bare_metal"], oversubscribe=True)
    scenario["workload"]["launch"] = "mpirun"
    scenario["workload"]["throughput"]["scope"] = "rank"
    check(run(scenario), "steps/s", 30, 40)


def gpt():
    """The shipped GPT under torchrun. Debian 12's PyTorch takes no other value of --redirects with its Python."""
    if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode != 0:
        print("skipped: python3-torch is not installed")
        sys.exit(SKIPPED)
    text = (SOURCE / "scenarios/jobs/gpt-torchrun.yaml").read_text(encoding="utf-8")
    text = text.replace("- python3\n", "- /usr/bin/python3\n")
    trials = run(text, "--set", "pairs=1", "--set", "workload.steps=30", "--set", "workload.env={PET_REDIRECTS: '0:1', PET_TEE: '0:1'}",
                 "--set", "arms=[bare_metal]")
    assert {trial["case"] for trial in trials} == {"one-node", "two-nodes"}, trials
    check(trials, "tokens/s", 1, 1e9)


def vm():
    """The host's own Python in a VM and in a slice."""
    trials = run(sleeper(arms=["bare_metal", "vm"]))
    assert {trial["arm"] for trial in trials} == {"bare_metal", "vm"}, trials
    check(trials, "steps/s", 5, 10)


if os.geteuid() != 0:
    print("skipped: needs root")
    sys.exit(SKIPPED)
{"slices": slices, "gpt": gpt, "vm": vm}[sys.argv[1]]()
