#!/usr/bin/python3
"""Runs without root's privileges (docs/hosts.md): an ordinary user's in namespaces, and root's in a container that gives it
no capability, each with real VMs and slices; and that a killed one leaves no VM."""

import os
import pathlib
import pwd
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["VIRTRAIN_BUILD"])
KIT = pathlib.Path(os.environ["VIRTRAIN_FAULT_KIT"])
PROGRAMS = ["virtrain", "virtrain-agent", "virtrain-host", "virtrain-rsh", "virtrain-slice", "virtrain-guest-init"]
NOBODY = pwd.getpwnam("nobody")
AS_NOBODY = ["setpriv", f"--reuid={NOBODY.pw_uid}", f"--regid={NOBODY.pw_gid}", "--clear-groups"]
# What Docker leaves out by default, as far as virtrain would use it.
WITHOUT_CAPABILITIES = ["setpriv", "--bounding-set=-net_admin,-sys_admin", "--inh-caps=-net_admin,-sys_admin"]
SCENARIO = """
name: modes
workload: {{backend: cpu, batch_size: 2, image_size: 32, warmup_steps: 0, steps: 1}}
guest: {{vcpus: 1, memory: 768MiB, pinning: cores}}
cases: [{cases}]
arms: [{arms}]
pairs: 1
"""
CASES = {
    "one": "{name: one, tenants: [{nodes: 1}]}",
    "together": "{name: together, tenants: [{nodes: 2}]}",
    "two_tenants": "{name: two_tenants, tenants: [{nodes: 1}, {nodes: 1}]}",
}


class Place:
    """Programs and folders that any user can reach."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="virtrain-modes-"))
        self.folder.chmod(0o755)
        for program in PROGRAMS:
            shutil.copy(BUILD / program, self.folder)
        self.take_trainer(KIT)
        self.home = self.folder / "home"
        self.home.mkdir()
        os.chown(self.home, NOBODY.pw_uid, NOBODY.pw_gid)

    def take_trainer(self, kit):
        """One that sleeps its steps, or one whose ranks exchange gradients."""
        shutil.copy(kit / "virtrain-resnet50-cpu", self.folder)

    def scenario(self, cases, arms):
        file = self.folder / f"{'-'.join(cases)}-{len(arms)}.yaml"
        file.write_text(SCENARIO.format(cases=", ".join(CASES[case] for case in cases), arms=", ".join(arms)))
        return file

    def environment(self, user):
        home = self.home if user == "nobody" else self.folder / "root"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        return {**kept, "HOME": str(home), "VIRTRAIN_STATE_DIR": str(home / "state"), "VIRTRAIN_CACHE_DIR": str(home / "cache")}

    def start(self, user, *words):
        before = AS_NOBODY if user == "nobody" else WITHOUT_CAPABILITIES
        return subprocess.Popen([*before, str(self.folder / "virtrain"), *map(str, words)], text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, cwd=self.folder, env=self.environment(user))

    def run(self, user, *words):
        process = self.start(user, *words)
        try:
            output = process.communicate(timeout=900)[0]
        except subprocess.TimeoutExpired:
            process.terminate()
            raise AssertionError(process.communicate()[0]) from None
        return process.returncode, output


def rows(database, sql):
    with sqlite3.connect(database) as connection:
        return connection.execute(sql).fetchall()


def vms_of(state):
    """QEMUs whose console goes below this folder."""
    return subprocess.run(["pgrep", "-f", f"qemu-system.*{state}"], capture_output=True, text=True).stdout.split()


def test_a_user_runs_vms_and_isolated_slices_in_namespaces(place):
    status, words = place.run("nobody", "doctor", place.scenario(["one"], ["bare_metal", "vm"]))
    if status == 4 and "user namespace" in words:
        print(f"SKIP: this host allows no user namespaces: {words}")
        sys.exit(77)
    assert status == 0 and "in mode namespaces" in words, words
    database = place.home / "namespaces.db"
    status, words = place.run("nobody", "run", place.scenario(["one"], ["bare_metal", "vm"]), "--db", database, "--wait")
    assert status == 0 and "2 trials finished, 0 failed" in words, words
    trials = rows(database, "SELECT arm, status, valid FROM v_trial ORDER BY arm")
    assert trials == [("bare_metal", "finished", 1), ("vm", "finished", 1)], trials
    assert vms_of(place.home) == []


def test_root_without_capabilities_runs_vms_together_and_two_tenants(place):
    """Two VMs train over a multicast network; two tenants have a VM each, and beside them processes that share the host."""
    place.take_trainer(BUILD / "quick-kit")
    database = place.folder / "session.db"
    scenario = place.scenario(["together", "two_tenants"], ["bare_metal_shared", "vm"])
    status, words = place.run("root", "run", scenario, "--mode", "session", "--db", database, "--wait")
    assert status == 0 and "4 trials finished, 0 failed" in words, words
    trials = rows(database, 'SELECT "case", arm, valid FROM v_trial ORDER BY "case", arm')
    assert trials == [(case, arm, 1) for case in ("together", "two_tenants") for arm in ("bare_metal_shared", "vm")], (
        trials, rows(database, "SELECT invalid_reason FROM v_trial"))
    transports = rows(database, """SELECT DISTINCT n.transport FROM tenant n JOIN trial t ON t.id = n.trial_id
                                   WHERE t.arm = 'vm' AND n.nodes = 2""")
    assert transports == [("tcp",)], transports
    media = rows(database, "SELECT value FROM fingerprint WHERE key = 'network_medium'")
    assert media.count(("shared_medium",)) >= 2, media
    assert vms_of(place.folder) == []


def test_what_needs_more_is_refused_in_words(place):
    status, words = place.run("root", "run", place.scenario(["one"], ["bare_metal", "vm"]), "--mode", "session")
    assert status == 4, (status, words)
    assert "arm bare_metal isolates its slices with namespaces, which mode session cannot make" in words, words
    assert "bare_metal_shared" in words, words


def folders_of_nobodys_libvirt():
    return {folder for folder in pathlib.Path("/tmp").glob("vt-*") if folder.stat().st_uid == NOBODY.pw_uid}


def start_vm(place, database):
    process = place.start("nobody", "run", place.scenario(["one"], ["vm"]), "--mode", "session", "--db", database, "--wait")
    ends = time.monotonic() + 200
    while not vms_of(place.home) and time.monotonic() < ends:
        time.sleep(0.2)
    assert vms_of(place.home), process.communicate()[0]
    return process


def hosts_of(process):
    """Its virtrain-host, and the one below that, which the first supervises."""
    found, parents = [], [process.pid]
    while parents:
        done = subprocess.run(["pgrep", "-x", "-P", ",".join(map(str, parents)), "virtrain-host"], capture_output=True, text=True, check=False)
        parents = [int(pid) for pid in done.stdout.split()]
        found += parents
    return found


def test_a_killed_run_leaves_nothing(place):
    strangers = folders_of_nobodys_libvirt()
    process = start_vm(place, place.home / "killed.db")
    process.kill()
    process.communicate(timeout=60)  # its virtrain-host has the same standard error, and tears down
    assert vms_of(place.home) == []
    assert folders_of_nobodys_libvirt() <= strangers, "its libvirt's folder is left"
    status, words = place.run("nobody", "clean")
    assert status == 0, words
    assert rows(place.home / "killed.db", "SELECT status FROM experiment") == [("interrupted",)]


def test_a_killed_host_process_leaves_no_vm(place):
    strangers = folders_of_nobodys_libvirt()
    process = start_vm(place, place.home / "host.db")
    supervisor, host = hosts_of(process)
    os.kill(host, signal.SIGKILL)
    words = process.communicate(timeout=60)[0]
    assert process.returncode in (4, 6) and "virtrain-host is gone" in words, (process.returncode, words)
    assert vms_of(place.home) == [] and not pathlib.Path(f"/proc/{supervisor}").exists()
    status, words = place.run("nobody", "clean")
    assert status == 0, words
    assert folders_of_nobodys_libvirt() <= strangers, words


def main():
    if os.geteuid() != 0:
        print("SKIP: becoming other users needs root")
        sys.exit(77)
    place = Place()
    try:
        for name, test in sorted(globals().items()):
            if name.startswith("test_"):
                began = time.monotonic()
                test(place)
                print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
    finally:
        shutil.rmtree(place.folder, ignore_errors=True)


main()
