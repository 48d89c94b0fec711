"""`virtrain compare` from the outside: data goes in as exchange JSON lines, answers come out as JSON."""

import json
import os
import re
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
    assert "label:after against label:before: images/s" in table and "c, vm" in table and "Holm" in table, table
    assert "counterpart" in run("compare", "--db", db, "--baseline", "label:before", status=2).stderr
    assert "allowed" in run("compare", "--db", db, "--baseline", "colour:red", "--candidate", "vm", status=2).stderr


def upgrades(folder):
    """Between two labels what changed of the system is part of the answer; other work is not comparable."""
    def pairs(label, level, **environment):
        head = {"record": "experiment", "experiment": label, "scenario": "s", "label": label, "boot_id": None,
                "started_at": "2026-11-01T00:00:00Z"}
        return [head] + [trial(label, arm, level + 0.1 * k, pair=k, environment=environment)
                         for k in (1, 2, 3, 4) for arm in ("bare_metal", "vm")]

    db = database(folder, "upgrades", pairs("before", 100, kernel="6.1", driver="550", workload_flags="--fp32") + pairs("after", 90, kernel="6.12", driver="550", workload_flags="--fp32")
                  + pairs("other", 90, kernel="6.1", driver="550", workload_flags="--fp16"))
    between = ("--baseline", "label:before", "--candidate", "label:after")
    vm = compare(db, *between)[1]
    assert (vm["arm"], vm["verdict"]) == ("vm", "worse") and "changed:kernel" in vm["flags"], vm
    assert abs(vm["ci_high"] - 0.9) < 0.01, vm
    assert [one["rule"] for one in vm["differences"]] == ["part_of_the_change"], vm["differences"]
    assert "also changed, and part of the figure: kernel (6.1 → 6.12)" in run("compare", "--db", db, *between).stdout
    meant = compare(db, *between, "--changed", "kernel,driver")[1]
    assert meant["verdict"] == "worse" and not any(flag.startswith("changed:") for flag in meant["flags"]), meant
    assert meant["differences"][0]["rule"] == "explained_by_the_arm", meant
    flags = compare(db, "--baseline", "label:before", "--candidate", "label:other")[0]
    assert flags["verdict"] == "not_comparable" and "differs:workload_flags" in flags["flags"], flags
    assert "did you mean kernel?" in run("compare", "--db", db, *between, "--changed", "kernal", status=2).stderr
    assert "two labels" in run("compare", "--db", db, "--changed", "kernel", status=2).stderr


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
    strict = compare(expecting, "--expect", "--alpha", "0.01")[0]
    assert (strict["margin"], strict["alpha"]) == (0.15, 0.01), strict
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
    assert "cause" in text and "5 GB/s" in text and "costs up to 25.0 %" in text and "not accounted for" in text, text


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
    assert "no columns in csv" in run("compare", "--db", db, "--predict", "8", "--format", "csv", status=2).stderr
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


def neighbours(folder):
    """A victim next to a neighbour and alone are two arms: what must be equal must be so here, too."""
    for same, verdict in ((True, "isolated"), (False, "not_comparable")):
        records = [{**trial("n", arm, 100 + 0.1 * k, pair=k, environment={"driver": "470" if same or arm == "vm" else "580"}),
                    "virtualization": "kvm"} for k in range(1, 7) for arm in ("vm", "vm+cpu@100%")]
        db = database(folder, "neighbours-" + verdict, records)
        cells = json.loads(run("isolate", "--db", db, "--format", "json").stdout)
        assert cells[-1]["neighbour"] == "cpu@100%" and cells[-1]["verdict"] == verdict, cells


SEEN_CORES = "cpu_flags mitigations numa smt"
LIMITS = ("cpu", "disk_read", "disk_write", "disk_read_iops", "disk_write_iops", "network_in", "network_out", "llc", "memory_bandwidth")
FOLLOWS = {  # what a guest under KVM reports differently where an arm sets the key: nothing else may differ
    "guest.image": "kernel driver cpu_flags mitigations isa peer_to_peer",
    "guest.vcpus": SEEN_CORES + " threads_per_rank",
    "guest.memory": "",
    "guest.pinning": SEEN_CORES,
    "guest.smt": SEEN_CORES,
    "guest.cpu_model": "cpu_model cpu_flags microcode mitigations isa",
    "guest.hugepages": "",
    "guest.topology": "numa transport peer_to_peer gpu_pcie_generation gpu_pcie_width",
    "guest.memory_encryption": "bios cpu_flags microcode mitigations isa transport peer_to_peer",
    "guest.network.vhost": "",
    "guest.network.queues": "",
    "guest.network.mtu": "",
    "guest.template": "cpu_model cpu_flags microcode mitigations isa",
    "guest.nccl_topology": "transport peer_to_peer",
    "guest.emulator_threads": "",
    **{f"{part}.limits.{limit}": "" for part in ("guest", "neighbour") for limit in LIMITS},
    "devices.type": "gpu_name mig transport peer_to_peer",
    "devices.clique": "transport peer_to_peer",
    "devices.vfio": "",
    "devices.spread": "",
    "devices.vgpu_scheduler": "vgpu_scheduler",
    "devices.settings.power_limit": "power_limit",
    "devices.settings.graphics_clock": "clocks",
    "devices.settings.ecc": "ecc",
    "devices.settings.persistence": "",
    "devices.settings.mig": "mig transport peer_to_peer",
    "devices.between_tenants": "",
    "devices.licence_token": "",
    **{f"devices.nics.{key}": "transport peer_to_peer"
       for key in ("kind", "per_node", "select.vendor", "select.count", "select.address", "select.name")},
    "workload.threads": "threads_per_rank",
    "workload.env.OTHER": "environment",
    "workload.env.ONEDNN_MAX_CPU_ISA": "environment isa",
    "workload.env.DNNL_MAX_CPU_ISA": "environment isa",
    "workload.env.NCCL_P2P_DISABLE": "environment transport peer_to_peer",
    "workload.env.OMPI_MCA_btl_vader_single_copy_mechanism": "environment transport",
    "workload.env.UCX_TLS": "environment transport",
    "workload.env.FI_PROVIDER": "environment transport",
}
FACTS = set("""gpu_uuid gpu_name driver cuda cudnn nccl kernel cpu_model cpu_flags microcode bios vbios mitigations vgpu_scheduler iommu
    clocks power_limit ecc mig fusion gpu_virtualization gpu_pcie_generation gpu_pcie_width numa peer_to_peer transport network_medium
    trainer_build threads_per_rank environment isa governor smt open_mpi""".split())


def keys_of_arms():
    """As the schema has them, by their paths."""
    def leaves(schema, path):
        below = schema.get("properties", {})
        return [leaf for key, one in below.items() for leaf in leaves(one, [*path, key])] if below else [".".join(path)]
    kinds = json.loads(run("schema").stdout)["properties"]["arms"]["items"]["anyOf"]
    return set(leaves(next(one for one in kinds if "properties" in one), [])) - {"name", "like"}


def changed_keys(folder):
    """Whatever key an arm sets: what follows from it is explained and comparable, and nothing else is explained."""
    def is_at_or_below(key, parent):
        return key == parent or key.startswith(parent + ".")

    keys = keys_of_arms()
    undecided = [key for key in keys if not any(is_at_or_below(one, key) for one in FOLLOWS)]
    assert not undecided, f"decide what a guest reports differently where an arm sets {undecided}"
    assert all(any(is_at_or_below(one, key) for key in keys) for one in FOLLOWS)

    arms, records, expected = [{"name": "vm", "base": "vm"}], [], {}

    def add(arm, key, differing):
        variable = key.removeprefix("workload.env.") if key.startswith("workload.env.") else "NOT_SET"
        values = {fact: "there" if fact in differing else "here" for fact in FACTS}
        values["environment"] = json.dumps({variable: "1"} if "environment" in differing else {})
        records.extend({**trial("k", arm, 100 + 0.1 * pair, pair=pair, environment=values), "virtualization": "kvm"} for pair in (1, 2, 3))

    add("vm", "", set())
    for number, (key, fields) in enumerate(FOLLOWS.items()):
        for kind, differing in (("own", set(fields.split())), ("all", FACTS)):
            expected[f"{kind}-{number}"] = (key, set(fields.split()), differing)
            arms.append({"name": f"{kind}-{number}", "base": "vm", "like": "vm", "changes": {key: "x"}})
            add(f"{kind}-{number}", key, differing)
    found = compare(database(folder, "keys", [{"record": "experiment", "experiment": "k", "scenario": "s", "plan": {"arms": arms}}, *records]))
    assert {one["candidate"] for one in found} == set(expected), found
    for one in found:
        key, explained, differing = expected[one["candidate"]]
        rules = {difference["field"]: difference["rule"] for difference in one["differences"]}
        assert set(rules) == differing, (key, set(rules) ^ differing)
        told = {field for field, rule in rules.items() if rule == "explained_by_the_arm"}
        assert told == explained, (key, told ^ explained)
        assert one["verdict"] == ("equivalent" if differing == explained else "not_comparable"), (key, one["verdict"])


def schedulers(folder):
    """Runs under two scheduling policies of vGPUs are told apart by what the host said, not by their labels alone."""
    for label, policy, verdict in (("alike", "EQUAL_SHARE", "equivalent"), ("other", "BEST_EFFORT", "not_comparable")):
        records = []
        for name, said in (("before", "EQUAL_SHARE"), (label, policy)):
            records.append({"record": "experiment", "experiment": name, "scenario": "s", "label": name, "fingerprint": {"vgpu_scheduler": said}})
            records += [trial(name, "vm", 100 + 0.1 * k) for k in (1, 2, 3, 4)]
        one = compare(database(folder, "policy-" + label, records), "--baseline", "label:before", "--candidate", "label:" + label)[0]
        assert one["verdict"] == verdict, one
    assert one["differences"][0]["field"] == "host.vgpu_scheduler" and "idle" in one["differences"][0]["why"], one


def probes_alone(folder):
    """Micro-benchmarks are compared figure by figure, with runs as the unit; of one run each there is a ratio and no verdict."""
    def records(runs, names=("all_reduce",)):
        return [{"record": "probe", "experiment": "p", "scenario": "s", "name": name, "arm": arm, "unit": "B/s", "value": value * noise,
                 "bus_bytes_per_second": value * noise, "ranks": 2, "size_bytes": size, "run": run + 1}
                for run, noise in enumerate(runs) for name in names for size in (1024, 1 << 30)
                for arm, value in (("bare_metal", 2e9), ("vm", 2e9 if size == 1024 else 1e9))]
    one = database(folder, "one-run", records([1.0]))
    shown = run("compare", "--db", one).stdout
    assert "50.0 %" in shown and "three runs" in shown and "ATS" in shown and "1 of 2 figures" in shown, shown
    found = compare(one)
    assert [figure["verdict"] for figure in found] == ["inconclusive"] * 2 and abs(found[1]["ratio"] - 0.5) < 1e-9 and found[1]["ci_low"] is None, found
    run("compare", "--db", one, "--expect", status=5)
    four = database(folder, "four-runs", records([0.999, 1.0, 1.001, 1.0005], ("all_reduce", "broadcast")))
    found = {(figure["probe"], figure["size_bytes"]): figure for figure in compare(four)}
    assert len(found) == 4 and found["all_reduce", 1024]["verdict"] == "equivalent", found
    slow = found["broadcast", 1 << 30]
    assert slow["verdict"] == "worse" and slow["ci_low"] < 0.5 < slow["ci_high"] < 0.503 and slow["n"] == 4, slow
    assert slow["p_worse"] < slow["p_worse_holm"] < 0.001, slow
    run("compare", "--db", four, "--expect", status=1)
    run("compare", "--db", four, "--expect", "--case", "all_reduce", "--margin", "60%")
    assert run("compare", "--db", four, "--format", "csv").stdout.startswith("probe,data_type,side,")
    assert "broadcast" in run("compare", "--db", four, "--case", "gemm", status=3).stderr
    assert "--predict" in run("compare", "--db", four, "--predict", "8", status=2).stderr
    assert "measured on both sides" in run("compare", "--db", four, "--candidate", "vgpu", status=3).stderr
    page = os.path.join(folder, "probes.html")
    run("report", "--db", four, "--output", page)
    assert "2 of 4 figures" in open(page, encoding="utf-8").read()
    labels = [{**record, "experiment": label, "label": label, "arm": "vm"} for label, arm in (("before", "bare_metal"), ("after", "vm"))
              for record in records([0.999, 1.0, 1.001]) if record["arm"] == arm]
    upgrade = compare(database(folder, "labels", labels), "--baseline", "label:before", "--candidate", "label:after")
    assert [figure["verdict"] for figure in upgrade] == ["equivalent", "worse"], upgrade
    nothing = os.path.join(folder, "nothing.db")
    run("import", os.path.join(folder, "one-run.jsonl"), "--db", nothing)
    assert "show --probes" in run("compare", "--db", nothing, "--scenario", "other", status=3).stderr


def gpus_of_one_node(folder):
    """Speedups are over nodes; of one node's GPUs there is none, and compare says why."""
    cases = [trial("g", "vm", 100.0 * gpus, case=f"{gpus}-gpus", gpus_per_node=gpus) for gpus in (1, 2)]
    notes = [note for one in compare(database(folder, "gpus", cases)) for note in one["notes"]]
    assert len([note for note in notes if "no speedup: it is over nodes" in note]) == 1, notes
    plain = compare(database(folder, "one-size", [trial("h", "vm", 100.0), trial("h", "bare_metal", 101.0)]))
    assert not any("no speedup" in note for note in plain[0]["notes"]), plain


def terminal(folder):
    """In 80 columns each case is a line; what is left out has an option."""
    name = "two-tenants-in-a-case-with-a-long-name-of-many-words/2"
    records = [trial("t", arm, 1000 + pair, case=name, nodes=2, pair=pair, environment={"cpu_model": arm},
                     tenants=[{"tenant_index": index, "nodes": 1, "images_per_second": 500 + pair} for index in (0, 1)])
               for pair in (1, 2, 3) for arm in ("bare_metal", "vm")]
    db = database(folder, "terminal", records)

    def shown(*arguments, columns="80"):
        return subprocess.run([VIRTRAIN, "compare", "--db", db, *arguments], capture_output=True, text=True, check=True,
                              env={**os.environ, "COLUMNS": columns}).stdout

    text = shown()
    assert all(len(line) <= 80 for line in text.splitlines()), text
    assert "1002.0  1002.0  1.0000" in text and "/2 " in text and "501" not in text and "cpu_model" not in text, text
    assert "--tenants lists" in text and "--notes lists" in text, text
    assert "502.0" in shown("--tenants") and "cpu_model differs" in shown("--notes")
    assert name in shown(columns="200"), "names are whole where they fit"
    assert "vm against bare_metal: images/s, 3 pairs" in shown(columns="no number")


def units(folder):
    """What is not in images/s keeps its unit in every output, and formats that cannot say one leave it out and say so."""
    in_tokens = [trial("u", arm, None, pair=pair, throughput=2000.0 + pair, unit="tokens/s")
                 for pair in (1, 2, 3, 4) for arm in ("bare_metal", "vm")]
    measured = database(folder, "units", in_tokens)
    assert compare(measured)[0]["throughput"]["vm"]["unit"] == "tokens/s"
    for form in ("superbench", "mlperf"):
        done = run("export", "--db", measured, "--format", form)
        assert done.stdout == "" and "cannot say a unit" in done.stderr and "tokens/s" in done.stderr, done
    page = os.path.join(folder, "units.html")
    run("report", "--db", measured, "-o", page)
    with open(page, encoding="utf-8") as file:
        shown = re.sub(r"<script.*?</script>", "", file.read(), flags=re.DOTALL)
    assert "2002 tokens/s" in shown and "images/s" not in shown.lower(), shown
    pairs = [trial("two", arm, None, pair=pair, throughput=2000.0 + pair, unit="tokens/s", nodes=2, tenants=[
        {"tenant_index": index, "nodes": 1, "throughput": 1000.0 + pair, "unit": "tokens/s"} for index in (0, 1)])
             for pair in (1, 2, 3) for arm in ("bare_metal", "vm")]
    tenants = run("compare", "--db", database(folder, "units-of-tenants", pairs), "--tenants").stdout
    assert tenants.count("1002.0 tokens/s") == 4, tenants
    beside = run("reproduce", "dell-r750xa", "--experiment", "u", "--db", measured).stdout
    assert "Other cases: tokens/s" in beside and beside.count("2002.5") == 2, beside


with tempfile.TemporaryDirectory() as temporary:
    for check in (sides, upgrades, expectations, planted_causes, predictions, forced, neighbours, changed_keys, schedulers, probes_alone,
                  gpus_of_one_node, terminal, units):
        check(temporary)
        print("passed:", check.__name__)
