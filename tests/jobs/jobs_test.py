#!/usr/bin/python3
"""jobs_test.py slices | gpt | vm | payload | nccl | torchvision | tf_cnn_benchmarks | tf_cnn_two_nodes |
payload_gpt | payload_torchvision | payload_tf_cnn
Commands of the user's own (docs/jobs.md) on this host: under mpirun over two slices, a small GPT under torchrun on one
slice and on two, and the same bytes in a VM and a slice. And a Python of its own in a payload. Needs root."""

import hashlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "cli"))

from command_line import BUILD, PAYLOADS

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


# That it runs in its payload.
SEES = r"""
import os, sys
assert "venv" in sys.prefix and not os.path.exists("/root"), sys.prefix
try:
    open(os.path.join(sys.prefix, "new"), "w")
    sys.exit("the payload can be written to")
except OSError:
    pass
assert os.path.exists("/proc/self") and os.path.exists("/dev/null") and os.access("/tmp", os.W_OK)
"""


def run(scenario, *options, facts=None):
    with tempfile.TemporaryDirectory(prefix="virtrain-jobs-") as folder:
        file = pathlib.Path(folder) / "job.yaml"
        file.write_text(scenario if isinstance(scenario, str) else json.dumps(scenario), encoding="utf-8")
        db = str(pathlib.Path(folder) / "results.db")
        ran = subprocess.run([BUILD / "virtrain", "run", file, "--db", db, *options], capture_output=True, text=True)
        assert ran.returncode == 0, f"exit {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
        exported = subprocess.run([BUILD / "virtrain", "export", "--db", db, "--format", "jsonl"], capture_output=True, text=True, check=True)
        records = [json.loads(line) for line in exported.stdout.splitlines()]
        if facts is not None:
            with sqlite3.connect(db) as connection:
                facts += connection.execute("SELECT arm, value FROM v_fact WHERE key = 'payload_sha256'").fetchall()
        return [one for one in records if one["record"] == "trial"]


def check(trials, unit, least, most, key="throughput"):
    assert trials
    for trial in trials:
        assert trial["status"] == "finished" and trial.get("valid", True), trial
        assert least < trial[key] < most and trial.get("unit", "images/s") == unit, trial
        assert ("images_per_second" in trial) == (key != "throughput"), trial


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


# Debian 12's PyTorch does not start with its Python where neither stream is redirected. Standard output stays what it is.
DEBIANS_TORCHRUN = {"PET_REDIRECTS": "2", "PET_TEE": "2"}


def with_debians_python(name):
    """A shipped scenario of torchrun, for Debian 12's PyTorch."""
    text = (SOURCE / f"scenarios/jobs/{name}.yaml").read_text(encoding="utf-8")
    return text.replace("- python3\n", "- /usr/bin/python3\n"), ("--set", f"workload.env={json.dumps(DEBIANS_TORCHRUN)}")


def gpt():
    """The shipped GPT under torchrun."""
    if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True).returncode != 0:
        print("skipped: python3-torch is not installed")
        sys.exit(SKIPPED)
    text, more = with_debians_python("gpt-torchrun")
    trials = run(text, "--set", "pairs=1", "--set", "workload.steps=30", "--set", "arms=[bare_metal]", *more)
    assert {trial["case"] for trial in trials} == {"one-node", "two-nodes"}, trials
    check(trials, "tokens/s", 1, 1e9)


def vm():
    """The host's own Python in a VM and in a slice."""
    trials = run(sleeper(arms=["bare_metal", "vm"]))
    assert {trial["arm"] for trial in trials} == {"bare_metal", "vm"}, trials
    check(trials, "steps/s", 5, 10)


def installed(python, *modules):
    """Ends the test unless this Python has them."""
    look = "import importlib.util, sys; sys.exit(not all(map(importlib.util.find_spec, sys.argv[1:])))"
    if not os.path.exists(python) or subprocess.run([python, "-c", look, *modules], capture_output=True).returncode != 0:
        print(f"skipped: {python} with {' and '.join(modules)} is not installed (docs/jobs.md)")
        sys.exit(SKIPPED)


def torchvision():
    """The shipped scenario, with less work, on one and on two nodes."""
    installed("/usr/bin/python3", "torch", "torchvision")
    text, more = with_debians_python("torchvision-torchrun")
    trials = run(text, "--set", "pairs=1", "--set", "workload.steps=8", "--set", "workload.batch_size=2", "--set", "workload.image_size=64",
                 "--set", "oversubscribe=true", "--set", "cases=[{name: one, tenants: [{nodes: 1}]}, {name: two, tenants: [{nodes: 2}]}]", *more)
    assert {trial["case"] for trial in trials} == {"one", "two"}, trials
    check(trials, "images/s", 0.1, 1e6, "images_per_second")


def tensorflow():
    """tf_cnn_benchmarks and a Python with TensorFlow: those of scripts/setup, or where docs/jobs.md has them. None: there are none."""
    for tools in (BUILD / "tools", pathlib.Path("/opt")):
        script, python = tools / "benchmarks/scripts/tf_cnn_benchmarks/tf_cnn_benchmarks.py", tools / "tensorflow/bin/python"
        if script.exists() and python.exists():
            return python, script
    return None


# A parameter server in the first node, and a worker in each.
TWO_NODES = """
if [ "$RANK" = 0 ]; then "$@" --job_name=ps & fi
exec "$@" --job_name=worker --task_index="$RANK"
"""


def with_tensorflow(**more):
    """The shipped scenario of tf_cnn_benchmarks with less work."""
    found = tensorflow()
    if not found:
        print("skipped: tf_cnn_benchmarks is in neither build/tools nor /opt (scripts/setup --all, docs/jobs.md)")
        sys.exit(SKIPPED)
    scenario = yaml.safe_load((SOURCE / "scenarios/jobs/tf-cnn-benchmarks.yaml").read_text(encoding="utf-8"))
    scenario["workload"]["command"][:2] = map(str, found)
    scenario["workload"].update(steps=6, batch_size=2)
    scenario.update(pairs=1, oversubscribe=True, **more)
    return scenario


def tf_cnn_benchmarks():
    """tf_cnn_benchmarks in a slice."""
    check(run(with_tensorflow()), "images/s", 0.1, 1e6, "images_per_second")


def tf_cnn_two_nodes():
    """tf_cnn_benchmarks in two slices, whose workers share a parameter server."""
    scenario = with_tensorflow(cases=[{"name": "two-nodes", "tenants": [{"nodes": 2}]}])
    workload = scenario["workload"]
    hosts = ["--variable_update=parameter_server", "--ps_hosts=t1n1:2221", "--worker_hosts=t1n1:2222,t1n2:2222"]
    workload["command"] = ["sh", "-c", TWO_NODES, "sh", *workload["command"], *hosts]
    workload.update(launch="per_node", throughput={"format": "tf_cnn_benchmarks", "scope": "node"})
    check(run(scenario), "images/s", 0.1, 1e6, "images_per_second")


def in_payload(scenario, environment, unit, key):
    """A job in one payload made of this environment, in a VM and in a slice: the same bytes in both."""
    if not os.path.exists("/dev/loop-control"):
        print("skipped: there are no loop devices")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory(prefix="payload-", dir=PAYLOADS) as folder:
        image = pathlib.Path(folder) / "env.sqfs"
        subprocess.run([BUILD / "virtrain", "payload", "make", environment(folder), "-o", image], check=True)
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        scenario["workload"]["payload"] = str(image)
        scenario.update(pairs=1, arms=["vm", "bare_metal"], trial_timeout="20m", cases=[{"name": "one", "tenants": [{"nodes": 1}]}])
        scenario["guest"] = {"vcpus": 1, "memory": "3GiB"}
        facts = []
        trials = run(scenario, facts=facts)
    assert sorted(trial["arm"] for trial in trials) == ["bare_metal", "vm"], trials
    check(trials, unit, 1e-3, 1e9, key)
    assert set(facts) == {("bare_metal", digest), ("vm", digest)}, facts
    for trial in trials:
        print(f"{trial['arm']}: {trial[key]:.4g} {unit}, virtualization {trial['virtualization']}, payload {digest}")


def torch_environment(folder):
    """A virtual environment that sees Debian's PyTorch."""
    venv = pathlib.Path(folder) / "venv"
    subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", "--system-site-packages", venv], check=True)
    return venv


def torch_in_payload(name, unit, key, **less):
    installed("/usr/bin/python3", "torch", "torchvision")
    scenario = yaml.safe_load((SOURCE / f"scenarios/jobs/{name}.yaml").read_text(encoding="utf-8"))
    scenario["workload"].update(env=DEBIANS_TORCHRUN, **less)
    in_payload(scenario, torch_environment, unit, key)


def payload_gpt():
    torch_in_payload("gpt-torchrun", "tokens/s", "throughput", steps=24, batch_size=2)


def payload_torchvision():
    torch_in_payload("torchvision-torchrun", "images/s", "images_per_second", steps=8, batch_size=1, image_size=64)


def payload_tf_cnn():
    scenario = with_tensorflow()
    python, script = tensorflow()
    scenario["workload"].update(steps=5, batch_size=1)

    def environment(folder):
        venv = pathlib.Path(folder) / "venv"
        subprocess.run(["cp", "-al", python.parents[1], venv], check=True)
        shutil.copytree(script.parent, venv / "benchmark")
        scenario["workload"]["command"][:2] = ["python", str(venv / "benchmark" / script.name)]
        return venv
    in_payload(scenario, environment, "images/s", "images_per_second")


def nccl():
    """The output of nccl-tests, by a stand-in that prints it: rows of two ranks, of which the largest decides."""
    scenario = sleeper(cases=[{"name": "two", "tenants": [{"nodes": 2}]}], arms=["bare_metal"], oversubscribe=True)
    scenario["workload"] = {"command": ["/usr/bin/python3", str(SOURCE / "tests/jobs/all_reduce_perf.py")], "launch": "mpirun",
                            "throughput": {"format": "nccl-tests"}}
    check(run(scenario), "B/s", 1e9, 4e9)


def mounted():
    """What is mounted or set up of payloads on this host."""
    loops = subprocess.run(["losetup", "-l", "-n", "-O", "NAME,BACK-FILE"], capture_output=True, text=True, check=True).stdout
    return [line for line in loops.splitlines() if "/virtrain" in line]


def payload():
    """A virtual environment as a payload: in slices with namespaces and without, on one node and on two, under mpirun;
    then once in each node of all arms, VMs too, which have the same bytes and do the same work. The job says itself that
    it sees the payload's files, cannot write to them, and sees nothing of the host's."""
    if not os.path.exists("/dev/loop-control"):
        print("skipped: there are no loop devices")
        sys.exit(SKIPPED)
    before = mounted()
    with tempfile.TemporaryDirectory(prefix="payload-", dir=PAYLOADS) as folder:
        venv, image = pathlib.Path(folder) / "venv", pathlib.Path(folder) / "env.sqfs"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
        (venv / "job.py").write_text(SEES + SLEEPER, encoding="utf-8")
        made = subprocess.run([BUILD / "virtrain", "payload", "make", venv, "-o", image], capture_output=True, text=True)
        assert made.returncode == 0, made.stderr
        digest = hashlib.sha256(image.read_bytes()).hexdigest()
        assert digest in made.stdout, made.stdout
        scenario = sleeper(arms=["bare_metal", "bare_metal_shared"], oversubscribe=True)
        scenario["cases"] = [{"name": "one", "tenants": [{"nodes": 1}]}, {"name": "two", "tenants": [{"nodes": 2}]}]
        scenario["workload"].update(command=["python", str(venv / "job.py"), "{ranks}"], payload=str(image), launch="mpirun")
        scenario["workload"]["throughput"]["scope"] = "rank"
        facts = []
        trials = run(scenario, facts=facts)
        assert len(trials) == 4, trials
        check(trials, "steps/s", 5, 20)
        assert set(facts) == {("bare_metal", digest), ("bare_metal_shared", digest)}, facts
        arms = ["bare_metal", "bare_metal_shared", "vm"]
        scenario.update(arms=arms, cases=scenario["cases"][1:])
        scenario["workload"]["launch"] = "per_node"
        scenario["workload"]["throughput"]["scope"] = "node"
        del scenario["guest"]["packages"]
        facts = []
        trials = run(scenario, facts=facts)
    assert sorted(trial["arm"] for trial in trials) == arms, trials
    check(trials, "steps/s", 12, 20)
    assert set(facts) == {(arm, digest) for arm in arms}, facts
    assert mounted() == before, mounted()


if os.geteuid() != 0:
    print("skipped: needs root")
    sys.exit(SKIPPED)
{"slices": slices, "gpt": gpt, "vm": vm, "payload": payload, "nccl": nccl, "torchvision": torchvision, "tf_cnn_benchmarks": tf_cnn_benchmarks,
 "tf_cnn_two_nodes": tf_cnn_two_nodes, "payload_gpt": payload_gpt, "payload_torchvision": payload_torchvision, "payload_tf_cnn": payload_tf_cnn}[sys.argv[1]]()
