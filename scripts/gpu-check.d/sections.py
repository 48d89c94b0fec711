"""What is checked and measured, the most important first. A section shows its tables and returns OK, words that begin with
FAILED, or others where something was left out."""
import functools
import traceback
import typing

import bandwidth
import correctness
import ranks
import speed
from session import FAILED


class Section(typing.NamedTuple):
    title: str
    needs: int  # seconds, at least, that those before it leave it: guesses until they have been seen on a GPU
    run: typing.Callable


def tests(title, needs, *program):
    return Section(title, needs, functools.partial(lambda program, session: correctness.catch2(session, *program), program))


ALL = {
    "kernels": tests("Our kernels against a plain CPU version", 30, "workloads_cuda_kernels_test"),
    "correctness": Section("One small step against PyTorch in fp64 at each level of fusion", 60, correctness.correctness),
    "speed": Section("Images per second, ours and PyTorch's fastest variant in turns", 120, speed.speed),
    "full_size": Section("One step of the size that is timed against PyTorch in fp64", 40, correctness.full_size),
    "ranks": Section("Two ranks on one GPU agree with each other and with one that accumulates", 60, ranks.ranks),
    "passes": Section("Where a step's time goes, pass by pass", 30, bandwidth.passes),
    "probes": Section("Copies, matrix products, NCCL", 20, bandwidth.probes),
    "operations": tests("cuDNN's operations alone, by each engine, against fp64", 20, "workloads_cuda_operations_test"),
    "steps": tests("Whole steps against the step's interpreter", 20, "workloads_cuda_step_test"),
    # A test that skips itself ends its whole program, and "without a driver" does so here.
    "outside": tests("The trainer from outside", 20, "workloads_cuda_trainer_test", "~without a driver*"),
}


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


def run_all(session):
    """Runs what was asked for; returns whether nothing failed. The summary's first table is right at any moment."""
    names = session.arguments.sections
    rows = [[ALL[name].title, "not run", "–"] for name in names]
    for i, name in enumerate(names):
        rows[i][1] = "cut off"
        session.show("Summary", ["section", "result", "seconds"], rows)
        print(f"{name}: {rows[i][0]}", flush=True)
        begin = session.clock()
        words = run_section(session, name, sum(ALL[behind].needs for behind in names[i + 1:]))
        rows[i][1:] = [words, f"{session.clock() - begin:.0f}"]
        session.keep("summary", name=name, result=words, seconds=round(session.clock() - begin, 1))
    session.show("Summary", ["section", "result", "seconds"], rows)
    print(f"\n{session.text()}\nThis is {session.arguments.out}/summary.md", flush=True)
    return not any(FAILED in words for _, words, _ in rows)
