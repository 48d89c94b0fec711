#!/usr/bin/python3
"""Stopped, or killed and cleaned up, wherever a run has made something that was not there before: in VMs and in slices, exit code,
database and host must be as promised. A stop at each stage is tested on a FakeHost (harness/experiment/whole_trials_test.cpp)."""

import functools
import signal
import time

import outside


def until_met(case, *arguments):
    """A stage of a slice passes in a tenth of a second, and a kill waits for the clean of the test beside it. Where the signal
    came to a run that had already ended, a case says False and is tried again. A run that never heeds the signal fails."""
    for _ in range(5):
        if case(*arguments):
            return
    raise AssertionError("five runs came to their end although they were signalled")


def has_ended(run, status, number):
    """It told the database so: a signal that ends it in its last moments takes nothing back."""
    return status == 0 or (status == -number and run.experiment_status() == "finished")


def stop(stage, arm, number):
    """Ctrl-C and SIGTERM: a clean teardown, exit code 130 or 143, the trial and the experiment interrupted."""
    with outside.scratch() as folder:
        cache = folder / "cache" if stage == "image" else None  # no image yet, so that there is one to build
        run = outside.Run(folder, outside.scenario(arms=[arm], workload={"steps": 20}), cache=cache)
        run.wait_for_stage(stage)
        run.process.send_signal(number)
        status = run.end()
        if has_ended(run, status, number):
            return False
        assert status == 128 + number, (status, run.log[-5:])
        assert run.experiment_status() == "interrupted", run.experiment_status()
        (trial,) = run.trials()
        # What collect has stored is a result, whatever comes after.
        allowed = ("finished", "interrupted") if stage in ("collect", "tear_down") else ("interrupted",)
        assert trial["status"] in allowed, trial
        outside.assert_nothing_left()
    return True


def kill(stage, arm):
    """kill -9: its virtrain-host leaves nothing, without clean; after that the experiment reads interrupted, and finished trials
    stay."""
    with outside.scratch() as folder:
        cache = folder / "cache" if stage == "image" else None
        run = outside.Run(folder, outside.scenario(arms=[arm], pairs=1, workload={"steps": 20}), cache=cache)
        run.wait_for_stage(stage)
        with outside.harm:
            run.process.kill()
            killed = run.end()
            outside.assert_nothing_left()
            status, words = outside.clean()
            assert status == 0, words
            status, words = outside.clean("--verify")
            assert status == 0, words
        if has_ended(run, killed, signal.SIGKILL):
            return False
        assert run.experiment_status() == "interrupted", run.experiment_status()
        assert all(trial["status"] in ("interrupted", "finished") for trial in run.trials()), run.trials()
    return True


def kill_host(stage, arm):
    """kill -9 of virtrain-host: its VMs and slices end with it, the run says what happened, and clean removes the rest."""
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=[arm], pairs=1, workload={"steps": 60}))
        run.wait_for_stage(stage)
        with outside.harm:
            run.kill_host()
            status = run.end()
            ends = time.monotonic() + 20
            while outside.qemu_pids(run) and time.monotonic() < ends:
                time.sleep(0.2)
            assert not outside.qemu_pids(run), "its VM lives on"
            cleaned, words = outside.clean()
            assert cleaned == 0, words
            outside.assert_nothing_left()
        if status == 0:
            return False
        assert any("virtrain-host is gone" in line for line in run.log), run.log[-5:]
        assert status in (4, 6), (status, run.log[-5:])
        assert run.experiment_status() != "running", run.experiment_status()
        assert all(trial["status"] in ("failed", "interrupted", "finished") for trial in run.trials()), run.trials()
    return True


def kill_keeps_finished_trials():
    with outside.scratch() as folder:
        run = outside.Run(folder, outside.scenario(arms=["bare_metal"], pairs=2))
        run.wait_for('"trial":2')
        run.wait_for('stage run","stage":"run"')
        with outside.harm:
            run.process.kill()
            killed = run.end()
            outside.clean()
        if has_ended(run, killed, signal.SIGKILL):
            return False
        assert [trial["status"] for trial in run.trials()] == ["finished", "interrupted"], run.trials()
    return True


def matrix():
    """Between one stage here and the next a run makes something, or does something else with it."""
    tests = {f"sigint_vm_{name}": functools.partial(until_met, stop, name, "vm", signal.SIGINT) for name in ("image", "boot", "run")}
    tests["sigterm_slice_run"] = functools.partial(until_met, stop, "run", "bare_metal", signal.SIGTERM)
    for name in ("image", "define", "boot", "agent", "run", "tear_down"):
        tests[f"sigkill_vm_{name}"] = functools.partial(until_met, kill, name, "vm")
    for name in ("define", "boot", "run", "tear_down"):
        tests[f"sigkill_slice_{name}"] = functools.partial(until_met, kill, name, "bare_metal")
    for name, arm in (("image", "vm"), ("run", "vm"), ("boot", "bare_metal"), ("run", "bare_metal")):
        tests[f"host_sigkill_{arm}_{name}"] = functools.partial(until_met, kill_host, name, arm)
    tests["kill_keeps_finished_trials"] = functools.partial(until_met, kill_keeps_finished_trials)
    return tests


if __name__ == "__main__":
    outside.main(matrix(), together=matrix())
