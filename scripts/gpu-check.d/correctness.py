"""Sections that say whether the results are right."""
import dataclasses
import os
import random
import re
import sys
import tempfile

import build
import machine
import peer
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
    all of its words where it fails. It leaves the sections behind it their time."""
    program = build.program(session.arguments, name)
    if program is None:
        return f"left out: {name} was not built (it needs Catch2 2's headers)"
    seen = Cases()
    done = session.run([program, "--durations", "yes", *cases], most_seconds, session.needed_now, on_line=seen.see)
    seen.end()
    session.row("test", name=name, code=done.code, out=done.out[-20000:], err=done.err[-4000:])
    if done.code == 0:
        return OK
    if done.code == 77:
        return f"{FAILED}: {done.last_words()}"  # there is a GPU, or gpu-check would not have come so far
    if done.cut_off and "FAILED:" not in done.out:
        return f"left out: {done.cut_off}"
    print(f"```\n{(done.out + done.err).strip()[-6000:]}\n```", flush=True)
    if done.code is None:
        return f"{FAILED}: {done.cut_off or f'not done after {most_seconds:.0f} s'}"
    return f"{FAILED}: exit {done.code}"


def kernels(session):
    """Our kernels against a plain CPU version"""
    return catch2(session, "workloads_cuda_kernels_test", 240)


def operations(session):
    """cuDNN's operations alone, at small shapes like the model's, by each engine that may be chosen there, against fp64"""
    return catch2(session, "workloads_cuda_operations_test", 300)


def steps(session):
    """Whole steps, at each level of fusion, against the interpreter of the step's program"""
    return catch2(session, "workloads_cuda_step_test", 900)


def outside(session):
    """The trainer from outside: what it says where it cannot run, and that it trains and repeats itself"""
    # A test that skips itself ends its whole program, and this one does so where there is a driver. Most of the time goes
    # into engines, which five of seven trainers look for.
    return catch2(session, "workloads_cuda_trainer_test", 900, "~without a driver*")


@dataclasses.dataclass
class Case:
    """One step from one start. The seed is a new one each time, so that no rule holds for one start only."""

    precision: str
    fusion: str
    gamma: str  # of a block's last norm at the start; at 1 gradients are so ill-conditioned that 16 bits say nothing
    seed: int = dataclasses.field(default_factory=lambda: random.randrange(1, 2**31))
    image_size: int = 64
    batch_size: int = 16
    most_seconds: int = 180
    fp64_on: str = "cpu"  # where PyTorch's fp64 is found

    def run(self, session, *flags):
        return trainer.run(session, f"--precision={self.precision}", f"--fusion={self.fusion}",
                           f"--image_size={self.image_size}", f"--batch_size={self.batch_size}", "--num_warmup_batches=0",
                           "--steady_seconds=0", *flags, most_seconds=self.most_seconds)


def cases(precisions):
    """Every level of fusion, not only the one that is the fastest here. Those that hold most come first, of all precisions, so
    that a lack of time leaves none of these out."""
    return [Case(precision, fusion, gamma) for fusion in ("full", "statistics", "addition", "none")
            for precision in precisions
            for gamma in (("0.1", "1") if precision == "fp32" else ("0.1",))]


def first_step(session, case, folder):
    """Loss and gradients of the first step against fp64 in PyTorch; (verdict, details)."""
    if not machine.has_torch():
        return "left out", "no PyTorch"
    dump = os.path.join(folder, "step.safetensors")
    case.run(session, "--num_batches=1", f"--residual_gamma={case.gamma}", f"--seed={case.seed}", f"--dump={dump}")
    done = session.run([sys.executable, REFERENCE, "check", dump, "--precision", case.precision, "--device", "cuda",
                        "--fp64_device", case.fp64_on], 240, session.needed_now)
    if done.cut_off:
        return "left out", done.cut_off
    if done.code != 0 and peer.OUT_OF_MEMORY in done.err:
        return "left out", f"PyTorch {peer.OUT_OF_MEMORY}"
    if done.code == 0:
        words = done.out.strip().splitlines() or ["it said nothing"]
        return words[-1], "; ".join(words[:2])
    return FAILED, done.last_words(3).replace("\n", "; ")


def falling_loss(session, case):
    """Of one fixed batch; (words, whether it falls). It always begins at the same start."""
    if case.gamma != "0.1":
        return "–", True
    # The same batch size again, so that its engines are chosen once.
    try:
        result = case.run(session, "--num_batches=40")["result"]
    except trainer.OutOfTime as why:  # what the first step has shown stays
        return f"left out: {why}", True
    falls = result["loss_last"] < 0.5 * result["loss_first"]
    return f"{result['loss_first']:.3f} → {result['loss_last']:.3f}" + ("" if falls else " DOES NOT FALL"), falls


def correctness_row(session, case, folder):
    """The row's last cells, and whether all is well. Throws trainer.NoSuchFusion and trainer.OutOfTime."""
    try:
        verdict, details = first_step(session, case, folder)
        loss, falls = falling_loss(session, case)
    except trainer.OutOfTime:
        raise
    except trainer.Failed as failed:
        if isinstance(failed, trainer.NoSuchFusion) and case.fusion != "none":  # without any it must be possible
            raise
        return [FAILED, "–", str(failed)], False
    return [verdict, loss, details], falls and verdict != FAILED


def without(case, late, outcome, known):
    """The section's outcome where time ends with that case; `known` is whether there was any before."""
    if outcome != OK:
        return outcome
    return f"ok; {case.precision} with fusion {case.fusion} and what follows {late}" if known else late


def correctness(session):
    """Correctness: one step against PyTorch in fp64, and a loss that falls on one fixed batch"""
    print(tables.head(["precision", "fusion", "gamma", "seed", "first step", "loss in 40 steps", "details"]), flush=True)
    outcome, pace, impossible = OK, Pace(session, 40), set()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        for case in cases(session.arguments.precision):
            if (case.precision, case.fusion) in impossible:
                continue
            late, known = pace.too_late(), pace.known
            if late:
                return without(case, late, outcome, known)
            begin = [case.precision, case.fusion, case.gamma, case.seed]
            try:
                with pace:
                    cells, well = correctness_row(session, case, folder)
            except trainer.NoSuchFusion as refused:
                impossible.add((case.precision, case.fusion))
                cells, well = ["left out: not possible here", "–", str(refused)], True
            except trainer.OutOfTime as why:
                return without(case, f"left out: {why}", outcome, known)
            print(tables.line(begin + cells), flush=True)
            session.row("correctness", **dataclasses.asdict(case), well=well, cells=cells)
            outcome = outcome if well else FAILED
    return outcome


def full_size_step(session, precision, folder):
    """(case, verdict, details) at the first batch size of the speed sections, or a smaller one where PyTorch or ours has no
    memory for that. Ours takes the level of fusion and the engines that are timed; fp64 is found on the GPU as well, since
    24 GFLOP an image would take a CPU minutes."""
    sizes = [(session.arguments.batch_size or [256])[0]]
    for batch_size in sizes + [smaller for smaller in (64, 16) if smaller < sizes[0]]:
        case = Case(precision, "auto", "0.1", image_size=session.arguments.image_size, batch_size=batch_size,
                    most_seconds=trainer.MOST_SECONDS, fp64_on="cuda")
        try:
            verdict, details = first_step(session, case, folder)
        except trainer.DoesNotFit as why:
            verdict, details = "left out", str(why)
            continue
        if peer.OUT_OF_MEMORY not in details:
            break
    return case, verdict, details


def full_size_cells(session, precision, folder):
    try:
        case, verdict, details = full_size_step(session, precision, folder)
        return [case.batch_size, case.seed, verdict, details]
    except trainer.OutOfTime as why:
        return ["–", "–", f"left out: {why}", "–"]
    except trainer.Failed as failed:
        return ["–", "–", FAILED, str(failed)]


def full_size(session):
    """Correctness at the size that is timed: one step against PyTorch in fp64"""
    if not machine.has_torch():
        return "left out: no PyTorch"
    print(tables.head(["precision", "batch", "seed", "first step", "details"]), flush=True)
    verdicts, pace = {}, Pace(session, 40)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        for precision in session.arguments.precision:
            late = pace.too_late()
            if late:
                cells = ["–", "–", late, "–"]
            else:
                with pace:
                    cells = full_size_cells(session, precision, folder)
            print(tables.line([precision, *cells]), flush=True)
            session.row("full_size", precision=precision, cells=cells)
            verdicts[precision] = cells[2]
    left_out = [f"{precision} {verdict}" for precision, verdict in verdicts.items() if verdict.startswith("left out")]
    if FAILED in verdicts.values():
        return FAILED
    return "; ".join(([OK] if len(left_out) < len(verdicts) else []) + left_out)
