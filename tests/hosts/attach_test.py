#!/usr/bin/python3
"""Machines that exist already, reached over ssh as a user without rights and through a chroot that has busybox and nothing else: they
train, and no file stays there, also where one end is killed."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest

os.environ["TMPDIR"] = "/var/tmp"  # each machine has a /tmp of its own

import rig as rigs  # noqa: E402

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
WORK = {"batch_size": 2, "image_size": 33, "warmup_steps": 0, "steps": 2, "display_every": 1}
UNABLE, FAILED = 4, 6
# Fails where it would find parts of ours in place of the machine's own.
JOB = """
[ -z "$OPAL_PKGLIBDIR" ] || exit 9
case $PATH in *virtrain-*) exit 8 ;; esac
i=0
while [ $i -lt 15 ]; do sleep 0.1; i=$((i + 1)); echo "$OMPI_COMM_WORLD_RANK$PET_NODE_RANK steps/s: 10"; done
"""
# Sees the payload's files and no others, and cannot change them.
IN_PAYLOAD = """
[ -e /in-payload ] && [ ! -e /var ] && [ -e /proc/self/exe ] || exit 9
( : > /new ) 2>/dev/null && exit 8
( : > "$TMPDIR/new" ) || exit 7
""" + JOB
DAEMON = "4242"  # seconds that one sleeps
RIG = None
BOX = None
PAYLOAD = None  # a squashfs image, at one path on all machines


def setUpModule():
    global RIG, BOX, PAYLOAD
    if shutil.which("busybox") is None:
        raise unittest.SkipTest("busybox-static is not installed")
    RIG = unittest.enterModuleContext(rigs.Rig(2))
    for host in RIG.hosts:
        for folder in ("/tmp", "/dev/shm"):
            host.sh("mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", folder)
        own = host.folder / "machine-id"
        own.write_text(f"{host.number:032x}\n")
        host.sh("mount", "--bind", own, "/etc/machine-id")
    BOX = make_box(RIG.folder / "box")
    shared = pathlib.Path(unittest.enterModuleContext(tempfile.TemporaryDirectory(dir="/var/tmp")))
    shared.chmod(0o755)
    PAYLOAD = make_payload(shared)


def make_box(box):
    """A root folder that has busybox, /proc and a few devices, and none of our libraries."""
    for name in ("bin", "tmp", "proc", "dev", "etc"):
        (box / name).mkdir(parents=True)
    (box / "tmp").chmod(0o1777)
    shutil.copy(shutil.which("busybox"), box / "bin/busybox")
    for name in subprocess.run([box / "bin/busybox", "--list"], text=True, capture_output=True, check=True).stdout.split():
        if name != "busybox":
            (box / "bin" / name).symlink_to("busybox")
    (box / "etc/machine-id").write_text("b" * 32 + "\n")
    for name in ("null", "zero", "urandom"):
        (box / "dev" / name).touch()
        RIG.coordinator.sh("mount", "--bind", f"/dev/{name}", box / "dev" / name)
    RIG.coordinator.sh("mount", "-t", "proc", "proc", box / "proc")
    return box


def make_payload(folder):
    """A root folder of busybox's in a squashfs image."""
    root = folder / "root"
    (root / "bin").mkdir(parents=True)
    (root / "in-payload").touch()
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    for name in ("sh", "sleep", "cat"):
        (root / "bin" / name).symlink_to("busybox")
    image = folder / "env.sqfs"
    subprocess.run([BUILD / "virtrain", "payload", "make", root, "-o", image], check=True, capture_output=True)
    return image


def in_payload(file, arms, command, **more):
    path = job(file, arms, command, **more)
    text = json.loads(path.read_text())
    text["workload"]["payload"] = str(PAYLOAD)
    path.write_text(json.dumps(text))
    return path


def files(host=None):
    """All paths where something could be left."""
    places = ["/tmp", "/run", "/dev/shm", "/var/tmp"]
    if host is None:
        return set(RIG.coordinator.sh("find", BOX, "-path", BOX / "proc", "-prune", "-o", "-print").splitlines())
    found = host.sh("find", *places, "-path", RIG.folder, "-prune", "-o", "-print").splitlines()
    return {path for path in found if "/.virtrain-" not in path and not path.startswith("/run/virtrain")}


def processes(host):
    """Programs of ours there, and jobs'."""
    return [pid for pid in host.processes() if any(word in " ".join(rigs.command_of(pid)) for word in ("virtrain", f"sleep {DAEMON}"))
            and rigs.name_of(pid) != "sshd"]


def machine(name, user="worker", **more):
    return {"launcher": ["ssh", "-T", f"{user}@{name}"], **more}


def scenario(file, arms, nodes=1, pairs=1, **work):
    return written(file, arms, {"nodes": nodes}, {**WORK, **work}, pairs=pairs)


def job(file, arms, command, tenant=None, scope="job", launch="once", **more):
    figures = {"pattern": r"steps/s: (?P<value>[\d.]+)", "example": "steps/s: 10", "unit": "steps/s", "scope": scope}
    return written(file, arms, tenant or {"nodes": 1}, {"command": command, "launch": launch, "throughput": figures}, **more)


def written(file, arms, tenant, workload, **more):
    path = RIG.folder / file
    path.write_text(json.dumps({
        "name": "attached", "workload": workload, "guest": {"vcpus": 1, "memory": "512MiB"}, "arms": arms,
        "cases": [{"name": "c", "tenants": [tenant]}], "oversubscribe": True, "pairs": 1, **more}))
    return path


def environment(database):
    return {**os.environ, "VIRTRAIN_DB": str(RIG.folder / database), "XDG_STATE_HOME": str(RIG.folder / "state")}


def virtrain(database, *arguments):
    return RIG.run(BUILD / "virtrain", *arguments, env=environment(database), timeout=120)


def trials(database):
    with contextlib.closing(sqlite3.connect(RIG.folder / database)) as db:
        return db.execute("select arm, status, valid, virtualization, coalesce(failure_reason, invalid_reason, '') from trial order by trial_order").fetchall()


@contextlib.contextmanager
def running(database, *arguments):
    words = RIG.coordinator.words(BUILD / "virtrain", *arguments)
    with subprocess.Popen(words, env=environment(database), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            yield run
        finally:
            run.kill()


class Attach(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.before = [files(host) for host in RIG.hosts] + [files()]

    def tearDown(self):
        def is_clean():
            return [files(host) for host in RIG.hosts] + [files()] == self.before and not any(processes(host) for host in RIG.hosts)
        try:
            rigs.wait_for(is_clean, "nothing left", 20)
        except AssertionError:
            now = [files(host) for host in RIG.hosts] + [files()]
            self.assertEqual([sorted(after ^ before) for after, before in zip(now, self.before)], [[], [], []])
            self.assertEqual([[rigs.command_of(pid) for pid in processes(host)] for host in RIG.hosts], [[], []])

    def test_two_clouds_and_a_box_without_our_libraries(self):
        arms = [{"name": "cloud", "attach": [machine("gpu-a")]}, {"name": "box", "attach": [{"launcher": ["chroot", str(BOX)]}]}]
        done = virtrain("one.db", "run", scenario("one.yaml", arms, pairs=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = trials("one.db")
        self.assertEqual([(arm, status, valid) for arm, status, valid, _, _ in rows],
                         [("cloud", "finished", 1), ("box", "finished", 1), ("box", "finished", 1), ("cloud", "finished", 1)], rows)
        compared = json.loads(virtrain("one.db", "compare", "--format", "json").stdout)
        self.assertEqual([(one["baseline"], one["candidate"]) for one in compared], [("cloud", "box")])
        self.assertIn("between_machines", compared[0]["flags"])
        self.assertIn("told_from_inside", compared[0]["flags"])

    def test_a_cloud_and_bare_metal_of_this_host(self):
        arms = [{"name": "cloud", "attach": [machine("gpu-a")]}, "bare_metal"]
        done = virtrain("both.db", "run", scenario("both.yaml", arms, pairs=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[:3] for row in trials("both.db")],
                         [("cloud", "finished", 1), ("bare_metal", "finished", 1), ("bare_metal", "finished", 1), ("cloud", "finished", 1)])
        compared, = json.loads(virtrain("both.db", "compare", "--format", "json").stdout)
        self.assertEqual((compared["baseline"], compared["candidate"]), ("bare_metal", "cloud"), compared)
        self.assertIn("between_machines", compared["flags"])
        self.assertIn("different machines", virtrain("both.db", "compare").stdout)

    def test_before_and_after_a_change_of_the_platform(self):
        path = scenario("labels.yaml", [{"name": "cloud", "attach": [machine("gpu-a")]}], pairs=2)
        for label in ("before", "after"):
            done = virtrain("labels.db", "run", path, "--label", label)
            self.assertEqual(done.returncode, 0, done.stderr)
        words = ["--baseline", "label:before,arm:cloud", "--candidate", "label:after,arm:cloud"]
        compared, = json.loads(virtrain("labels.db", "compare", *words, "--format", "json").stdout)
        self.assertEqual((compared["baseline"], compared["candidate"]), ("label:before,arm:cloud", "label:after,arm:cloud"), compared)
        self.assertGreater(compared["ratio"], 0)
        self.assertNotIn("between_machines", compared["flags"])

    def test_two_nodes_talk_over_the_network_that_they_share(self):
        arms = [{"name": "pair", "attach": [machine("gpu-a", address="10.90.0.1"), machine("gpu-b", address="10.90.0.2")]}]
        done = virtrain("two.db", "run", scenario("two.yaml", arms, nodes=2))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[:3] for row in trials("two.db")], [("pair", "finished", 1)], trials("two.db"))
        with contextlib.closing(sqlite3.connect(RIG.folder / "two.db")) as db:
            self.assertEqual(db.execute("select distinct transport from transport").fetchall(), [("tcp",)])
            self.assertEqual(db.execute("select hostname from node order by name").fetchall(), [("gpu-a",), ("gpu-b",)])

    def test_commands_in_each_way(self):
        pair = [{"name": "pair", "attach": [machine("gpu-a"), machine("gpu-b")]}]
        box = [{"name": "box", "attach": [{"launcher": ["chroot", str(BOX)]}]}]
        for arms, launch, scope, nodes, figure in [
            (box, "once", "job", 1, 10), (pair, "torchrun", "node", 2, 20), (pair, "mpirun", "rank", 2, 20)]:
            with self.subTest(launch):
                done = virtrain(f"{launch}.db", "run", job("job.yaml", arms, ["sh", "-c", JOB], {"nodes": nodes}, scope, launch))
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual([row[1:3] for row in trials(f"{launch}.db")], [("finished", 1)], trials(f"{launch}.db"))
                with contextlib.closing(sqlite3.connect(RIG.folder / f"{launch}.db")) as db:
                    (throughput, unit), = db.execute("select throughput, unit from trial").fetchall()
                self.assertEqual(unit, "steps/s")
                self.assertAlmostEqual(throughput, figure, delta=0.1)

    def test_a_job_in_the_same_payload_here_and_there(self):
        arms = [{"name": "cloud", "attach": [machine("gpu-a")]}, "bare_metal"]
        done = virtrain("payload.db", "run", in_payload("payload.yaml", arms, ["sh", "-c", IN_PAYLOAD]))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([row[:3] for row in trials("payload.db")], [("cloud", "finished", 1), ("bare_metal", "finished", 1)], trials("payload.db"))
        with contextlib.closing(sqlite3.connect(RIG.folder / "payload.db")) as db:
            told = db.execute("select arm, value from v_fact where key = 'payload_sha256'").fetchall()
        digest = hashlib.sha256(PAYLOAD.read_bytes()).hexdigest()
        self.assertEqual(set(told), {("cloud", digest), ("bare_metal", digest)})

    def test_a_payload_goes_with_an_agent_or_a_coordinator_that_is_killed(self):
        host = RIG.host("gpu-a")
        arms = [{"name": "cloud", "attach": [machine("gpu-a")]}]
        path = in_payload("killed.yaml", arms, ["sh", "-c", f"sleep {DAEMON}"], pairs=2)
        with running("killed-payload.db", "run", path) as run:
            rigs.wait_for(lambda: in_job(host), "the first job runs", 40)
            os.kill(host_agent(host), signal.SIGKILL)
            rigs.wait_for(lambda: len(trials("killed-payload.db")) == 2 and in_job(host), "the second job runs", 60)
            for pid in RIG.coordinator.pids_of("virtrain"):
                os.kill(pid, signal.SIGKILL)
            run.communicate()

    def test_a_payload_that_a_machine_lacks(self):
        box = [{"name": "box", "attach": [{"launcher": ["chroot", str(BOX)]}]}]
        there = BOX / str(PAYLOAD).lstrip("/")
        other = RIG.folder / "other.sqfs"
        other.write_bytes(b"other")
        other.chmod(0o644)
        path = in_payload("none.yaml", box, ["sh", "-c", JOB])
        done = virtrain("none.db", "run", path)
        self.assertEqual(done.returncode, UNABLE, done.stderr)
        self.assertIn(f"box:1: take the payload: it cannot read {PAYLOAD} (copy the file", done.stderr)
        there.parent.mkdir(parents=True)
        try:
            shutil.copy(PAYLOAD, there)
            done = virtrain("none.db", "run", path)
            self.assertEqual(done.returncode, UNABLE, done.stderr)
            self.assertIn("it lacks unsquashfs", done.stderr)
        finally:
            shutil.rmtree(BOX / "var")
        RIG.host("gpu-b").sh("mount", "--bind", other, PAYLOAD)
        try:
            done = virtrain("none.db", "run", in_payload("none.yaml", [{"name": "cloud", "attach": [machine("gpu-b")]}], ["sh", "-c", JOB]))
        finally:
            RIG.host("gpu-b").sh("umount", PAYLOAD)
        self.assertEqual(done.returncode, UNABLE, done.stderr)
        self.assertRegex(done.stderr, "cloud:1: take the payload: its .* has the SHA-256 .*, and the one here")
        self.assertFalse((RIG.folder / "none.db").exists() and trials("none.db"))

    def test_jobs_that_never_end_or_leave_the_agent(self):
        arms = [{"name": "cloud", "attach": [machine("gpu-a")]}]
        escapes = f"env -i setsid sleep {DAEMON} >/dev/null 2>&1 &"
        done = virtrain("daemon.db", "run", job("daemon.yaml", arms, ["sh", "-c", escapes + JOB]))
        self.assertEqual(done.returncode, 0, done.stderr)
        done = virtrain("endless.db", "run", job("endless.yaml", arms, ["sh", "-c", f"{escapes} sleep {DAEMON}"], trial_timeout="3s"))
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertRegex(trials("endless.db")[0][4], "has not ended after [23]")

    def test_kills_of_either_end_fail_one_trial_each(self):
        host = RIG.host("gpu-a")
        path = scenario("kills.yaml", [{"name": "cloud", "attach": [machine("gpu-a")]}], pairs=4, steps=60)
        with running("kills.db", "run", path) as run:
            for trial, victim in enumerate(["agent", "shell", "launcher"], 1):
                rigs.wait_for(lambda n=trial: is_running("kills.db", n) and host_agent(host), f"trial {trial} runs", 40)
                if victim == "agent":
                    os.kill(host_agent(host), signal.SIGKILL)
                elif victim == "shell":
                    os.kill(parent_of(host_agent(host)), signal.SIGKILL)
                else:
                    os.kill(next(p for p in RIG.coordinator.pids_of("ssh") if "worker@gpu-a" in rigs.command_of(p)), signal.SIGKILL)
            out, err = run.communicate(timeout=60)
        self.assertEqual(run.returncode, FAILED, err)
        self.assertEqual([row[1] for row in trials("kills.db")], ["failed", "failed", "failed", "finished"], err)

    def test_a_killed_coordinator_leaves_nothing(self):
        host = RIG.host("gpu-a")
        path = scenario("killed.yaml", [{"name": "cloud", "attach": [machine("gpu-a")]}], steps=2000)
        with running("killed.db", "run", path) as run:
            rigs.wait_for(lambda: is_running("killed.db", 1) and host_agent(host), "it runs", 40)
            for pid in RIG.coordinator.pids_of("virtrain"):
                os.kill(pid, signal.SIGKILL)
            run.communicate()

    def test_an_agent_ends_without_a_sign_of_its_coordinator(self):
        folder = RIG.folder / "agents"
        folder.mkdir()
        words = RIG.coordinator.words(BUILD / "virtrain-agent", "--stdio", "--silence", "500", "--folder", folder)
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as agent:
            time.sleep(1)
            self.assertIsNone(agent.poll())  # others may be started for as long before it is spoken to
            text = json.dumps({"type": "ping", "id": 1}).encode()
            agent.stdin.write(struct.pack("<IHHII", 0x4D525456, 1, 0, len(text), 0) + text)
            agent.stdin.flush()
            self.assertEqual(agent.wait(10), 0)
        self.assertFalse(folder.exists())

    def test_a_machine_that_is_busy_fails_its_trial(self):
        holder = RIG.host("gpu-a").words("setpriv", "--pdeathsig", "KILL", sys.executable, "-c", "import socket, sys\ns = socket.socket(socket.AF_UNIX)\n"
                                         "s.bind('\\0virtrain-attached')\nprint('held', flush=True)\nsys.stdin.read()")
        with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as held:
            self.assertEqual(held.stdout.readline(), "held\n")
            done = virtrain("busy.db", "run", scenario("busy.yaml", [{"name": "cloud", "attach": [machine("gpu-a")]}]))
            held.stdin.close()
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn("another virtrain measures on it now", trials("busy.db")[0][4])

    def test_what_is_refused_before_anything_is_stored(self):
        no_key = ["ssh", "-F", "/dev/null", "-T", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "worker@gpu-a"]
        for machines, words in [
            ([machine("gpu-a"), {"launcher": ["ssh", "worker@gpu-a"]}], "one.1 and one:2 are one machine"),
            ([{"launcher": ["setarch", "i686"]}], "its architecture is i686, and this build's programs are for x86_64"),
            ([{"launcher": no_key}], "asks for a password or a key"),
            ([{"launcher": ["ssh", "-tt", "worker@gpu-b"]}], "the launcher gives a terminal"),
            ([{"launcher": ["no-such-launcher"]}], "the launcher is not installed"),
        ]:
            with self.subTest(words):
                done = virtrain("refused.db", "run", scenario("refused.yaml", [{"name": "one", "attach": machines}]))
                self.assertEqual(done.returncode, UNABLE, done.stderr)
                self.assertRegex(done.stderr, words)
                self.assertFalse((RIG.folder / "refused.db").exists() and trials("refused.db"))

    def test_what_a_machine_lacks_of_its_own(self):
        box = [{"name": "box", "attach": [{"launcher": ["chroot", str(BOX)]}]}]
        done = virtrain("lacks.db", "run", job("lacks.yaml", box, ["python3", "train.py"]))
        self.assertEqual(done.returncode, UNABLE, done.stderr)
        self.assertIn("box:1: look at the machine: it lacks python3, which workload.command starts", done.stderr)
        on_gpu = {"nodes": 1, "gpus_per_node": 1}
        if not (BUILD / "virtrain-resnet50-cuda").exists():
            return
        done = virtrain("lacks.db", "run", written("cuda.yaml", box, on_gpu, {**WORK, "backend": "cuda", "precision": "fp32"}))
        self.assertEqual(done.returncode, UNABLE, done.stderr)
        self.assertIn("its loader finds no libcuda.so.1", done.stderr)
        driver = BOX / "lib/libcuda.so.1"
        driver.parent.mkdir()
        driver.touch()
        try:
            done = virtrain("lacks.db", "run", RIG.folder / "cuda.yaml")
            self.assertEqual(done.returncode, UNABLE, done.stderr)
            self.assertIn("it has 0 GPUs (/dev/nvidia0, …), and the scenario has 1 in each node", done.stderr)
        finally:
            shutil.rmtree(driver.parent)


def is_running(database, number):
    with contextlib.suppress(sqlite3.Error):
        with contextlib.closing(sqlite3.connect(f"file:{RIG.folder / database}?mode=ro", uri=True, timeout=1)) as db:
            rows = db.execute("select t.status, (select count(*) from rank r join tenant n on r.tenant_id = n.id where n.trial_id = t.id)"
                              " from trial t order by t.id").fetchall()
            return len(rows) == number and rows[-1][0] == "running" and rows[-1][1] > 0
    return False


def in_job(host):
    return any(" ".join(rigs.command_of(pid)).split() in (["sleep", DAEMON], ["sh", "-c", "sleep", DAEMON]) for pid in host.processes())


def host_agent(host):
    found = [pid for pid in host.processes() if "--stdio" in rigs.command_of(pid) and any(w.endswith("libexec/virtrain-agent") for w in rigs.command_of(pid))]
    return found[0] if found else 0


def parent_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


if __name__ == "__main__":
    if rigs.missing():
        print(f"skipped: {rigs.missing()}")
        sys.exit(77)
    unittest.main()
