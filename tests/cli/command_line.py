"""Runs virtrain as a user does, and keeps what it says on each stream."""

import dataclasses
import json
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
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
