#!/usr/bin/python3
"""A trainer over MPI, a quick one in two VMs and the real one in two slices, while its network or one node goes away.

Open MPI alone hangs in most of these; the trial must fail within 20 s and no rank may be left.
"""

import functools
import os
import re
import signal
import time

import outside

WITHIN_SECONDS = 20
CASE = [{"name": "pair", "scale": {"nodes": [2]}}]


def start(folder, arm, steps):
    text = outside.scenario(arms=[arm], cases=CASE, guest={"memory": "768MiB"},
                            workload={"batch_size": 2, "image_size": 32, "steps": steps})
    return outside.Run(folder, text, program=(outside.QUICK_KIT if arm == "vm" else outside.BUILD) / "virtrain")


def links(run, prefix):
    names = [line.split(": ")[1].split("@")[0] for line in outside.sh("ip", "-o", "link").splitlines()]
    return sorted(name for name in names if name.startswith(prefix + run.experiment[-6:]))


def cut(run, arm):
    """Cuts the cable of the second node."""
    if arm == "vm":
        domain = sorted(outside.domains(run))[-1]
        tap = re.search(r"target dev='(vtt[^']+)'", outside.sh("virsh", "dumpxml", domain)).group(1)
        outside.sh("virsh", "domif-setlink", domain, tap, "down")
    else:
        outside.sh("ip", "link", "set", links(run, "vtv")[-1], "down")


def fails_in_time(run, words):
    run.wait_for("trial failed", WITHIN_SECONDS)
    assert run.end() == 6, run.log[-5:]
    (row,) = run.rows("SELECT status, failed_stage, failure_reason FROM trial")
    assert row["status"] == "failed" and re.search(words, row["failure_reason"]), row
    outside.assert_nothing_left()


def link_cut_mid_trial(arm):
    with outside.scratch() as folder:
        run = start(folder, arm, 10_000)
        run.wait_for_stage("run", 120)
        time.sleep(3)
        cut(run, arm)
        fails_in_time(run, "exit status")


def link_down_before_the_start(arm):
    with outside.scratch() as folder:
        run = start(folder, arm, 5)
        run.wait_for_stage("agent")
        cut(run, arm)
        run.wait_for_stage("place")
        fails_in_time(run, "does not reach|ended with exit status")


def agent_killed_mid_trial():
    with outside.scratch() as folder:
        run = start(folder, "bare_metal", 10_000)
        run.wait_for_stage("run", 120)
        time.sleep(3)
        agents = [int(pid) for pid in outside.sh("pgrep", "-x", "virtrain-agent").split()]
        own = {pid for pid, experiment in outside.slice_processes() if experiment == run.experiment}
        os.kill(max(own.intersection(agents)), signal.SIGKILL)
        fails_in_time(run, "is lost|exit status")


# A link that is down before the start is refused by the same questions to the agents in VMs, whose boots take minutes.
TESTS = {"link_cut_mid_trial_vm": functools.partial(link_cut_mid_trial, "vm"),
         "link_cut_mid_trial_slice": functools.partial(link_cut_mid_trial, "bare_metal"),
         "link_down_before_the_start": functools.partial(link_down_before_the_start, "bare_metal"),
         "agent_killed_mid_trial": agent_killed_mid_trial}

if __name__ == "__main__":
    outside.main(TESTS)
