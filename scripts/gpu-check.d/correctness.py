"""Sections that say whether the results are right."""
import os
import re
import sys
import tempfile

import build
import machine
import processes
import tables
import trainer
from session import Pace

REFERENCE = os.path.join(machine.ROOT, "scripts", "reference", "resnet50_reference.py")
OK = "ok"
FAILED = "FAILED"


class Cases:
    """Prints each test case with its seconds as soon as the next one ends: Catch2 has a line for each of its values. What
    a test has to tell is a line of a list as well."""

    def __init__(self):
        self.name, self.seconds, self.times = None, 0.0, 0

    def see(self, line):
        found = re.match(r"^([0-9.]+) s: (.*)", line)
        if found and found[2] != self.name:
            self.end()
            self.name = found[2]
        if found:
            self.seconds += float(found[1])
            self.times += 1
        elif line.startswith("- "):
            print(line, flush=True)
        elif re.match(r"^All tests|^test cases:|^assertions:", line):
            self.end()
            print(f"- {line}", flush=True)

    def end(self):
        if self.name:
            times = f" ({self.times} times)" if self.times > 1 else ""
            print(f"- {self.name}: {self.seconds:.1f} s{times}", flush=True)
        self.__init__()


def catch2(session, name, most_seconds, *cases):
    """One of the tests' programs (all cases, or those that Catch2's patterns name), a line for each test case as it ends;
    all of its words where it fails."""
    program = build.program(session.arguments, name)
    if program is None:
        return f"left out: {name} was not built (it needs Catch2 2's headers)"
    seconds, seen = session.limit(most_seconds), Cases()
    done = processes.run([program, "--durations", "yes", *cases], seconds, on_line=seen.see)
    seen.end()
    session.row("test", name=name, code=done.code, out=done.out[-20000:], err=done.err[-4000:])
    if done.code == 0:
        return OK
    if done.code == 77:
        return f"{FAILED}: {done.last_words()}"  # there is a GPU, or gpu-check would not have come so far
    print(f"```\n{(done.out + done.err).strip()[-6000:]}\n```", flush=True)
    return f"{FAILED}: not done after {seconds:.0f} s" if done.code is None else f"{FAILED}: exit {done.code}"


def kernels(session):
    """Our kernels against a plain CPU version"""
    return catch2(session, "workloads_cuda_kernels_test", 240)


def operations(session):
    """cuDNN's operations alone, by each engine that may be chosen, against fp64"""
    return catch2(session, "workloads_cuda_operations_test", 300)


def steps(session):
    """Whole steps, at each level of fusion, against the interpreter of the step's program"""
    return catch2(session, "workloads_cuda_step_test", 300)


def outside(session):
    """The trainer from outside: what it says where it cannot run, and that it trains and repeats itself"""
    # A test that skips itself ends its whole program, and this one does so where there is a driver.
    return catch2(session, "workloads_cuda_trainer_test", 240, "~without a driver*")


def first_step(session, precision, folder):
    """Loss and gradients of the first step against fp64 in PyTorch; (verdict, details)."""
    if not machine.has_torch():
        return "left out", "no PyTorch"
    dump = os.path.join(folder, f"{precision}.safetensors")
    trainer.run(session, f"--precision={precision}", "--image_size=64", "--batch_size=16", "--num_batches=1",
                "--num_warmup_batches=0", "--steady_seconds=0", "--residual_gamma=0.1", "--seed=7", f"--dump={dump}",
                most_seconds=180)
    done = processes.run([sys.executable, REFERENCE, "check", dump, "--precision", precision, "--device", "cuda"],
                         session.limit(240))
    if done.code == 0:
        words = done.out.strip().splitlines() or ["it said nothing"]
        return words[-1], "; ".join(words[:2])
    return FAILED, done.last_words(3).replace("\n", "; ")


def correctness(session):
    """Correctness: one step against PyTorch in fp64, and a loss that falls on one fixed batch"""
    print(tables.head(["precision", "first step", "loss in 40 steps", "details"]), flush=True)
    outcome, pace = OK, Pace(session, 40)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        for precision in session.arguments.precision:
            if pace.too_late():
                return outcome if outcome != OK else f"ok; {precision} and what follows {pace.too_late()}"
            with pace:
                row, well = correctness_row(session, precision, folder)
            print(tables.line(row), flush=True)
            session.row("correctness", precision=precision, well=well, cells=row)
            outcome = outcome if well else FAILED
    return outcome


def correctness_row(session, precision, folder):
    try:
        verdict, details = first_step(session, precision, folder)
        # The same batch again, so that its engines are chosen once.
        result = trainer.run(session, f"--precision={precision}", "--image_size=64", "--batch_size=16",
                             "--num_batches=40", "--num_warmup_batches=0", "--steady_seconds=0",
                             most_seconds=180)["result"]
    except trainer.Failed as failed:
        return [precision, FAILED, "–", str(failed)], False
    falls = result["loss_last"] < 0.5 * result["loss_first"]
    loss = f"{result['loss_first']:.3f} → {result['loss_last']:.3f}" + ("" if falls else " DOES NOT FALL")
    return [precision, verdict, loss, details], falls and verdict != FAILED
