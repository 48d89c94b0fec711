"""Looks at a virtrain run from outside: starts it, waits for a stage, does harm, and reads virsh, ip, /proc and SQLite.

Nothing here uses virtrain's own journal to decide whether something was left behind. It only tells which live runs are
somebody else's: what was on the host before a test, and what a live run of a stranger holds, is no leftover.
"""

import concurrent.futures
import contextlib
import ctypes
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback

BUILD = pathlib.Path(os.environ.get("VIRTRAIN_BUILD", pathlib.Path(__file__).parents[2] / "build"))
KIT = pathlib.Path(os.environ.get("VIRTRAIN_FAULT_KIT", BUILD / "fault-kit"))  # the same with a fake trainer
QUICK_KIT = BUILD / "quick-kit"  # the same with one whose ranks exchange gradients over the network and compute nothing
QEMU_OF_OURS = "qemu-system.*guest=virtrain-"
STAGES = ["image", "define", "boot", "agent", "place", "barrier", "run", "collect", "tear_down"]


def sh(*words, check=True, timeout=300):  # libvirtd looks at QEMU for minutes when it starts for the first time
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout)
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.returncode}: {done.stderr}")
    return done.stdout


def scenario(**changes):
    """A scenario small enough for a fault test; keys of `workload`, `guest` and the top level may be changed."""
    doc = {
        "name": "fault",
        "workload": {"batch_size": 4, "image_size": 32, "warmup_steps": 0, "steps": 5, "display_every": 1},
        "guest": {"vcpus": 1, "memory": "512MiB"},
        "cases": [{"name": "one", "tenants": [{"nodes": 1}]}],
        "arms": ["vm"],
        "pairs": 1,
    }
    for key, value in changes.items():
        if isinstance(doc.get(key), dict):
            doc[key] = {**doc[key], **value}
        else:
            doc[key] = value
    return json.dumps(doc)  # JSON is YAML


class Run:
    """One `virtrain run` in its own process, its log read as it comes."""

    def __init__(self, folder, text, *arguments, program=None, cache=None, database=None, wait=True):
        self.folder = pathlib.Path(folder)
        self.database = pathlib.Path(database or self.folder / "results.db")
        path = self.folder / f"scenario-{time.monotonic_ns()}.yaml"
        path.write_text(text)
        # As under cron: the folders of system programs are not in it.
        environment = {**os.environ, "PATH": "/usr/bin:/bin"}
        if cache:
            environment["VIRTRAIN_CACHE_DIR"] = str(cache)
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [str(program or KIT / "virtrain"), "-v", "--log-format", "json", "run", str(path), "--db", str(self.database),
             *(["--wait"] if wait else []), *arguments],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
        self.log = []
        self.experiment = None
        self._changed = threading.Condition()
        self._out = []
        self._readers = [threading.Thread(target=self._read_log), threading.Thread(target=self._read_out)]
        for reader in self._readers:
            reader.start()

    def _read_log(self):
        for line in self.process.stderr:
            with self._changed:
                if re.fullmatch(r"\d{8}t\d{6}-[0-9a-f]{6}", line.strip()):
                    self.experiment = line.strip()
                self.log.append(line.strip())
                self._changed.notify_all()
        with self._changed:
            self.log.append("")
            self._changed.notify_all()

    def _read_out(self):
        self._out = list(self.process.stdout)

    def _waits(self):
        """For what a stranger holds: said once, and then nothing until something changes."""
        return '"message":"waiting"' in next((line for line in reversed(self.log) if line), "")

    def _starved(self):
        """Seconds for which virtrain's main thread has been ready to run while others had the cores."""
        with contextlib.suppress(OSError, IndexError):
            return int(pathlib.Path(f"/proc/{self.process.pid}/schedstat").read_text().split()[1]) * 1e-9
        return 0

    def wait_for(self, words, deadline=90, and_words=""):
        """Until a log line has these words; returns it. While the run waits for what a stranger holds, time does not count, and
        twice the deadline at most what it waits for a core."""
        ends, starved = time.monotonic() + deadline, self._starved()
        seen = 0
        with self._changed:
            while True:
                for line in self.log[seen:]:
                    if words in line and and_words in line:
                        return line
                if self._waits():
                    ends = time.monotonic() + deadline
                seen = len(self.log)
                left = ends + min(max(self._starved() - starved, 0), 2 * deadline) - time.monotonic()
                if left <= 0 or (self.log and self.log[-1] == "" and self.process.poll() is not None):
                    raise AssertionError(f"no log line says {words!r}:\n" + "\n".join(self.log[-30:]))
                self._changed.wait(min(left, 1))

    def wait_for_stage(self, stage, deadline=90, trial=None):
        return self.wait_for(f'"stage {stage}"', deadline, f'"trial":{trial}}}' if trial else "")

    def end(self, silent=90):
        """Exit status; the run must end by itself, and before it has said nothing for so many seconds (a stage takes as long as a
        busy host lets it)."""
        said, ends = len(self.log), time.monotonic() + silent
        while True:
            try:
                status = self.process.wait(1)
                break
            except subprocess.TimeoutExpired:
                if len(self.log) > said or self._waits():
                    said, ends = len(self.log), time.monotonic() + silent
                if time.monotonic() > ends:
                    self.process.kill()
                    raise AssertionError("virtrain hangs:\n" + "\n".join(self.log[-30:])) from None
        for reader in self._readers:
            reader.join()
        self.seconds = time.monotonic() - self.began
        return status

    def kill_host(self):
        """kill -9 of its virtrain-host, and of the one that supervises that."""
        killed = [pid for pid in below(self.process.pid) if name_of(pid) == "virtrain-host"]
        assert killed, "it has no virtrain-host"
        for pid in reversed(killed):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    @property
    def output(self):
        return "".join(self._out)

    def rows(self, sql):
        with contextlib.closing(sqlite3.connect(self.database)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql)]

    def trials(self):
        return self.rows("SELECT * FROM v_trial ORDER BY trial_order")

    def experiment_status(self):
        return self.rows("SELECT status FROM experiment")[-1]["status"]


def domains(run=None):
    """Of one run, or of all."""
    prefix = f"virtrain-{run.experiment}-" if run else "virtrain-"
    return [name for name in sh("virsh", "-q", "list", "--all", "--name", check=False).split() if name.startswith(prefix)]


def qemu_pids(run):
    return [int(pid) for pid in sh("pgrep", "-f", f"{QEMU_OF_OURS}{run.experiment}-", check=False).split()]


def slice_processes():
    """Everything a slice's helper started carries this variable; other tests' agents and trainers do not."""
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            environment = dict(word.partition(b"=")[::2] for word in (folder / "environ").read_bytes().split(b"\0"))
            if b"VIRTRAIN_SLICE" in environment:
                yield int(folder.name), environment.get(b"VIRTRAIN_EXPERIMENT", b"").decode()


def leftovers():
    """Everything of virtrain's that is still on this host, by the host's own words."""
    found = [f"domain {name}" for name in domains()]
    found += [f"network {n}" for n in sh("virsh", "-q", "net-list", "--all", "--name", check=False).split() if n.startswith("virtrain-")]
    found += [f"qemu {words}" for words in sh("pgrep", "-a", "-f", QEMU_OF_OURS, check=False).splitlines()]
    for line in sh("ip", "-o", "link").splitlines():
        name = line.split(": ")[1].split("@")[0]
        if name.startswith("vt"):
            found.append(f"link {name}")
    found += [f"netns {line.split()[0]}" for line in sh("ip", "netns").splitlines() if line.startswith("vt-")]
    found += [f"process {pid} of a slice of {experiment}" for pid, experiment in slice_processes()]
    for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuset"]:
        found += [f"cgroup {path}" for path in pathlib.Path(root).glob("**/vt-*") if path.is_dir()]
    return found


def name_of(pid):
    with contextlib.suppress(OSError):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def below(pid):
    """Descendants of a process, parents first."""
    children = [int(child) for child in sh("pgrep", "-P", str(pid), check=False).split()]
    return [one for child in children for one in (child, *below(child))]


def start_time(pid):
    with contextlib.suppress(OSError):
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return None


JOURNAL = pathlib.Path("/var/lib/virtrain/leases.db")


def living():
    """Ids and tags of experiments whose virtrain lives, a stranger's or of a test beside this one."""
    names = set()
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{JOURNAL}?mode=ro", uri=True, timeout=5)) as journal:
        for pid, began, experiment in journal.execute("SELECT pid, start_time, experiment FROM owner"):
            if start_time(pid) == began:
                names |= {experiment, experiment[-6:]}
    return names


def die_with_us():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


@contextlib.contextmanager
def stranger():
    """Another virtrain at work on this host while the tests run: an owner in the journal that lives, and of it a bridge, a
    network namespace, a process of a slice and one that looks like a VM of a libvirt that is not ours. All of it must
    still be there when the tests have ended."""
    experiment = "20260101t000000-c0ffee"
    bridge, namespace, words = "vtbc0ffee0", "vt-c0ffee-1", f"guest=virtrain-{experiment}-1,debug-threads=on"
    clean()  # makes the journal, and takes away what a killed test's stranger has left
    with tempfile.TemporaryDirectory(prefix="virtrain-stranger-") as folder:
        qemu = pathlib.Path(folder) / "qemu-system-stranger"
        shutil.copy("/bin/bash", qemu)
        sleeps = ["-c", "read -t 7200 <> <(:)"]
        owner, of_a_slice, vm = processes = [
            subprocess.Popen([program, *sleeps, *more], stdin=subprocess.DEVNULL, preexec_fn=die_with_us, env={**os.environ, **environment})
            for program, more, environment in (
                ("/bin/bash", [], {}), ("/bin/bash", [], {"VIRTRAIN_SLICE": "1", "VIRTRAIN_EXPERIMENT": experiment}), (qemu, [words], {}))]
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        with contextlib.closing(sqlite3.connect(JOURNAL, timeout=30)) as journal, journal:
            journal.execute("INSERT INTO owner (pid, start_time, boot_id, experiment, results_db) VALUES (?, ?, ?, ?, '')",
                            (owner.pid, start_time(owner.pid), boot, experiment))
        try:
            sh("ip", "link", "add", bridge, "type", "bridge")
            pathlib.Path(f"/sys/class/net/{bridge}/ifalias").write_text(f"virtrain:{experiment}")
            sh("ip", "netns", "add", namespace)
            yield
            gone = [name for name, process in (("owner", owner), ("slice", of_a_slice), ("vm", vm)) if process.poll() is not None]
            gone += [bridge] if not pathlib.Path(f"/sys/class/net/{bridge}").exists() else []
            gone += [namespace] if namespace not in sh("ip", "netns") else []
            assert not gone, f"of the stranger's this was taken away: {gone}"
        finally:
            for process in processes:
                process.kill()
                process.wait()
            sh("ip", "link", "del", bridge, check=False)
            sh("ip", "netns", "del", namespace, check=False)
            with contextlib.closing(sqlite3.connect(JOURNAL, timeout=30)) as journal, journal:
                journal.execute("DELETE FROM owner WHERE experiment = ?", (experiment,))


def left(before=()):
    """Leftovers that were not there before and that no live run holds."""
    found = [item for item in leftovers() if item not in before]
    others = living() if found else set()
    return [item for item in found if not any(name in item for name in others)]


def assert_nothing_left(within=30, before=None):
    """Processes may need a moment to be reaped; anything beyond that is a leak."""
    before = _before.items if before is None else before
    ends = time.monotonic() + within
    while (found := left(before)) and time.monotonic() < ends:
        time.sleep(0.2)
    assert not found, found


_before = threading.local()  # what was on the host when this thread's test began
harm = threading.RLock()  # held from a kill -9 until clean has been, by tests that run side by side


def clean(*arguments):
    done = subprocess.run([str(KIT / "virtrain"), "clean", *arguments], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@contextlib.contextmanager
def scratch():
    """A folder of its own, removed afterwards; and nothing of virtrain's may come to the host to stay."""
    with harm:
        _before.items = set(leftovers())
    folder = tempfile.mkdtemp(prefix="virtrain-fault-")
    os.chmod(folder, 0o755)
    try:
        yield pathlib.Path(folder)
        assert_nothing_left()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def small_disk(folder, size):
    """A file system of that size, and how to fill it up: with the file `filler`."""
    small = folder / "small"
    small.mkdir()
    sh("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(small))
    try:
        yield small, lambda: subprocess.run(["dd", "if=/dev/zero", f"of={small}/filler", "bs=4k"], capture_output=True, check=False)
    finally:
        sh("umount", str(small))


def daemon_pid(name):
    """Of the system's own daemon of that name, as its pid file has it; other users and containers have theirs."""
    for folder in ("/run", "/run/libvirt"):
        with contextlib.suppress(OSError, ValueError):
            pid = int(pathlib.Path(folder, f"{name}.pid").read_text())
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return pid
    return None


@contextlib.contextmanager
def daemons():
    """libvirt runs throughout, as where there is systemd: that virtrain starts and stops it is for other tests to see, and
    takes each run and each clean seconds."""
    started = []
    for name in ("virtlogd", "libvirtd"):
        if not daemon_pid(name):
            sh(f"/usr/sbin/{name}", "-d")
            started.append(name)
    try:
        yield
    finally:
        for name in reversed(started):
            if pid := daemon_pid(name):
                os.kill(pid, signal.SIGTERM)
            ends = time.monotonic() + 60
            while daemon_pid(name) and time.monotonic() < ends:  # the next test would take it for one that stays
                time.sleep(0.1)


def run_test(name, test):
    """Whether it passed; a line says so."""
    began = time.monotonic()
    try:
        test()
    except Exception:
        print(f"FAIL {name} ({time.monotonic() - began:.1f} s)\n{traceback.format_exc()}", flush=True)
        with harm:
            clean()
        return False
    print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    return True


def main(tests, together=(), keep_libvirt=True):
    """Runs the named tests (all without arguments), those in `together` two at a time; exit status 1 if one failed."""
    if os.geteuid() != 0:
        print("SKIP: virtual machines and slices need root")
        sys.exit(77)
    chosen = sys.argv[1:] or sorted(tests)
    workers = min(2, len(os.sched_getaffinity(0)))
    with (daemons() if keep_libvirt else contextlib.nullcontext(), stranger(),
          concurrent.futures.ThreadPoolExecutor(workers) as pool):
        passed = list(pool.map(lambda name: run_test(name, tests[name]), [name for name in chosen if name in together]))
        passed += [run_test(name, tests[name]) for name in chosen if name not in together]
    sys.exit(0 if all(passed) else 1)
