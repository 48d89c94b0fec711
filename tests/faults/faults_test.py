#!/usr/bin/python3
"""Each named fault with real processes: the trial fails in words, what was measured stays, nothing is left."""

import contextlib
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import time

import outside

WITHIN_SECONDS = 20  # from the fault to the failed trial


def failed_trial(run):
    rows = run.rows("SELECT status, failed_stage, failure_reason, console_tail FROM trial")
    assert rows and rows[-1]["status"] == "failed", rows
    return rows[-1]


def trainer_floods_in_vm():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(workload={"env": {"FAULT": "flood"}}))
        assert run.end() == 6, run.log[-5:]
        trial = failed_trial(run)
        assert "output that is not the protocol" in trial["failure_reason"], trial
        assert trial["failed_stage"] == "run", trial


def guest_never_boots():
    """A root image of zeros: init cannot mount it, the kernel panics, and its last words are in the error."""
    with outside.scratch() as folder:
        cache = folder / "cache"
        maker = outside.Run(folder, outside.scenario(), cache=cache)
        maker.wait_for("guest image ready")
        maker.process.terminate()
        assert maker.end() == 128 + signal.SIGTERM, maker.log[-5:]
        (root,) = cache.glob("images/*/root")
        size = root.stat().st_size
        root.chmod(0o644)
        with open(root, "r+b") as image:
            image.truncate(0)
            image.truncate(size)
        run = outside.Run(folder, outside.scenario(boot_timeout="30s"), cache=cache)
        assert run.end() == 6, run.log[-5:]
        trial = failed_trial(run)
        assert trial["failed_stage"] == "agent", trial
        assert "virtrain-guest-init" in trial["failure_reason"], trial


def guest_dies_mid_trial():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(workload={"steps": 200}))
        run.wait_for_stage("run")
        time.sleep(2)
        for pid in outside.qemu_pids(run):
            os.kill(pid, signal.SIGKILL)
        run.wait_for("trial failed", WITHIN_SECONDS)
        assert run.end() == 6
        assert "is lost" in failed_trial(run)["failure_reason"]
        assert run.rows("SELECT count(*) AS n FROM sample")[0]["n"] > 0


def agent_goes_silent():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(workload={"steps": 200}))
        run.wait_for_stage("run")
        for pid in outside.qemu_pids(run):
            os.kill(pid, signal.SIGSTOP)
        run.wait_for("trial failed", WITHIN_SECONDS)
        assert run.end() == 6
        assert "silent" in failed_trial(run)["failure_reason"]


def libvirtd_stops_mid_trial():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(workload={"steps": 200}))
        run.wait_for_stage("run")
        time.sleep(1)
        os.kill(outside.daemon_pid("libvirtd"), signal.SIGKILL)
        run.wait_for("trial failed", WITHIN_SECONDS)
        assert run.end() == 6, run.log[-5:]
        failed_trial(run)
        # virtrain started a daemon to remove its VM and stopped it again.
        assert not outside.qemu_pids(run)


def disk_full_under_the_database():
    with outside.scratch() as folder, outside.small_disk(folder, "512k") as (small, fill):
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], pairs=40, workload={"steps": 10}), database=small / "r.db")
        run.wait_for_stage("run")
        fill()
        status = run.end()
        assert status == 4, (status, run.log[-5:])
        assert any("full" in line for line in run.log), run.log[-5:]
        outside.assert_nothing_left()
        (small / "filler").unlink()
        assert run.rows("PRAGMA integrity_check")[0]["integrity_check"] == "ok"
        assert run.trials(), "the trial's row was there before the disk was full"
        # The run could not store its own end; what it left in the journal has clean do it.
        outside.clean()
        assert run.experiment_status() == "interrupted"
        assert all(trial["status"] in ("finished", "interrupted") for trial in run.trials()), run.trials()


def disk_full_while_vms_wait_for_their_next_trial():
    """Of both the slice of the trial and the VM that waits (reuse: case) nothing is left."""
    text = outside.scenario(arms=["bare_metal", "vm"], pairs=3, reuse="case", workload={"steps": 10})
    with outside.scratch() as folder, outside.small_disk(folder, "4m") as (small, fill):
        run = outside.Run(folder, text, database=small / "r.db")
        run.wait_for_stage("run", 180, trial=4)  # B V, V B, B V: on bare metal while the VM waits
        bridges = list(pathlib.Path("/sys/class/net").glob(f"vtb{run.experiment[-6:]}*"))
        assert outside.domains(run) and len(bridges) == 2, "each on its own bridge"
        fill()
        assert run.end() == 4, run.log[-5:]
        outside.assert_nothing_left()


def clean_marks_an_experiment_once_its_database_can_be_written():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 200}))
        run.wait_for_stage("run")
        run.process.kill()
        run.end()
        with contextlib.closing(sqlite3.connect(run.database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            status, words = outside.clean()
        assert status == 6 and "could not be marked" in words and "nothing is left over" not in words, words
        outside.assert_nothing_left()
        assert run.experiment_status() == "running"
        status, words = outside.clean()
        assert status == 0, words
        assert run.experiment_status() == "interrupted"
        assert [trial["status"] for trial in run.trials()] == ["interrupted"]
        assert "interrupted" not in outside.clean()[1], "it is forgotten"


def clean_forgets_an_experiment_whose_database_is_gone():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 200}))
        run.wait_for_stage("run")
        run.process.kill()
        run.end()
        run.database.unlink()
        assert "its database is gone" in outside.clean()[1]
        assert "its database is gone" not in outside.clean()[1]


def second_harness_is_told_busy_or_waits():
    with outside.scratch() as folder:
        all_cores = {"vcpus": len(os.sched_getaffinity(0))}
        first = outside.Run(folder, outside.scenario(arms=["bare_metal"], guest=all_cores, workload={"steps": 40}))
        first.wait_for_stage("run")
        small = outside.scenario(arms=["bare_metal"])
        second = outside.Run(folder, small, database=folder / "second.db", wait=False)
        assert second.end() == 75, second.log
        stopped = outside.Run(folder, small, database=folder / "stopped.db")
        stopped.wait_for("waiting")
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.end() == 143, stopped.log
        third = outside.Run(folder, small, database=folder / "third.db")
        assert first.end() == 0
        assert third.end() == 0, third.log[-5:]
        assert third.seconds > 2
        waits = [json.loads(line)["for"] for line in third.log if '"message":"waiting"' in line]
        assert all(one != after for one, after in itertools.pairwise(waits)), waits


def two_harnesses_share_a_host_with_cores_for_both():
    if len(os.sched_getaffinity(0)) < 2:
        return
    with outside.scratch() as folder:
        first = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 40}))
        first.wait_for_stage("run")
        second = outside.Run(folder, outside.scenario(arms=["bare_metal"]), database=folder / "second.db")
        assert second.end() == 0, second.log[-5:]
        assert first.end() == 0, first.log[-5:]
        cores = [run.rows("SELECT cpuset_read_back FROM node")[0]["cpuset_read_back"] for run in (first, second)]
        assert cores[0] != cores[1], cores


def a_closed_terminal_stops_the_run_and_nohup_does_not():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 200}))
        run.wait_for_stage("run")
        run.process.send_signal(signal.SIGHUP)
        assert run.end() == 129, run.log[-5:]
        assert run.experiment_status() == "interrupted"
        ignored = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            run = outside.Run(folder, outside.scenario(arms=["bare_metal"]), database=folder / "nohup.db")
        finally:
            signal.signal(signal.SIGHUP, ignored)
        run.wait_for_stage("run")
        run.process.send_signal(signal.SIGHUP)
        assert run.end() == 0, run.log[-5:]


def kept_vm_serves_all_trials_of_its_case():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(pairs=2, reuse="case"))
        assert run.end() == 0, run.log[-5:]
        boots = run.rows("SELECT guest_boot_id, domain_uuid FROM node")
        assert len(boots) == 2 and boots[0] == boots[1], boots
        assert all(trial["valid"] for trial in run.trials()), run.trials()


def nothing_grows_over_many_trials():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], pairs=12, workload={"steps": 1}))
        seen = []
        for trial in (3, 12):
            run.wait_for(f'"trial":{trial}}}')
            status = pathlib.Path(f"/proc/{run.process.pid}")
            seen.append((len(os.listdir(status / "fd")), len(os.listdir(status / "task"))))
        assert run.end() == 0, run.log[-5:]
        assert seen[1][0] <= seen[0][0] + 4 and seen[1][1] <= seen[0][1] + 1, seen


def lost_qemu(folder, *wrapper):
    """A process that looks like the QEMU of a domain that libvirt has forgotten."""
    program = folder / "qemu-system-fake"
    if not program.exists():
        shutil.copy("/bin/bash", program)
    process = subprocess.Popen([*wrapper, program, "-c", "read -t 600 <> <(:)", "guest=virtrain-20260101t000000-01ea4e-1,x"])
    while outside.sh("pgrep", "-c", "-f", "guest=virtrain-20260101t000000-01ea4e-1", check=False).strip() == "0":
        time.sleep(0.01)
    return process


def a_containers_vms_are_left_alone():
    """Its libvirt knows them, ours does not."""
    with outside.scratch() as folder:
        theirs = lost_qemu(folder, "unshare", "--pid", "--fork", "--kill-child")
        try:
            assert outside.clean("--verify")[0] == 0
            assert outside.clean()[0] == 0
            assert theirs.poll() is None
        finally:
            theirs.kill()
            theirs.wait()
        ours = lost_qemu(folder)
        try:
            status, words = outside.clean("--verify")
            assert status == 6 and "which libvirt does not know" in words, words
            assert outside.clean()[0] == 0
            assert ours.wait(5) == -signal.SIGKILL
        finally:
            ours.kill()


def planted_leaks_are_found_and_removed():
    with outside.scratch() as folder:
        outside.sh("ip", "link", "add", "vtb01ea4e0", "type", "bridge")
        outside.sh("ip", "netns", "add", "vt-01ea4e-1")
        try:
            status, words = outside.clean("--verify")
            assert status == 6 and "vtb01ea4e0" in words and "vt-01ea4e-1" in words, words
            status, words = outside.clean()
            assert status == 0, words
            outside.assert_nothing_left()
            assert outside.clean("--verify")[0] == 0
        finally:
            outside.sh("ip", "link", "del", "vtb01ea4e0", check=False)
            outside.sh("ip", "netns", "del", "vt-01ea4e-1", check=False)


def clean_leaves_a_live_run_alone():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 30}))
        run.wait_for_stage("run")
        (bridge,) = pathlib.Path("/sys/class/net").glob(f"vtb{run.experiment[-6:]}*")
        assert (bridge / "ifalias").read_text().strip() == f"virtrain:{run.experiment}"
        status, words = outside.clean()
        assert status == 0, words
        assert run.end() == 0, run.log[-5:]


@contextlib.contextmanager
def own_state(folder):
    """A state folder of the test's own, whose journal it may lose."""
    state = folder / "state"
    state.mkdir()
    os.environ["VIRTRAIN_STATE_DIR"] = str(state)
    try:
        yield state
    finally:
        del os.environ["VIRTRAIN_STATE_DIR"]


def clean_of_one_experiment_removes_all_of_its_slices():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], workload={"steps": 200}))
        run.wait_for_stage("run")
        with outside.harm:
            run.process.send_signal(signal.SIGSTOP)
            run.kill_host()  # which would have undone all of it by itself
            run.process.kill()
            run.end()
            status, words = outside.clean("--experiment", run.experiment)
        assert status == 0 and "netns" in words, words
        outside.assert_nothing_left()
        assert run.experiment_status() == "interrupted"


def clean_works_without_the_journal():
    with outside.scratch() as folder, own_state(folder) as state:
        run = outside.Run(folder, outside.scenario(workload={"steps": 200}))
        run.wait_for_stage("run")
        run.process.kill()
        run.end()
        journals = list(state.glob("leases.db*"))
        assert journals, "the run has none there"
        for journal in journals:
            journal.unlink()
        status, words = outside.clean("--verify")
        assert status == 6, words
        status, words = outside.clean("--experiment", "20260101t000000-01ea4e")
        assert (status, words) == (0, "nothing is left over\n"), words
        status, words = outside.clean("--experiment", run.experiment, "--db", str(run.database))
        assert status == 0, words
        assert run.experiment_status() == "interrupted", words


# One VM or slice each, and nothing else of the host: two of them run at a time.
TOGETHER = (trainer_floods_in_vm, guest_never_boots, guest_dies_mid_trial, agent_goes_silent,
            disk_full_while_vms_wait_for_their_next_trial, kept_vm_serves_all_trials_of_its_case, nothing_grows_over_many_trials)
ALONE = (
    disk_full_under_the_database, clean_marks_an_experiment_once_its_database_can_be_written,
    clean_forgets_an_experiment_whose_database_is_gone, second_harness_is_told_busy_or_waits,
    two_harnesses_share_a_host_with_cores_for_both, a_closed_terminal_stops_the_run_and_nohup_does_not,
    a_containers_vms_are_left_alone, planted_leaks_are_found_and_removed, clean_leaves_a_live_run_alone, clean_works_without_the_journal,
    clean_of_one_experiment_removes_all_of_its_slices, libvirtd_stops_mid_trial)

if __name__ == "__main__":
    outside.main({test.__name__: test for test in (*TOGETHER, *ALONE)}, {test.__name__ for test in TOGETHER})
