#!/usr/bin/python3
"""A measurement, and no test: seconds from the start of virtrain to the barrier of its first trial, with a slice on each of three
hosts alone and on all of them at once. Hosts are namespaces (rig.py). Each has the same share of this machine's cores in both, and what
is left is the coordinator's: servers do not have each other's cores. A host that takes no part is busy meanwhile, since two threads
of one core, or a clock that follows the load, would be quicker for one host alone. Where cgroups are of version 2, hosts share all
cores, which the output says.

    VIRTRAIN_BUILD=build python3 tests/hosts/start_time.py [ROUNDS]
"""

import contextlib
import datetime
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import time

import rig as rigs

VIRTRAIN = rigs.PROGRAM.with_name("virtrain")
SCENARIO = {"name": "start", "hosts": "start.hosts.yaml", "arms": ["bare_metal"], "pairs": 1, "oversubscribe": True,
            "workload": {"batch_size": 2, "image_size": 32, "warmup_steps": 0, "steps": 1}, "guest": {"vcpus": 1, "memory": "512MiB"}}


@contextlib.contextmanager
def busy(hosts):
    """Uses up the shares of these hosts."""
    loops = [subprocess.Popen(host.words("sh", "-c", "while :; do :; done")) for host in hosts]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def seconds_to_barrier(rig, hosts):
    """The ranks have set themselves up by then."""
    database = rig.folder / "start.db"
    database.unlink(missing_ok=True)
    rig.write_hosts("start.hosts.yaml", hosts, {"kind": "vxlan", "name": "data0"})
    scenario = rig.folder / "start.yaml"
    tenants = [{"nodes": 1, "on": host} if len(hosts) > 1 else {"nodes": 1} for host in hosts]
    scenario.write_text(json.dumps({**SCENARIO, "cases": [{"name": "one-each", "tenants": tenants}]}))
    began = time.time()
    with busy([rig.host(name) for name in rig.names if name not in hosts]):
        done = rig.run(VIRTRAIN, "run", scenario, env={**os.environ, "VIRTRAIN_DB": str(database)})
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(database) as opened:
        ((reached,),) = opened.execute("SELECT wall_time FROM event WHERE message = 'stage run'").fetchall()
    return datetime.datetime.fromisoformat(reached.replace("Z", "+00:00")).timestamp() - began


def share_cores(rig):
    """Gives each host its share of the cores, as the coordinator has; the share in cores, or none where hosts have no cgroup."""
    share = os.cpu_count() / (len(rig.names) + 1)
    period = 20_000
    files = [folder / "cpu.cfs_quota_us" for host in rig.hosts for folder in host.cgroups]
    quotas = [file for file in files if file.exists()]
    for file in quotas:
        file.with_name("cpu.cfs_period_us").write_text(str(period))
        file.write_text(str(int(share * period)))
        file.with_name("cpu.shares").write_text("262144")  # it has them beside whatever else runs here
    return share if len(quotas) == len(rig.names) else None


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with rigs.Rig(3) as rig:
        share = share_cores(rig)
        print(f"each host has {share} cores" if share else "hosts share this machine's cores", flush=True)
        choices = [[name] for name in rig.names] + [rig.names]
        taken = [[seconds_to_barrier(rig, hosts) for hosts in choices] for _ in range(rounds)]
    medians = [statistics.median(times) for times in zip(*taken)]
    for hosts, median in zip(choices, medians):
        print(f"{', '.join(hosts)}: {median:.2f} s")
    print(f"all / slowest: {medians[-1] / max(medians[:-1]):.2f}")


if __name__ == "__main__":
    main()
