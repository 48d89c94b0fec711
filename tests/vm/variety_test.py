#!/usr/bin/python3
"""Scenarios of other shapes than the quickstart, with the real trainer, looked at from outside."""

import json
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "faults"))

import outside

NODES = """SELECT t.name AS tenant, n.name, n.cores, n.cpuset_read_back, n.memory_bytes
           FROM node n JOIN tenant t ON t.id = n.tenant_id JOIN trial r ON r.id = t.trial_id
           WHERE r.arm = '{}' ORDER BY n.id"""


def run(folder, *arguments, **changes):
    text = outside.scenario(**{"arms": ["bare_metal"], **changes,
                               "workload": {"batch_size": 2, "steps": 2, **changes.get("workload", {})},
                               "guest": {"memory": "768MiB", **changes.get("guest", {})}})
    return outside.Run(folder, text, *arguments, program=outside.BUILD / "virtrain")


def shared_slice_holds_all_nodes_of_its_tenant():
    with outside.scratch() as folder:
        done = run(folder, arms=["bare_metal", "bare_metal_shared"], cases=[{"name": "two", "tenants": [{"nodes": 2}]}])
        assert done.end() == 0, done.log[-5:]
        assert all(trial["valid"] and trial["nodes"] == 2 for trial in done.trials()), done.trials()
        (node,) = done.rows(NODES.format("bare_metal_shared"))
        assert node["cores"] == node["cpuset_read_back"] == "0-1", node
        assert node["memory_bytes"] == 2 * 768 << 20, node
        pairs = {(t["from_node"], t["to_node"], t["transport"]) for t in done.rows("SELECT * FROM transport")}
        assert pairs == {("t1n1", "t1n2", "tcp"), ("t1n2", "t1n1", "tcp"), ("t1n1", "t1n1", "shm")}, pairs


def ranks_of_several_nodes_use_both_transports():
    with outside.scratch() as folder:
        done = run(folder, guest={"vcpus": 2, "memory": "1280MiB"}, oversubscribe=True,
                   cases=[{"name": "four", "tenants": [{"nodes": 2, "ranks_per_node": 2}]}])
        assert done.end() == 0, done.log[-5:]
        (trial,) = done.trials()
        assert trial["valid"], trial
        used = {(t["from_node"] == t["to_node"]): t["transport"] for t in done.rows("SELECT * FROM transport")}
        assert used == {True: "shm", False: "tcp"}, used
        ranks = done.rows("SELECT rank, local_rank, size, node FROM rank ORDER BY rank")
        assert [(r["local_rank"], r["size"], r["node"]) for r in ranks] == [
            (0, 4, "t1n1"), (1, 4, "t1n1"), (0, 4, "t1n2"), (1, 4, "t1n2")], ranks
        (tenant,) = done.rows("SELECT network_bytes_measured AS measured, network_bytes_required AS required FROM tenant")
        assert tenant["measured"] >= tenant["required"] > 200e6, tenant


def tenants_with_workloads_of_their_own():
    long_name = "a" * 62 + ".z"
    cases = [{"name": long_name, "tenants": [
        {"nodes": 1, "name": "plain"},
        {"nodes": 1, "name": long_name,
         "workload": {"batch_size": 3, "warmup_steps": 3, "steps": 4, "display_every": 2, "accumulate_steps": 2}}]}]
    with outside.scratch() as folder:
        done = run(folder, "--label", "variety", "--quiet", name="dots.and-" + "b" * 40, cases=cases, settle="1s")
        assert done.end() == 0, done.log[-5:]
        assert len(done.output.strip().splitlines()) == 1, done.output
        samples = done.rows("""SELECT t.name, s.images, s.step FROM sample s JOIN rank r ON r.id = s.rank_id
                               JOIN tenant t ON t.id = r.tenant_id ORDER BY s.rank_id, s.step""")
        own = [(s["images"], s["step"]) for s in samples if s["name"] == long_name]
        assert len(own) == 2 and all(images == 3 * 2 * 2 for images, _ in own), samples
        shown = outside.sh(str(outside.BUILD / "virtrain"), "compare", "--db", str(done.database), "--label", "variety",
                           "--format", "json")
        assert json.loads(shown)[0]["case"] == long_name


def probes_run_once_in_each_node_of_each_arm():
    with outside.scratch() as folder:
        done = run(folder, pairs=2, arms=["bare_metal", "bare_metal_shared"], probes=["triad", "memory_copy"],
                   cases=[{"name": "two", "tenants": [{"nodes": 1}, {"nodes": 1}]}])
        assert done.end() == 0, done.log[-5:]
        figures = done.rows("SELECT arm, node, name, size_bytes, value FROM v_probe ORDER BY arm, node, name")
        wanted = [(arm, node, name) for arm in ("bare_metal", "bare_metal_shared") for node in ("t1n1", "t2n1")
                  for name in ("memory_copy", "triad")]
        assert [(f["arm"], f["node"], f["name"]) for f in figures] == wanted, figures
        assert all(f["value"] > 1e8 and f["size_bytes"] == 128 << 20 for f in figures), figures


TESTS = {name: value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__module__", "") == "__main__" and name != "run"}

if __name__ == "__main__":
    outside.main(TESTS)
