#!/usr/bin/python3
"""The main job: scenarios/quickstart.yaml with the real trainer and one of its steps, seen from outside while it runs, and
judged by what it left in the database's views. Nothing here trusts what virtrain says where the host can be asked instead."""

import json
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "faults"))
import outside  # noqa: E402
import watcher  # noqa: E402

VIRTRAIN = outside.BUILD / "virtrain"
SCENARIO = pathlib.Path(__file__).parent.parent.parent / "scenarios/quickstart.yaml"
CASES = {"weak-scaling/1": 1, "weak-scaling/2": 2, "two-vms-two-tenants": 2}  # case: nodes
GRADIENT_BYTES = 102_228_128  # 25,557,032 parameters of four bytes
STEPS = 1
SHORTER = {"warmup_steps: 1": "warmup_steps: 0", "steps: 4": "steps: 1"}
PATIENCE = 600  # seconds without a word, as long as emulated guests train beside other tests


def virtrain(*words):
    done = subprocess.run([str(VIRTRAIN), *map(str, words)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    return done.stdout


def rows(run, sql):
    found = run.rows(sql)
    assert found, sql
    return found


# --- seen from outside

def check_domains(run, seen):
    assert sorted(int(d.name.rsplit("-", 1)[1]) for d in seen.domains.values()) == [2, 5, 6, 9, 10], list(seen.domains)
    kvm = {d.xml.attrib["type"] == "kvm" for d in seen.domains.values()}
    assert len(kvm) == 1, "all VMs are virtual in the same way"
    if not os.path.exists("/dev/kvm"):
        assert kvm == {False}
    for domain in seen.domains.values():
        assert re.fullmatch(rf"virtrain-{run.experiment}-\d+", domain.name), domain.name
        assert domain.lease["experiment"] == run.experiment, domain.lease
        cpu = domain.qemu_arguments[domain.qemu_arguments.index("-cpu") + 1]
        assert cpu.split(",")[0] == ("host" if kvm == {True} else "max"), cpu
        assert len(domain.pinned) == 1 and domain.vcpu_cores == domain.pinned, (domain.pinned, domain.vcpu_cores)
    assert len({d.uuid for d in seen.domains.values()}) == 5
    assert len({d.xml.find("devices/disk/source").attrib["file"] for d in seen.domains.values()}) == 1, "one shared image"
    tag = run.experiment[-6:]
    ours = {bridge for bridge in seen.bridges if tag in bridge}
    assert ours == {f"vtb{tag}{whose}{t}" for whose in ("", "s") for t in (0, 1)}, seen.bridges
    ours = {network for network in seen.networks if run.experiment in network}
    assert ours == {f"virtrain-{run.experiment}-t{t}" for t in (0, 1)}, seen.networks
    return kvm == {True}


def check_slices(seen, plan):
    """Bare-metal ranks: namespaces of their own, one for each node, and the planned core."""
    assert len(seen.ranks) == 5, seen.ranks
    own = {name: os.readlink(f"/proc/self/ns/{name}") for name in ("net", "uts", "mnt", "pid", "ipc")}
    for name in own:
        spaces = [rank.namespaces[name] for rank in seen.ranks.values()]
        assert own[name] not in spaces, name
    for name in ("net", "uts"):
        assert len({rank.namespaces[name] for rank in seen.ranks.values()}) >= 2, name
    # Ordered by pid, that is by trial.
    planned = [(node["hostname"], node["cores"]) for trial in plan["trials"] if trial["arm"] == "bare_metal"
               for tenant in trial["tenants"] for node in tenant["nodes"]]
    found = [(rank.hostname, [int(rank.cores)]) for rank in seen.ranks.values()]
    assert sorted(found) == sorted(planned), (found, planned)


def check_counters(run, seen):
    """What the database says each tenant's network carried is what the host's devices counted."""
    for tenant in rows(run, "SELECT * FROM v_tenant ORDER BY trial_order, tenant"):
        nodes = rows(run, f"""SELECT domain_name FROM v_node WHERE trial_order = {tenant['trial_order']}
                              AND tenant = {tenant['tenant']}""")
        required = STEPS * 2 * (tenant["nodes"] - 1) * GRADIENT_BYTES // tenant["nodes"]
        assert tenant["network_bytes_required"] == required, tenant
        assert tenant["network_bytes_measured"] >= required, tenant
        if tenant["nodes"] == 1 or tenant["arm"] != "vm":
            continue
        taps = [seen.domains[node["domain_name"]].tap for node in nodes]
        counted = sum(seen.sent_bytes[tap] for tap in taps) / len(taps)
        # The last look may be a moment before the end.
        assert 0.8 < counted / tenant["network_bytes_measured"] < 1.1, (counted, tenant)
    carried = [bytes_ for device, bytes_ in seen.sent_bytes.items()
               if device.startswith(f"vtv{run.experiment[-6:]}") and bytes_ > 50 << 20]
    assert len(carried) == 2, "two slices trained together"


# --- in the database

def check_trials(run, is_kvm):
    trials = rows(run, "SELECT * FROM v_trial ORDER BY trial_order")
    assert [(t["case"], t["arm"]) for t in trials] == [(c, a) for c in CASES for a in ("bare_metal", "vm")], trials
    for trial in trials:
        assert trial["status"] == "finished" and trial["valid"] == 1 and trial["invalid_reason"] is None, trial
        assert trial["nodes"] == CASES[trial["case"]] and trial["images_per_second"] > 0, trial
        if trial["arm"] == "bare_metal":
            assert trial["virtualization"] == "none", trial
        else:
            assert trial["virtualization"].startswith("kvm") if is_kvm else trial["virtualization"] == "tcg", trial
    spreads = rows(run, "SELECT start_spread_ns FROM trial")
    assert all(spread["start_spread_ns"] is not None and spread["start_spread_ns"] < 60e9 for spread in spreads), spreads
    for trial in trials:  # a trial's throughput is the sum over its tenants
        tenants = rows(run, f"SELECT images_per_second FROM v_tenant WHERE trial_order = {trial['trial_order']}")
        assert abs(sum(t["images_per_second"] for t in tenants) - trial["images_per_second"]) < 1e-6


def check_nodes(run, seen):
    nodes = rows(run, "SELECT * FROM v_node")
    assert len(nodes) == 10
    host_boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    guests = [node for node in nodes if node["kind"] == "vm"]
    boots = {node["guest_boot_id"] for node in guests}
    assert len(boots) == 5 and None not in boots and host_boot not in boots, boots
    assert {node["domain_name"]: node["domain_uuid"] for node in guests} == {d.name: d.uuid for d in seen.domains.values()}
    for node in nodes:
        assert node["hostname"] == node["node"], node
        assert node["clock_uncertainty_ns"] is not None and 0 <= node["clock_uncertainty_ns"] < 1e9, node
        assert node["agent_ready_seconds"] > 0 and node["kernel"], node
        limit = node["memory_limit_read_back_bytes"]
        if node["kind"] == "slice":
            assert node["cpuset_read_back"] == node["cores"], node
            assert limit == node["memory_bytes"], node
        else:  # what the guest's kernel leaves of its memory
            assert 0.8 * node["memory_bytes"] < limit < node["memory_bytes"], node
            assert seen.domains[node["domain_name"]].pinned == {node["cores"]}, node
    for trial in rows(run, "SELECT trial_order FROM v_trial"):
        names = [n["hostname"] for n in nodes if n["trial_order"] == trial["trial_order"]]
        assert len(set(names)) == len(names), names


def check_ranks(run, is_kvm):
    ranks = rows(run, "SELECT * FROM v_rank")
    assert len(ranks) == 10
    for rank in ranks:
        assert re.fullmatch(r"[0-9a-z:]{8,}", rank["parameters_hash_before"]), rank
        assert rank["parameters_hash_before"] != rank["parameters_hash_after"], rank
        assert rank["isa"] and rank["loss_first"] > 0 and rank["pid"] > 0, rank
        if rank["arm"] == "vm" and not is_kvm:
            assert rank["isa"] == "sse41", rank  # without fused sums, which QEMU computes in software
        assert rank["loss_last"] >= 0, rank  # two images are soon known by heart
        assert rank["images_per_second"] > 0, rank
    by_tenant = {}
    for rank in ranks:
        by_tenant.setdefault((rank["trial_order"], rank["tenant"]), []).append(rank)
    for together in by_tenant.values():
        assert len({rank["parameters_hash_after"] for rank in together}) == 1, together
        assert sorted(rank["rank"] for rank in together) == list(range(len(together)))
        assert {rank["size"] for rank in together} == {len(together)}
        assert len({rank["hostname"] for rank in together}) == len(together), "each rank on a node of its own"
    assert len({rank["parameters_hash_before"] for rank in ranks}) == 1, "all start from the same seed"


def check_evidence(run):
    transports = rows(run, """SELECT t.arm, tr.from_node, tr.to_node, tr.transport FROM transport tr
                              JOIN tenant n ON n.id = tr.tenant_id JOIN trial t ON t.id = n.trial_id""")
    between = [t for t in transports if t["from_node"] != t["to_node"]]
    assert {t["arm"] for t in between} == {"bare_metal", "vm"}
    assert all("tcp" in t["transport"] for t in between), between
    samples = rows(run, "SELECT r.id, count(s.step) AS n, max(s.step) AS last FROM rank r LEFT JOIN sample s ON s.rank_id = r.id GROUP BY r.id")
    assert all(row["n"] == STEPS for row in samples), samples
    sources = rows(run, """SELECT n.id, n.kind, group_concat(DISTINCT t.source) AS sources FROM node n
                           LEFT JOIN telemetry t ON t.node_id = n.id GROUP BY n.id""")
    for node in sources:
        wanted = {"guest", "host"} if node["kind"] == "vm" else {"guest"}
        assert set((node["sources"] or "").split(",")) == wanted, node
    stages = {row["trial_id"]: set(row["stages"].split(",")) for row in rows(
        run, "SELECT trial_id, group_concat(DISTINCT stage) AS stages FROM event WHERE trial_id IS NOT NULL GROUP BY trial_id")}
    assert len(stages) == 6
    assert all(set(outside.STAGES) - {"image"} <= found for found in stages.values()), stages
    assert any("image" in found for found in stages.values())


def check_printed(run, is_kvm):
    assert re.search(r"(?m)^case +bare_metal +vm +ratio +", run.output), run.output
    for case in CASES:  # both arms' throughput, and their ratio
        assert re.search(rf"(?m)^{case} +[\d.]+ +[\d.]+ +[\d.]+ ", run.output), (case, run.output)
    assert str(run.database) in run.output
    comparisons = json.loads(virtrain("compare", "--db", run.database, "--format", "json"))
    assert [c["case"] for c in comparisons] == list(CASES)
    if is_kvm:
        return
    assert "emulated" in run.output, run.output
    for comparison in comparisons:
        assert comparison["verdict"] == "not_comparable", comparison
        assert comparison["ratio"] > 0, comparison
        for name in ("ci_low", "ci_high", "ci_tost_low", "ci_tost_high", "tost_p", "p_lower", "p_upper", "p_diff"):
            assert comparison[name] is None, (name, comparison)


def check_exchange(run, folder):
    first, second, copy = folder / "first.jsonl", folder / "second.jsonl", folder / "copy.db"
    virtrain("export", "--db", run.database, "-o", first)
    virtrain("import", first, "--db", copy)
    virtrain("export", "--db", copy, "-o", second)
    assert first.read_bytes() == second.read_bytes() and first.stat().st_size > 10_000
    with sqlite3.connect(copy) as db:
        assert db.execute("PRAGMA foreign_key_check").fetchall() == []


def check_second_run(folder):
    """Build and image are there already, and are used again."""
    text = outside.scenario(workload={"batch_size": 2, "steps": 1}, guest={"memory": "768MiB"})
    run = outside.Run(folder, text, program=VIRTRAIN, database=folder / "second.db")
    run.wait_for("guest image ready", PATIENCE)
    run.process.terminate()
    assert run.end(PATIENCE) == 128 + signal.SIGTERM, run.log[-5:]
    (event,) = rows(run, "SELECT detail FROM event WHERE message = 'guest image ready'")
    assert json.loads(event["detail"])["from_cache"] is True, event


def quickstart():
    with outside.scratch() as folder:
        plan = json.loads(virtrain("plan", SCENARIO, "--format", "json"))
        text = SCENARIO.read_text()
        for shipped, shorter in SHORTER.items():
            assert text.count(f"\n  {shipped}\n") == 1, shipped
            text = text.replace(f"\n  {shipped}\n", f"\n  {shorter}\n")
        run = outside.Run(folder, text, program=VIRTRAIN)
        seen = watcher.Watcher(run)
        status = run.end(PATIENCE)
        seen.end()
        assert status == 0, run.log[-10:]
        print(f"{run.output}\n{run.seconds:.0f} s", flush=True)
        outside.assert_nothing_left()
        is_kvm = check_domains(run, seen)
        check_slices(seen, plan)
        check_trials(run, is_kvm)
        check_nodes(run, seen)
        check_ranks(run, is_kvm)
        check_counters(run, seen)
        check_evidence(run)
        check_printed(run, is_kvm)
        check_exchange(run, folder)
        for image, digest in seen.images.items():
            assert watcher.sha256(image) == digest, f"{image} has been written to"
        check_second_run(folder)


TESTS = {"quickstart": quickstart}

if __name__ == "__main__":
    outside.main(TESTS, keep_libvirt=False)
