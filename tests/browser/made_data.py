"""Results that nobody measured, as lines of the exchange format: for the report's tests and its measurements.

made_data.py study|nights|conditions|isolation|long|large > FILE.jsonl
"""

import datetime
import itertools
import json
import math
import random
import sys

SECOND = 1_000_000_000
CASES = [  # name, tenants (nodes of each), GPUs per node, throughput on bare metal, VM / bare metal
    ("one-vm-two-gpus", [1], 2, 5480.0, 0.993),
    ("two-vms-one-gpu", [1, 1], 1, 5390.0, 0.985),
    ("two-vms-two-gpus", [1, 1], 2, 10720.0, 0.952),
    ("weak-scaling/1", [1], 1, 2790.0, 0.995),
    ("weak-scaling/2", [2], 1, 5480.0, 0.990),
    ("weak-scaling/4", [4], 1, 10810.0, 0.9868),
]
CONDITIONS = [  # case, arm, numbers of its tenants, GPUs per node, throughput: a sweep, tenants with a gap, and neighbours
    *((f"swept@batch_size={batch}", arm, [0], 2, level * kept) for batch, level in ((16, 900.0), (32, 1000.0), (64, 1004.0))
      for arm, kept in (("bare_metal", 1.0), ("vm", 0.97))),
    ("alone", "vm", [0], 1, 1000.0),
    ("crowded", "vm", [0, 2], 1, 1600.0),
    *(("trainer", f"vm{beside}", [0], 1, 1000.0 * kept) for beside, kept in (("", 1.0), ("+idle", 0.99), ("+cpu@50%", 0.8), ("+cpu@100%", 0.55))),
]
MODEL = {"model": "resnet50", "backend": "cuda", "batch_size": 1024, "precision": "fp16"}

# A victim's arms with what they keep beside each neighbour: bare metal, VMs, and VMs with a mitigation each.
NEIGHBOURS = (("idle", None), ("cpu", 0.25), ("cpu", 1.0), ("membw", 1.0), ("llc", 1.0), ("net", 1.0))
ISOLATED = {  # arm: what it is like, what it changes, its throughput alone, and what is kept of it
    "bare_metal": ("", {}, 1012.0, (1.0, 0.88, 0.52, 0.80, 0.90, 0.985)),
    "vm": ("", {}, 1000.0, (0.99, 0.86, 0.50, 0.76, 0.87, 0.95)),
    "vm-pinned": ("vm", {"guest.pinning": "cores"}, 1001.0, (0.995, 0.97, 0.955, 0.77, 0.88, 0.96)),
    "vm-capped": ("vm", {"neighbour.limits.cpu": "25%"}, 1000.0, (0.99, 0.87, 0.78, 0.90, 0.93, 0.96)),
}


def beside(kind, level):
    """A neighbour as reports name it."""
    return kind if level is None else f"{kind}@{level:.0%}"


def line(**record):
    return json.dumps(record, separators=(",", ":"))


def experiment(name, scenario, started, **more):
    return line(record="experiment", experiment=name, scenario=scenario, status="finished", started_at=started,
                host_name="made-up", virtrain_version="0.1.0", command_line=f"virtrain run scenarios/{scenario}.yaml",
                scenario_text=f"name: {scenario}\npairs: 6\n",
                fingerprint={"kernel": "6.1.0-28-amd64", "cpu_model": "Made-up 6338", "cpu_flags": " ".join(f"flag{i}" for i in range(90))},
                **more)


def tenant(index, nodes, gpus, throughput, arm):
    names = [f"t{index}n{n}" for n in range(nodes)]
    ranks = nodes * gpus
    facts = {"kernel": "6.1.0-28-amd64", "driver": "550.54", "cpu_flags_hypervisor": str(arm == "vm").lower()}
    return {"tenant_index": index, "nodes": nodes, "images_per_second": throughput, "transport": "nccl", "workload": MODEL,
            "node_list": [{"name": n, "kind": "vm" if arm == "vm" else "slice", "fingerprint": facts} for n in names],
            "ranks": [{"node": names[r // gpus], "rank": r, "local_rank": r % gpus, "size": ranks} for r in range(ranks)]}


def course(rng, where, tenants, gpus, windows, arm):
    """Samples and telemetry of one trial."""
    start = 1000 * SECOND
    for index, (nodes, throughput) in enumerate(tenants):
        for rank in range(nodes * gpus):
            own = throughput / (nodes * gpus)
            images = 1024 * 10
            t = start + 8 * SECOND
            for step in range(windows):
                dip = 0.55 if arm == "vm" and step == windows * 2 // 3 else 1
                seconds = images / (own * dip * rng.gauss(1, 0.008) * (1 - 0.25 * math.exp(-step / 3)))
                t += int(seconds * SECOND)
                yield line(record="sample", **where, tenant=index, rank=rank, t_ns=t, step=(step + 1) * 10, images=images,
                           seconds=seconds, loss=7 - step / windows)
        for node in range(nodes):
            user = idle = steal = sent = 0.0
            for tick in range(int((t - start) / SECOND) + 2):
                busy = 0.05 if tick < 8 else rng.gauss(0.34, 0.02)
                stolen = abs(rng.gauss(0.012, 0.008)) if arm == "vm" else 0
                user, steal, idle = user + 32 * busy, steal + 32 * stolen, idle + 32 * (1 - busy - stolen)
                sent += 0 if tick < 8 or sum(n for n, _ in tenants) == 1 else rng.gauss(4e8, 2e7)
                for metric, value in (("cpu_user_seconds", user), ("cpu_system_seconds", 0), ("cpu_idle_seconds", idle),
                                      ("cpu_iowait_seconds", 0), ("cpu_steal_seconds", steal), ("network_tx_bytes", sent)):
                    yield line(record="telemetry", **where, tenant=index, node=f"t{index}n{node}", t_ns=start + tick * SECOND,
                               source="guest", metric=metric, value=value)


def trials(rng, name, scenario, cases, pairs, windows=0, level=1.0, label=None):
    """All pairs of all cases; the order alternates. The third pair of each case has samples and telemetry."""
    number = 0
    for case, tenants, gpus, base, ratio in cases:
        for pair in range(1, pairs + 1):
            drift = rng.gauss(1, 0.01)
            for arm in (("bare_metal", "vm") if pair % 2 else ("vm", "bare_metal")):
                number += 1
                total = base * drift * rng.gauss(1, 0.003) * (ratio if arm == "vm" else 1) * level
                shares = [nodes / sum(tenants) for nodes in tenants]
                yield line(record="trial", experiment=name, scenario=scenario, label=label, case=case, arm=arm, pair=pair, order=number,
                           nodes=sum(tenants), gpus_per_node=gpus, batch_size=1024, precision="fp16", backend="cuda",
                           virtualization="kvm" if arm == "vm" else "none", images_per_second=total, status="finished",
                           started_at=f"{datetime.datetime(2026, 11, 20, 8) + datetime.timedelta(minutes=number):%Y-%m-%dT%H:%M:%S}.000Z",
                           tenants=[tenant(i, n, gpus, total * s, arm) for i, (n, s) in enumerate(zip(tenants, shares))])
                if windows and pair == 3:
                    where = {"experiment": name, "trial": number}
                    yield from course(rng, where, [(n, total * s) for n, s in zip(tenants, shares)], gpus, windows, arm)


def study(scenario="made-up-study", windows=60):
    rng = random.Random(4)
    yield experiment("study-1", scenario, "2026-11-20T08:00:00.000Z")
    yield from trials(rng, "study-1", scenario, CASES, 6, windows)


def nights(count=40, change_at=24, loss=0.08):
    rng = random.Random(7)
    for night in range(count):
        day = datetime.date(2026, 10, 1) + datetime.timedelta(days=night)
        name = f"night-{night:02}"
        yield experiment(name, "nightly", f"{day}T02:00:00.000Z", label="nightly")
        yield from trials(rng, name, "nightly", CASES[3:5], 3, level=1 - loss if night >= change_at else 1, label="nightly")


def conditions(rounds=4):
    rng = random.Random(5)
    name = "conditions-1"
    yield experiment(name, "conditions", "2026-11-20T08:00:00.000Z")
    for number, (pair, (case, arm, tenants, gpus, level)) in enumerate(itertools.product(range(1, rounds + 1), CONDITIONS), 1):
        kind = arm.split("+")[0]
        total = level * rng.gauss(1, 0.003)
        yield line(record="trial", experiment=name, scenario="conditions", case=case, arm=arm, pair=pair, order=number, nodes=len(tenants),
                   gpus_per_node=gpus, virtualization="kvm" if kind == "vm" else "none", images_per_second=total, status="finished",
                   tenants=[tenant(i, 1, gpus, total / len(tenants), kind) for i in tenants])


def isolation(rounds=5):
    rng = random.Random(11)
    name = "isolation-1"
    arms = [{"name": arm, "base": arm.split("-")[0], "like": like, "changes": changes} for arm, (like, changes, *_) in ISOLATED.items()]
    arms += [{"name": f"{arm['name']}+{beside(*one)}", "base": arm["base"], "like": arm["name"], "changes": {"neighbour": beside(*one)}}
             for arm in arms for one in NEIGHBOURS]
    plan = {"arms": arms, "isolation": {"margin": 0.05, "seed": 1}}
    yield experiment(name, "what-helps", "2026-11-20T08:00:00.000Z", plan=plan)
    number = 0
    for pair in range(1, rounds + 1):
        for arm, (_, _, alone, kept) in ISOLATED.items():
            for (kind, level), share in ((("", None), 1.0), *zip(NEIGHBOURS, kept)):
                number += 1
                base = arm.split("-")[0]
                total = alone * share * rng.gauss(1, 0.006 if kind != "llc" else 0.05)
                tenants = [tenant(0, 1, 0, total, base)]
                if level is not None:
                    rate = 5e9 * level * (0.3 if arm == "vm-capped" else 1) * rng.gauss(1, 0.01)
                    tenants.append({"tenant_index": 1, "nodes": 1, "images_per_second": None,
                                    "workload": {"stressors": [{"kind": kind, "busy": level, "rate": rate, "unit": "operations/s"}]}})
                where = {"arm": f"{arm}+{beside(kind, level)}", "like": arm, "neighbour": kind, "level": level} if kind else {"arm": arm}
                yield line(record="trial", experiment=name, scenario="what-helps", case="trainer", pair=pair, order=number, nodes=1, gpus_per_node=0,
                           **where, virtualization="kvm" if base == "vm" else "none", images_per_second=total, status="finished", tenants=tenants)


def long(samples=100_000, dip_at=54_321):
    """One pair of trials with very many samples, all alike but for one dip of the VM."""
    yield experiment("long-1", "long", "2026-11-20T08:00:00.000Z")
    for number, (arm, virtualization) in enumerate((("bare_metal", "none"), ("vm", "kvm")), 1):
        yield line(record="trial", experiment="long-1", scenario="long", case="one", arm=arm, pair=1, order=number, nodes=1, gpus_per_node=1,
                   virtualization=virtualization, images_per_second=1000, status="finished", tenants=[tenant(0, 1, 1, 1000, arm)])
        for step in range(samples):
            dip = 4 if arm == "vm" and step == dip_at else 1
            yield line(record="sample", experiment="long-1", trial=number, tenant=0, rank=0, t_ns=(step + 1) * SECOND // 10, step=step,
                       images=100, seconds=0.1 * dip, loss=None)


def large(trials_wanted=10_000, samples_wanted=1_000_000):
    rng = random.Random(9)
    cases = [(f"case-{i:02}", [1], 1, 2800.0, 0.99) for i in range(20)]
    pairs = trials_wanted // 2 // len(cases)
    windows = samples_wanted // trials_wanted
    name = "large-1"
    yield experiment(name, "large", "2026-11-20T08:00:00.000Z")
    number = 0
    for record in trials(rng, name, "large", cases, pairs):
        yield record
        number += 1
        for step in range(windows):
            yield line(record="sample", experiment=name, trial=number, tenant=0, rank=0, t_ns=1000 * SECOND + step * SECOND, step=step,
                       images=2800, seconds=rng.gauss(1, 0.01), loss=None)


if __name__ == "__main__":
    makers = {"study": study, "nights": nights, "conditions": conditions, "isolation": isolation, "long": long, "large": large}
    if len(sys.argv) != 2 or sys.argv[1] not in makers:
        sys.exit(__doc__)
    for text in makers[sys.argv[1]]():
        print(text)
