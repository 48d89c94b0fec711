"""What is checked and measured, the most important first. A section shows its tables and returns OK, words that begin with
FAILED, or others where something was left out."""
import functools
import math
import os
import subprocess
import sys
import traceback
import typing

import bandwidth
import correctness
import ranks
import speed
from session import FAILED, json_lines

SCRIPT = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "gpu-check")


class Section(typing.NamedTuple):
    title: str
    needs: int  # seconds, at least, that those before it leave it: guesses until they have been seen on a GPU
    run: typing.Callable


def tests(title, needs, *program):
    return Section(title, needs, functools.partial(lambda program, session: correctness.catch2(session, *program), program))


ALL = {
    "speed": Section("Images per second, ours and PyTorch's fastest variant in turns", 120, speed.speed),
    "passes": Section("Where a step's time goes, pass by pass", 30, bandwidth.passes),
    "probes": Section("Copies, matrix products, NCCL", 20, bandwidth.probes),
    "kernels": tests("Our kernels against a plain CPU version", 25, "workloads_cuda_kernels_test"),
    "correctness": Section("One small step against PyTorch in fp64 at each level of fusion", 60, correctness.correctness),
    "operations": tests("cuDNN's operations alone, by each engine, against fp64 and against themselves", 20,
                        "workloads_cuda_operations_test"),
    "steps": tests("Whole steps against the step's interpreter", 20, "workloads_cuda_step_test"),
    # A test that skips itself ends its whole program, and "without a driver" does so here.
    "outside": tests("The trainer from outside", 20, "workloads_cuda_trainer_test", "~without a driver*"),
    "full_size": Section("One step of the size that is timed against PyTorch in fp64", 40, correctness.full_size),
    "ranks": Section("Two ranks on one GPU agree with each other and with one that accumulates", 40, ranks.ranks),
}
# These ask whether results are right, so they may run at once: nothing is timed but engines, for a cache of their own.
TOGETHER = ("kernels", "correctness", "operations", "steps", "outside")


def run_section(session, name, later):
    """How it went; nothing that it throws stops the others. `later` are the seconds that those behind it need."""
    left, needs = session.end - session.clock(), ALL[name].needs
    if left < needs:
        return f"left out: {max(0, left):.0f} s left, needs about {needs} s"
    session.section_end = session.clock() + max(left - later, needs)
    try:
        return ALL[name].run(session)
    except Exception as error:  # whatever it is, the next section may tell more
        session.keep("failure", name=name, words=traceback.format_exc())
        return f"{FAILED}: {type(error).__name__}: {error}"


def run_together(session, names, later):
    """Each in a process of its own, all at once: {name: (how it went, its seconds)}. What they show and keep becomes ours."""
    seconds = max(session.end - session.clock() - later, max(ALL[name].needs for name in names))
    limit = ["--minutes", str((seconds + session.END_SECONDS) / 60)] if seconds < math.inf else []
    outcomes, running = {}, {}
    for name in names:
        folder = os.path.join(session.arguments.out, name)
        os.makedirs(folder, exist_ok=True)
        command = [sys.executable, SCRIPT, *session.again(), "--built", "--sections", name, "--out", folder, *limit]
        with open(os.path.join(folder, "said.log"), "w", encoding="utf-8") as said:
            running[name] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                                             env={**os.environ, "XDG_CACHE_HOME": os.path.join(folder, "cache")})
    try:
        for name, process in running.items():
            process.wait()
            outcomes[name] = taken_over(session, name, process.returncode)
    finally:  # also when somebody ends us: each then ends its own programs
        for process in running.values():
            process.terminate()
            process.wait()
    return outcomes


def taken_over(session, name, status):
    """(how it went, seconds) of a section that ran in a process of its own."""
    folder = os.path.join(session.arguments.out, name)
    outcome = (f"{FAILED}: exit {status}; see {folder}/said.log", 0)
    try:
        with open(os.path.join(folder, "results.jsonl"), encoding="utf-8") as lines:
            records = json_lines(lines.read())
        with open(os.path.join(folder, "summary.md"), encoding="utf-8") as file:
            session.take_blocks(file.read(), but="Summary")
    except OSError:
        return outcome
    for record in records:
        if record["section"] == "summary":
            outcome = record["result"], record["seconds"]
        elif record["section"] != "run":
            session.keep(**record)
    return outcome


def run_all(session):
    """Runs what was asked for; returns whether nothing failed. The summary's first table is right at any moment."""
    names = session.arguments.sections
    rows = {name: [ALL[name].title, "not run", "–"] for name in names}

    def show():
        session.show("Summary", ["section", "result", "seconds"], list(rows.values()))

    def ended(name, words, seconds):
        rows[name][1:] = [words, f"{seconds:.0f}"]
        session.keep("summary", name=name, result=words, seconds=round(seconds, 1))

    together = [name for name in names if name in TOGETHER] if session.arguments.at_once else []
    together = together if len(together) > 1 else []
    left = list(names)
    while left:
        group = together if left[0] in together else left[:1]
        left = [name for name in left if name not in group]
        for name in group:
            rows[name][1] = "cut off"
            print(f"{name}: {rows[name][0]}", flush=True)
        show()
        later, begin = sum(ALL[name].needs for name in left), session.clock()
        if len(group) > 1:
            for name, (words, seconds) in run_together(session, group, later).items():
                ended(name, words, seconds)
        else:
            words = run_section(session, group[0], later)
            ended(group[0], words, session.clock() - begin)
    show()
    print(f"\n{session.text()}\nThis is {session.arguments.out}/summary.md", flush=True)
    return not any(FAILED in words for _, words, _ in rows.values())
