"""The section that loads the GPU, in each way that there is: without a limit, and with one that must be kept."""
import build
import machine
import ranks
import speed
import trainer
from correctness import FAILED, OK
from tables import head, line

PROGRAM = "virtrain-stress"
SECONDS = 3  # in the first one cuBLAS is loaded, memory filled
ROW_SECONDS = 10
EXIT_HOST_UNABLE = 4
# Kind, flags, and a limit below what any GPU can do: a share of the time, or bytes a second.
LOADS = [("gemm", [], "50%"), ("membw", ["--gpu", "0"], "8GiB/s"), ("h2d", [], "512MiB/s"), ("d2h", [], "512MiB/s"),
         ("allreduce", ["--gpu", "0", "--bytes", "16MiB"], "32MiB/s")]


class LeftOut(Exception):
    """Why a load cannot be here, in words; no fault."""


def load(session, kind, flags):
    """The records of one run. Throws LeftOut and trainer.Failed."""
    late = session.too_late(ROW_SECONDS) or (ranks.why_not(session) if kind == "allreduce" else None)
    if late:
        raise LeftOut(late)
    command = [build.program(session.arguments, PROGRAM), "--kind", kind, "--seconds", str(SECONDS), *flags]
    launcher = ranks.launcher(session, command) if kind == "allreduce" else []
    done = session.run(["env", f"LD_LIBRARY_PATH={machine.library_path()}", *launcher, *command], 60, given="go\n")
    if done.cut_off:
        raise LeftOut(f"left out: {done.cut_off}")
    if kind == "allreduce" and done.code == EXIT_HOST_UNABLE:  # NCCL is loaded at run time, and may not be there
        raise LeftOut(f"left out: {trainer.words_of(done)}")
    if done.code != 0:
        raise trainer.Failed(trainer.words_of(done))
    return speed.json_lines(done.out)


def of_kind(records, kind):
    return [record for record in records if record.get("record") == kind]


def last_rate(records):
    """Work per second in the last whole second; 0 if there was none."""
    rates = [record["work"] / record["seconds"] for record in of_kind(records, "progress") if record["seconds"] > 0.5]
    return rates[-1] if rates else 0


def fault(records, free_rate=None):
    """What is wrong with a load, in words, or None. `free_rate` is what it did without a limit."""
    hello, result = of_kind(records, "hello"), of_kind(records, "result")
    if not hello or not result or result[0]["work"] <= 0 or last_rate(records) <= 0:
        return "it did nothing"
    asked = hello[0]["configuration"]
    limit, work, seconds = asked.get("bytes_per_second"), result[0]["work"], result[0]["seconds"]
    # A piece is begun while there is time, and done in full: a vector, or a twentieth of a second's work (gpu_piece.h). For
    # a millisecond nobody rests (pace.cpp).
    if limit and work > limit * (seconds + 0.001) + (asked.get("bytes") or limit / 20):
        return f"{work / seconds:.4g} B/s are more than the {limit:.4g} allowed"
    # A GPU that rests may clock higher meanwhile, so a share of the time is a larger one of the work.
    share = asked.get("share") or 1
    if free_rate and share < 1 and last_rate(records) > 1.5 * share * free_rate:
        return f"{100 * last_rate(records) / free_rate:.0f} % of the unlimited rate at {100 * share:.0f} % of the time"
    return None


def row(session, kind, flags, limit, free_rate=None):
    """Prints and keeps one; returns how it went, and its rate."""
    cells, rate = [kind, limit or "none"], None
    try:
        records = load(session, kind, [*flags, "--rate", limit] if limit else flags)
        rate, wrong = last_rate(records), fault(records, free_rate)
        unit = (of_kind(records, "result") or [{}])[0].get("unit", "")
        cells += [f"{rate:.4g} {unit}/s", f"{FAILED}: {wrong}" if wrong else OK]
        session.row("stressors", kind=kind, limit=limit, wrong=wrong, progress=of_kind(records, "progress"),
                    result=of_kind(records, "result"))
    except (LeftOut, trainer.Failed) as error:
        cells += ["–", str(error) if isinstance(error, LeftOut) else f"{FAILED}: {error}"]
        session.row("stressors", kind=kind, limit=limit, words=cells[-1])
    print(line(cells), flush=True)
    return cells[-1], rate


def stressors(session):
    """Stressors of the GPU: that they work, and keep to their limits"""
    if build.program(session.arguments, PROGRAM) is None:
        return f"left out: {PROGRAM} was not built"
    print(head(["load", "limit", "in its last second", "result"]), flush=True)
    outcome = OK
    for kind, flags, limit in LOADS:
        free, free_rate = row(session, kind, flags, None)
        limited, _ = row(session, kind, flags, limit, free_rate)
        outcome = FAILED if FAILED in free + limited else outcome
    return outcome
