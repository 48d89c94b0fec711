#!/usr/bin/python3
"""Hosts of a Slurm allocation: a real controller and two nodes (slurm_rig.py), on which srun starts virtrain-host.

Seen: doctor and run over both nodes; only the job's cores; busy is 75; a job that is cancelled, and SIGTERM, leave nothing."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import slurm_rig

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
VIRTRAIN = str(BUILD / "virtrain")
RECORDED = pathlib.Path(__file__).parents[1] / "data"
SCRATCH = pathlib.Path("/run/test")  # the rig's own
MODE_OF_USERS_SOCKET = 0o666


def wait_for_idle_nodes():
    """The last job may still be completing, and its nodes busy with that."""
    listing = ["sinfo", "-hN", "-o", "%T"]
    wait_for("idle nodes", lambda: subprocess.run(listing, capture_output=True, text=True, check=True).stdout.split() == ["idle"] * 2)


def virtrain(*words, busy=False, **more):
    if not busy:
        wait_for_idle_nodes()
    return subprocess.run([VIRTRAIN, *words], capture_output=True, text=True, timeout=300, check=False, **more)


def on_each_node(*command):
    """Standard output of a command on each node, outside of any job."""
    return {
        name: subprocess.run([*slurm_rig.in_node(name), *command], capture_output=True, text=True, timeout=120, check=False).stdout
        for name in slurm_rig.SLURMDS
    }


def wait_for(what, condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def processes():
    """Command lines of all that runs of virtrain. Nothing outside of the rig is seen."""
    found = []
    for entry in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            name = pathlib.Path(words[0].decode(errors="replace")).name
            if name.startswith("virtrain"):
                found.append((name, b" ".join(words).decode(errors="replace")))
    return found


def scenario(name, **more):
    """A file with one bare-metal case on two nodes, one on each host."""
    file = SCRATCH / f"{name}.yaml"
    steps = more.pop("steps", 4)
    text = {
        "name": name,
        "workload": {"model": "resnet50", "backend": "cpu", "precision": "fp32", "batch_size": 1, "image_size": 64,
                     "warmup_steps": 1, "steps": steps},
        "guest": {"vcpus": 1, "memory": "1GiB"},
        "cases": [{"name": "over-two", "tenants": [{"nodes": 2}]}],
        "arms": ["bare_metal"],
        "pairs": 1,
        **more,
    }
    file.write_text(json.dumps(text))
    return str(file)


@contextlib.contextmanager
def another_job(*options):
    """Holds what it asks salloc for, until the end."""
    with subprocess.Popen(["salloc", "-Q", *options, "sleep", "60"]) as holder:
        wait_for("the job", lambda: "R" in subprocess.run(["squeue", "-h", "-o", "%t"], capture_output=True, text=True, check=True).stdout)
        try:
            yield
        finally:
            holder.kill()
            subprocess.run(["scancel", "-u", "root"], check=True)


class Slurm(unittest.TestCase):
    maxDiff = None

    def assert_nothing_left(self, said=""):
        """`said` has the run's experiment, for cgroups are the machine's, where other tests may have some."""
        wait_for("no process of virtrain", lambda: not processes(), 40)
        wait_for("no job", lambda: not subprocess.run(["squeue", "-h"], capture_output=True, text=True, check=True).stdout, 40)
        if experiment := re.search(r"^\d{8}t\d{6}-[0-9a-f]+$", said, re.M):
            for name, found in on_each_node(VIRTRAIN, "clean", "--verify", "--experiment", experiment.group()).items():
                self.assertIn("nothing is left over", found, name)
        else:
            self.assertEqual(said, "")

    def test_doctor_sees_each_node_by_srun(self):
        done = virtrain("doctor", "--slurm", "-N2 --gpus-per-node=1", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        findings = json.loads(done.stdout)
        self.assertEqual({f["host"] for f in findings}, {"n1", "n2"})
        self.assertIn("nodes of Slurm job", done.stderr)
        self.assertNotIn("not those that", done.stderr)
        # One core each is the job's.
        cores = {f["host"]: f["found"] for f in findings if f["id"] == "CPU-0" and f["status"] != "skipped"}
        self.assertRegex(cores["n1"], "^1 usable core: ")
        self.assertRegex(cores["n2"], "^1 usable core: ")
        whole = json.loads(virtrain("doctor", "--slurm", "-N1 --exclusive", "--json").stdout)
        self.assertFalse([f for f in whole if f["id"] == "CPU-0" and f["found"].startswith("1 usable core")])
        self.assert_nothing_left()

    def test_gpus_counted_over_all_nodes(self):
        # srun makes no step of one node there.
        done = virtrain("doctor", "--slurm", "-N2 --gpus=3", "--json")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("(ask for --gpus-per-node)", done.stderr)
        # Of one node's job it takes the variables for options, which would be wrong as well.
        done = virtrain("doctor", "--slurm", "-N1 -n1 --gpus=2 --gpus-per-task=2 --hint=nomultithread --mem-per-cpu=50", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_only_the_gpus_of_the_job(self):
        slurm_rig.plant_gpus("n1", RECORDED / "r750xa")
        self.addCleanup(slurm_rig.take_gpus, "n1")
        file = scenario("gpus", devices={"kind": "passthrough"},
                        workload={"backend": "cuda", "batch_size": 2}, guest={"vcpus": 1, "memory": "512MiB"},
                        cases=[{"name": "one", "tenants": [{"nodes": 1, "gpus_per_node": 1}]}])
        first, second = "0000:17:00.0", "0000:31:00.0"  # minors 0 and 1
        plan = ["plan", file, "--slurm", "-w n1 -N1 --gpus-per-node=1"]
        done = virtrain(*plan)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(first, done.stdout)
        self.assertNotIn(second, done.stdout)
        with another_job("-w", "n1", "-N1", "-n1", "--gpus-per-node=1"):
            done = virtrain(*plan, busy=True)
            none = virtrain("plan", file, "--slurm", "-w n1 -N1", busy=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(second, done.stdout)
        self.assertNotIn(first, done.stdout)
        self.assertEqual(none.returncode, 4, none.stdout)
        self.assertIn("does not have this GPU of n1, /dev/nvidia0 (ask for more with --gpus-per-node)", none.stderr)

    def test_busy_nodes(self):
        wait_for_idle_nodes()
        with another_job("-N2", "-c2"):
            started = time.monotonic()
            done = virtrain("doctor", "--slurm", "-N1 -c2", busy=True)
            self.assertEqual(done.returncode, 75, done.stderr)
            self.assertIn("Requested nodes are busy", done.stderr)
            self.assertLess(time.monotonic() - started, 5)

    def test_refusals(self):
        for words, status, said in [
            ("--no-such-option", 2, "unrecognized option"),
            ("-N1 'open", 2, "the quote ' is not closed"),
            ("-N1 --no-shell", 2, "--no-shell"),
            ("-N1 -p nope", 4, "invalid partition"),
            ("-N9", 4, "not available now"),
        ]:
            with self.subTest(words):
                done = virtrain("doctor", "--slurm", words)
                self.assertEqual(done.returncode, status, done.stderr)
                self.assertIn(said, done.stderr)
        two = virtrain("run", scenario("no-network"), "--slurm", "-N2")
        self.assertEqual(two.returncode, 2, two.stderr)
        self.assertIn("2 nodes need a network between them: --slurm-network", two.stderr)
        wrong = virtrain("run", scenario("wrong-network"), "--slurm", "-N2", "--slurm-network", "eth0")
        self.assertEqual(wrong.returncode, 2, wrong.stderr)
        self.assertIn("allowed: vxlan:NIC, bridge:NAME", wrong.stderr)

    def test_inside_a_job(self):
        script = SCRATCH / "job.sh"
        script.write_text(f"#!/bin/sh\n{VIRTRAIN} doctor > /dev/null; {VIRTRAIN} doctor --slurm '' --json | grep -c '\"host\": \"n2\"'; {VIRTRAIN} doctor --slurm -N9 >/dev/null\n")
        done = subprocess.run(["sbatch", "--wait", "-Q", "-N2", "--output=/run/out", script], capture_output=True, text=True, timeout=120, check=False)
        said = on_each_node("cat", "/run/out")["n1"]
        self.assertEqual(done.returncode, 0, said + done.stderr)
        self.assertIn('only this machine is used (--slurm "" uses the job\'s nodes)', said)
        self.assertRegex(said, r"(?m)^[1-9]\d+$")
        self.assertIn("its nodes are used, not those that --slurm asks for", said)

    def test_a_plan_has_only_the_cores_of_the_job(self):
        two = {"name": "two-each", "tenants": [{"nodes": 4, "per_host": 2}]}
        words = ["plan", scenario("four", cases=[two]), "--slurm-network", "vxlan:eth0", "--slurm"]
        enough = virtrain(*words, "-N2 -c2")
        self.assertEqual(enough.returncode, 0, enough.stderr)
        self.assertIn("n1", enough.stdout)
        short = virtrain(*words, "-N2 -c1")
        self.assertEqual(short.returncode, 4, short.stdout + short.stderr)
        self.assertIn("core", short.stderr)

    def test_run_over_both_nodes(self):
        done = virtrain("run", scenario("both"), "--slurm", "-N2 -c2 --exclusive", "--slurm-network", "vxlan:eth0")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        self.assertIn("1 trial finished, 0 failed", done.stderr)
        self.assert_nothing_left(done.stderr)

    def begin(self, name):
        """A long run over both nodes, whose ranks train."""
        words = [VIRTRAIN, "run", scenario(name, steps=100000), "--slurm", "-N2 -c2 --exclusive", "--slurm-network", "vxlan:eth0"]
        wait_for_idle_nodes()
        run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(run.kill)
        with contextlib.suppress(TimeoutError):
            wait_for("ranks", lambda: sum(n.startswith("virtrain-resnet50") for n, _ in processes()) >= 2 or run.poll() is not None, 120)
        self.assertIsNone(run.poll(), run.stdout.read() if run.poll() is not None else "")
        time.sleep(1)
        return run

    def test_a_cancelled_job_leaves_nothing(self):
        run = self.begin("cancelled")
        subprocess.run(["scancel", "-u", "root"], check=True)
        said, _ = run.communicate(timeout=90)
        self.assertEqual(run.returncode, 143, said)
        self.assert_nothing_left(said)

    def test_sigterm_reaches_the_run_in_the_allocation(self):
        run = self.begin("terminated")
        run.send_signal(signal.SIGTERM)
        said, _ = run.communicate(timeout=90)
        self.assertEqual(run.returncode, 143, said)
        self.assertIn("tearing down", said)
        self.assert_nothing_left(said)

    def test_the_socket_of_group_virtrain_of_a_node(self):
        listen = ["systemd-socket-activate", "--listen=/run/virtrain-host.socket", "--accept", "--inetd", str(BUILD / "virtrain-host")]
        with subprocess.Popen([*slurm_rig.in_node("n1"), *listen], stderr=subprocess.DEVNULL) as listener:
            self.addCleanup(listener.kill)
            socket = ["test", "-S", "/run/virtrain-host.socket"]
            wait_for("the socket", lambda: subprocess.run([*slurm_rig.in_node("n1"), *socket], check=False).returncode == 0)
            subprocess.run([*slurm_rig.in_node("n1"), "chmod", f"{MODE_OF_USERS_SOCKET:o}", "/run/virtrain-host.socket"], check=True)
            wait_for_idle_nodes()
            as_nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
            command = [VIRTRAIN, "doctor", "--slurm", "-w n1 -c1", "--privileges", "group", "--json"]
            environment = {**os.environ, "HOME": "/nonexistent"}
            done = subprocess.run([*as_nobody, *command], capture_output=True, text=True, timeout=120, check=False, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            findings = json.loads(done.stdout)
            cores = [f["found"] for f in findings if f["id"] == "CPU-0" and f["status"] != "skipped"]
            self.assertRegex(cores[0], "^1 usable core: ")  # of the job, not of systemd's service
            listener.kill()


if __name__ == "__main__":
    if why := slurm_rig.missing():
        print(f"skipped: {why}")
        sys.exit(77)
    os.environ.pop("VIRTRAIN_DB", None)
    slurm_rig.enter(nodes=2, kill_wait=30)
    SCRATCH.mkdir(mode=0o755)
    home = SCRATCH / "home"
    home.mkdir()
    os.environ["HOME"] = str(home)
    for variable in [variable for variable in os.environ if variable.startswith("XDG_")]:
        del os.environ[variable]
    unittest.main(verbosity=2)
