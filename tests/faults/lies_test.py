#!/usr/bin/python3
"""What a lying guest can do to the coordinator: each lie of lying_agent.cpp, one a row of LIES, told by the nodes of a FakeHost; and
one by a real VM.

In each row the trial fails or is invalid in words, the experiment goes on to an honest trial that is valid, the coordinator
needs less than 300 MB, and Ctrl-C ends it within 2 seconds.
"""

import contextlib
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time

import outside

KIT = pathlib.Path(os.environ.get("VIRTRAIN_LIES_KIT", outside.BUILD / "lies-kit"))
outside.KIT = KIT  # whose virtrain cleans up
MOST_MEMORY_KIB = 300 * 1000
MOST_SECONDS = 2.0

# lie: (what becomes of its trial, words of the reason)
LIES = {
    # floods of each kind of message and record
    "hello_flood": ("failed", "sends its hello twice"),
    "sample_flood": ("failed", "a sample of step 1 after one of step 1"),
    "telemetry_flood": ("failed", "it sent more than 180 telemetry messages"),
    "rsh_flood": ("failed", "it sent more than 256 remote shells"),
    "rsh_to_nowhere": ("failed", "it sent more than 256 remote shells"),
    "rsh_output": ("failed", "it reads too little: more than 4MiB wait for it"),
    "line_flood": ("failed", "the trainer wrote more than 8MiB of output that is not the protocol"),
    "empty_lines": ("failed", "the trainer wrote more than 8MiB of output that is not the protocol"),
    "progress_flood": ("failed", "rank 0 wrote more than 8MiB of records other than samples"),
    "announce_flood": ("failed", "it sent more than 4 announcements"),
    "message_flood": ("failed", "it sent more than 50000 messages"),
    # what is deep, huge or no number
    "deep_frame": ("failed", "nested deeper than 16 levels"),
    "deep_record": ("failed", "a record is not a JSON object"),
    "deep_probe": ("valid", ""),
    "probe_unit": ("valid", ""),
    "huge_facts": ("failed", "'kernel' is neither a short text nor a number"),
    "huge_images": ("failed", "where all steps have 20"),
    "huge_seconds": ("failed", "'seconds' must be a positive finite number of at most"),
    "huge_speed": ("invalid", "says 1e+308 images/s where its samples show "),
    "twice_the_speed": ("invalid", " images/s where its samples show "),
    "fast_samples": ("invalid", "since the barrier|of the host's clock"),
    "many_images": ("invalid", "counts 40 images where 20 were planned"),
    "nan": ("failed", "a record is not a JSON object"),
    "loss_unknown": ("invalid", "has no finite loss"),
    "no_images": ("failed", "'images' must be a whole number of at least 1"),
    "hello_of_nobody": ("failed", "'size' must be a whole number of at least 1"),
    "result_fields": ("failed", "'peak_rss_bytes' must be a whole number of at least 0|'step_seconds_p50'"),
    # clocks
    "negative_clock": ("failed", "'t_ns' must be a whole number of at least 0"),
    "far_clock": ("failed", "which is more than 1 h from now"),
    "clock_of_yesterday": ("invalid", "dates a sample 60"),
    "telemetry_clock": ("failed", "which is more than 1 h from now"),
    "pong_clock": ("failed", "which is more than 1 h from now"),
    # names
    "fact_without_name": ("failed", "'' is not a name"),
    "facts_of_zero": ("failed", "'boot_id' must be text"),
    "metric_without_name": ("failed", "'' is not a name"),
    "metric_names": ("failed", "is not a name"),
    "escapes": ("invalid", "ran on "),
}
OTHER_NODE = {"rsh_flood": "honest", "rsh_to_nowhere": "honest", "rsh_output": "shell_flood"}


def nodes_of(lie):
    return [lie, OTHER_NODE[lie]] if lie in OTHER_NODE else [lie]


class LyingRun(outside.Run):
    """virtrain among liars, whose memory is watched."""

    def __init__(self, folder, lies, pairs=1, **changes):
        cases = [{"name": name, "tenants": [{"nodes": len(nodes_of(name))}]} for name in lies]
        os.environ["VIRTRAIN_LIES"] = ",".join(node for name in lies for node in nodes_of(name))
        text = outside.scenario(arms=["bare_metal"], cases=cases, pairs=pairs, probes=["triad"], **changes)
        super().__init__(folder, text, program=KIT / "virtrain-fake-host", database=pathlib.Path(folder) / f"{lies[0]}.db")
        self.most_memory_kib = self.starved = 0
        self._watch = threading.Thread(target=self._watch_memory)
        self._watch.start()

    def _watch_memory(self):
        while self.process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="utf-8")
                self.starved = max(self.starved, self._starved())
                self.most_memory_kib = max(self.most_memory_kib, int(status.split("VmHWM:")[1].split()[0]))
            time.sleep(0.02)

    def stop(self):
        """By Ctrl-C; how long it took, without what it waited for a core, and the exit status."""
        began, starved = time.monotonic(), self._starved()
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(30)
        seconds = time.monotonic() - began - max(self.starved - starved, 0)
        self.end()
        return seconds, status


def the_experiment_goes_on():
    """All lies in one experiment, and an honest node at the end."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="virtrain-lies-") as folder:
        run = LyingRun(folder, [*LIES, "honest"])
        status = run.end(300)
        trials = {trial["case"]: trial for trial in run.rows("SELECT * FROM trial")}
        for lie, (outcome, words) in {**LIES, "honest": ("valid", "")}.items():
            trial = trials.get(lie)
            if trial is None:
                wrong.append(f"{lie}: no trial")
                continue
            seen = "failed" if trial["status"] != "finished" else "valid" if trial["valid"] else "invalid"
            reason = trial["failure_reason"] or trial["invalid_reason"] or ""
            if seen != outcome or not any(word in reason for word in words.split("|")):
                wrong.append(f"{lie}: {seen} and not {outcome} for {words!r}: {reason[:300]}")
        if status != 6:
            wrong.append(f"exit status {status}: {run.log[-4:]}")
        if run.most_memory_kib > MOST_MEMORY_KIB:
            wrong.append(f"{run.most_memory_kib} KiB of memory")
        values = [str(value) for table in ("trial", "node", "rank", "event", "fingerprint") for row in run.rows(f"SELECT * FROM {table}")
                  for value in row.values()]
        wrong += [f"unsafe text is stored: {value[:80]!r}" for value in values if any(c in value for c in "\x1b\x07")]
        probes = run.rows("SELECT unit FROM probe")
        if not probes or any(probe["unit"] != "B/s" for probe in probes):
            wrong.append(f"probes: {probes}")
        print(f"     {len(LIES)} lies in {run.seconds:.1f} s and {run.most_memory_kib // 1000} MB")
    assert not wrong, "\n".join(wrong)


def ctrl_c_ends_it():
    """In the midst of each lie, told again and again."""
    wrong = []
    with tempfile.TemporaryDirectory(prefix="virtrain-lies-") as folder:
        for lie in LIES:
            run = LyingRun(folder, [lie], pairs=2000)  # more than a second has room for
            run.wait_for('"stage agent"')
            time.sleep(0.3)
            seconds, status = run.stop()
            if seconds > MOST_SECONDS or status != 130 or run.most_memory_kib > MOST_MEMORY_KIB:
                wrong.append(f"{lie}: {seconds:.1f} s after Ctrl-C, exit status {status}, {run.most_memory_kib} KiB")
    assert not wrong, "\n".join(wrong)


def a_real_vm_lies():
    """The guest's trial fails, the host's is valid."""
    with outside.scratch() as folder:
        os.environ["VIRTRAIN_LIES"] = "honest"
        run = outside.Run(folder, outside.scenario(arms=["vm", "bare_metal"]), program=KIT / "virtrain")
        assert run.end(200) == 6, run.log[-5:]
        guest, host = run.rows("SELECT * FROM trial ORDER BY arm DESC")
        assert guest["status"] == "failed" and "a sample of step 1 after one of step 1" in guest["failure_reason"], guest
        assert host["status"] == "finished" and host["valid"], host


FAKE = {"the_experiment_goes_on": the_experiment_goes_on, "ctrl_c_ends_it": ctrl_c_ends_it}

if __name__ == "__main__":
    if sys.argv[1:] == ["a_real_vm_lies"]:
        outside.main({"a_real_vm_lies": a_real_vm_lies})
    else:
        sys.exit(0 if all([outside.run_test(name, FAKE[name]) for name in sys.argv[1:] or FAKE]) else 1)
