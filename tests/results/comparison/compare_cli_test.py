"""`virtrain compare` from the outside: data goes in as exchange JSON lines, answers come out as JSON."""

import json
import os
import subprocess
import sys
import tempfile

VIRTRAIN = sys.argv[1]
SCENARIO = """name: gate
workload: {model: resnet50, backend: cpu}
guest: {vcpus: 1, memory: 768MiB}
cases: [{name: c, tenants: [{nodes: 1}]}]
arms: [bare_metal, vm]
pairs: 4
expect: {vm_vs_bare_metal: {margin: 15%}}
"""


def run(*arguments, status=0):
    done = subprocess.run([VIRTRAIN, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done


def compare(database, *arguments, status=0):
    return json.loads(run("compare", "--db", database, "--format", "json", *arguments, status=status).stdout)


def database(folder, name, records):
    path = os.path.join(folder, name + ".jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    target = os.path.join(folder, name + ".db")
    run("import", path, "--db", target)
    return target


def trial(experiment, arm, value, **more):
    return {"record": "trial", "experiment": experiment, "scenario": "s", "case": "c", "arm": arm, "nodes": 1,
            "gpus_per_node": 0, "images_per_second": value, "virtualization": "kvm" if arm == "vm" else "none",
            "status": "finished", **more}


def telemetry(experiment, number, metric, value, second):
    return {"record": "telemetry", "experiment": experiment, "trial": number, "tenant": 0, "node": "n",
            "t_ns": second * 1_000_000_000, "source": "guest", "metric": metric, "value": value}


def a_tenant(**rank):
    return [{"tenant_index": 0, "nodes": 1, "node_list": [{"name": "n", "kind": "vm", "cores": "0-1"}],
             "ranks": [{"rank": 0, "local_rank": 0, "size": 1, "node": "n", **rank}]}]


def sides(folder):
    records = []
    for label, level in (("before", 100), ("after", 90)):
        records.append({"record": "experiment", "experiment": label, "scenario": "s", "label": label,
                        "boot_id": None, "host_name": "host-" + label, "started_at": "2026-11-01T00:00:00Z"})
        records += [trial(label, arm, level + 0.1 * k, pair=k) for k in (1, 2, 3, 4) for arm in ("bare_metal", "vm")]
    db = database(folder, "sides", records)
    for baseline, candidate in (("label:before", "label:after"), ("experiment:before", "experiment:after"),
                                ("host:host-before", "host:host-after")):
        found = compare(db, "--baseline", baseline, "--candidate", candidate)
        assert [(one["case"], one["arm"]) for one in found] == [("c", "bare_metal"), ("c", "vm")], found
        assert all(one["verdict"] == "worse" and not one["paired"] for one in found)
        assert abs(found[1]["ratio"] - 90.25 / 100.25) < 1e-6
    table = run("compare", "--db", db, "--baseline", "label:before", "--candidate", "label:after").stdout
    assert "label:after/label:before" in table and "vm, label:after" in table and "Holm" in table, table
    assert "counterpart" in run("compare", "--db", db, "--baseline", "label:before", status=2).stderr
    assert "allowed" in run("compare", "--db", db, "--baseline", "colour:red", "--candidate", "vm", status=2).stderr


def expectations(folder):
    """A VM 10 % slower: worse by the usual margin, as expected by a scenario that allows 15 %."""
    pairs = [trial("e", arm, (100 if arm == "bare_metal" else 90) + 0.1 * k * (1 if arm == "vm" else -1), pair=k)
             for k in (1, 2, 3, 4) for arm in ("bare_metal", "vm")]
    plain = database(folder, "plain", pairs)
    expecting = database(folder, "expecting", [{"record": "experiment", "experiment": "e", "scenario": "s",
                                                "scenario_text": SCENARIO}, *pairs])
    compare(plain)
    assert compare(plain, "--expect", status=1)[0]["verdict"] == "worse"
    assert compare(expecting, "--expect")[0]["margin"] == 0.15
    assert compare(expecting, "--expect", "--margin", "2%", status=1)[0]["margin"] == 0.02
    few = database(folder, "few", pairs[:4])
    assert compare(few, "--expect", status=5)[0]["reason"] == "too_few_pairs"


def planted_causes(folder):
    """The cause that was planted comes first."""
    stolen = []
    for number, (arm, steal) in enumerate([("bare_metal", 0.0), ("vm", 0.4)] * 3, start=1):
        stolen.append(trial("steal", arm, 100 if arm == "bare_metal" else 80, pair=(number + 1) // 2, tenants=a_tenant()))
        for second in range(1, 11):
            stolen.append(telemetry("steal", number, "cpu_user_seconds", (2 - steal) * second, second))
            stolen.append(telemetry("steal", number, "cpu_steal_seconds", steal * second, second))
    found = compare(database(folder, "steal", stolen), "--explain")[0]["explanation"]
    assert found["findings"][0]["cause"] == "steal", found
    assert abs(found["findings"][0]["cost"] - 0.2) < 1e-6 and abs(found["unexplained"]) < 0.01, found

    halved = []
    for number, arm in enumerate(["bare_metal", "vm"] * 3, start=1):
        halved.append(trial("band", arm, 100 if arm == "bare_metal" else 75, pair=(number + 1) // 2,
                            tenants=a_tenant(images_per_second=75), start_spread_ns=1000 * number))
    for arm, rate in (("bare_metal", 1e10), ("vm", 5e9)):
        halved.append({"record": "probe", "experiment": "band", "name": "triad", "arm": arm, "value": rate, "unit": "B/s"})
    db = database(folder, "band", halved)
    found = compare(db, "--explain")[0]["explanation"]
    assert found["findings"][0]["cause"] == "memory_bandwidth", found
    text = run("compare", "--db", db, "--explain").stdout
    assert "What may explain the gaps" in text and "unexplained:" in text, text


def predictions(folder):
    records = []
    for nodes, value in ((1, 100.0), (2, 192.0), (4, 372.0)):
        records.append({**trial("w", "vm", value), "case": f"weak-scaling/{nodes}", "nodes": nodes})
    db = database(folder, "weak", records)
    found = compare(db, "--predict", "8,64,1024")[2]["prediction"]["vm"]
    assert [point["nodes"] for point in found["points"]] == [1, 2, 4, 8, 64, 1024]
    for point in found["points"][3:]:
        assert point["bound_low"] <= point["predicted"] <= point["bound_high"] <= point["ideal"], point
    assert found["worst_held_out_error"] < 0.05
    text = run("compare", "--db", db, "--predict", "8").stdout
    assert "Prediction of weak-scaling in vm" in text and "8 nodes:" in text, text
    assert "allowed" in run("compare", "--db", db, "--predict", "0", status=2).stderr
    assert compare(db)[2]["prediction"] is None


def forced(folder):
    records = [trial("f", arm, 100 + 0.1 * k, pair=k, environment={"driver": "580" if arm == "vm" else "470"})
               for k in (1, 2, 3) for arm in ("bare_metal", "vm")]
    db = database(folder, "forced", records)
    assert compare(db)[0]["verdict"] == "not_comparable"
    one = compare(db, "--force")[0]
    assert one["verdict"] == "equivalent" and one["forced"] and "forced" in one["flags"]
    assert one["differences"][0]["field"] == "driver"
    assert "forced, although driver differs" in run("compare", "--db", db, "--force").stdout


with tempfile.TemporaryDirectory() as temporary:
    for check in (sides, expectations, planted_causes, predictions, forced):
        check(temporary)
        print("passed:", check.__name__)
