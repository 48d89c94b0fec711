#!/usr/bin/python3 -IS
"""Stands where the CUDA trainer does in cuda_trial_test.cpp: its protocol (docs/workload-protocol.md), one GPU a rank, no
arithmetic. The test puts a copy into a folder that all nodes see, which stands for the network between the ranks.

What a rank was given is written to its node's cache folder, rank-0.json and so on. The first rank of a node reads the plan
file there and adds an engine of its node's name, as a trainer that has timed one does.
"""

import json
import os
import pathlib
import socket
import sys
import time

HOST = socket.gethostname()
RANK, SIZE, LOCAL, LOCAL_SIZE = (
    int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")
)
FLAGS = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
CACHE = pathlib.Path(os.environ["XDG_CACHE_HOME"])
GO = pathlib.Path(__file__).with_name("go")
SECONDS, PATIENCE = 0.05, 30


def say(record, **fields):
    print(json.dumps({"record": record, "rank": RANK, **fields}), flush=True)


def gpu(**more):
    uuid = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[LOCAL]
    return {"name": "NVIDIA A100", "uuid": uuid, "driver": "550.90.07", "power_limit_w": 250.0, "ecc_enabled": True, **more}


def leave(name, content):
    """Whole, or not at all: another process may look at any time."""
    file = CACHE / "virtrain" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.with_suffix(".new").write_text(json.dumps(content), encoding="utf-8")
    file.with_suffix(".new").rename(file)


def time_engines():
    if LOCAL > 0:
        return None
    file = CACHE / "virtrain" / "cudnn-plans.json"
    found = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    leave(file.name, {**found, "A100": {**found.get("A100", {}), "of " + HOST: "engine 2"}})
    return found


def wait_for_go():
    if RANK == 0:
        if sys.stdin.readline() != "go\n":
            sys.exit(2)
        GO.touch()
    end = time.monotonic() + PATIENCE
    while not GO.exists() and time.monotonic() < end:
        time.sleep(0.01)


def tell_of_nccl():
    """Each rank's way to the next one."""
    if os.environ.get("NCCL_DEBUG") != "INFO" or SIZE == 1:
        return
    to = (RANK + 1) % SIZE
    way = "via P2P/CUMEM/read" if to // LOCAL_SIZE == RANK // LOCAL_SIZE else "[send] via NET/Socket/0"
    print(f"{HOST}:1:2 [{LOCAL}] NCCL INFO Channel 00/0 : {RANK}[{LOCAL}] -> {to}[0] {way}", file=sys.stderr, flush=True)


def main():
    steps, batch_size = int(FLAGS["num_batches"]), int(FLAGS["batch_size"])
    leave(f"rank-{RANK}.json", {"gpus": os.environ["CUDA_VISIBLE_DEVICES"], "found": time_engines()})
    say("hello", size=SIZE, local_rank=LOCAL, hostname=HOST, pid=os.getpid(), cuda_runtime=13000, cudnn="9.8.0", gpu=gpu(),
        pci_address=f"{HOST} {LOCAL}")
    tell_of_nccl()
    say("ready", parameters_hash="before", fusion=FLAGS["fusion"], gpu=gpu())
    wait_for_go()
    for step in range(1, steps + 1):
        time.sleep(SECONDS)
        say("sample", t_ns=time.monotonic_ns(), step=step, images=batch_size, seconds=SECONDS, loss=7.0)
    during = {"sm_clock_mhz": {"mean": 1380.0}, "temperature_c": {"mean": 60.0}, "power_w": {"mean": 240.0}, "energy_j": 50.0,
              "throttled": {"sw_power_cap": 0.25}}
    say("result", scope="rank", images_per_second=batch_size / SECONDS, images=steps * batch_size, steps=steps,
        parameters_hash="after", gpu=gpu(during=during))


main()
