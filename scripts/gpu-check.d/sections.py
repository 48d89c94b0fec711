"""What is checked and measured, in the order of importance, and how each part went.

A section prints its Markdown and returns OK, FAILED (or words that begin with it), or why it was left out. It knows the
time that is left, and what it needs at least: NEEDS_SECONDS, guesses until they have been seen on a GPU.
"""
import traceback

import build
import correctness
import machine
import passes
import ranks
import speed
import stressors
import tables
import turns
from correctness import FAILED, OK


# Large messages only: of one GPU they say what the library costs, of several what their links carry.
NCCL_SWEEP = ["--probe", "nccl_all_reduce,nccl_all_gather,nccl_broadcast", "--min_bytes", "1MiB", "--max_bytes", "64MiB",
              "--factor", "8", "--stall_seconds", "60", "--format", "jsonl"]
EXIT_HOST_UNABLE = 4


def measures_nothing(figure):
    """NCCL in place with one rank: it has nothing to do (ncclLaunchOneRank)."""
    return figure.get("ranks") == 1 and (figure.get("detail") or {}).get("in_place")


def probes(session):
    """Probes"""
    program = build.program(session.arguments, "virtrain-probe")
    if program is None:
        return "left out: virtrain-probe was not built"
    outcome = OK
    names = ("device_copy", "gpu_gemm", "host_to_device", "device_to_host", "peer_copy", "triad")
    command = ["env", f"LD_LIBRARY_PATH={machine.library_path()}", program]
    for flags in [*(["--probe", name, "--format", "jsonl"] for name in names), NCCL_SWEEP]:
        done = session.run([*command, *flags], 120)
        figures = [record for record in speed.json_lines(done.out) if record.get("record") == "probe"]
        if done.code == 0 and flags[1] == "peer_copy" and not figures:
            print("- peer_copy: left out: one GPU, no peer")
            session.row("probes", name="peer_copy", left_out="one GPU, no peer")
        for figure in figures:
            session.row("probes", **figure)
            if measures_nothing(figure):
                continue
            wrong = f", {figure['wrong']} WRONG" if figure.get("wrong") else ""
            size = f" {figure['size_bytes']} bytes" if figure.get("size_bytes") else ""
            print(f"- {figure['name']} {figure.get('data_type') or ''}{size}: {figure['value']:.4g} {figure['unit']}{wrong}")
        if done.cut_off:
            print(f"- {flags[1]}: left out: {done.cut_off}")
        elif done.code != 0:
            print(f"- {flags[1]}: {done.last_words()}")
            # NCCL is loaded at run time; a machine without it has the trainer for one GPU all the same.
            if not (flags is NCCL_SWEEP and done.code == EXIT_HOST_UNABLE):
                outcome = FAILED
    return outcome


ALL = {section.__name__: section for section in (
    correctness.kernels, correctness.correctness, speed.throughput, correctness.full_size, correctness.operations,
    correctness.steps, correctness.outside, turns.speed, ranks.ranks, probes, stressors.stressors, passes.passes)}
NEEDS_SECONDS = {"kernels": 40, "correctness": 60, "throughput": 40, "full_size": 45, "operations": 90, "steps": 60,
                 "outside": 60, "speed": 90, "ranks": 80, "probes": 60, "stressors": 60, "passes": 60}


def title(section):
    return section.__doc__.splitlines()[0]


def run_section(session, name):
    """How it went, in words; nothing that it throws stops the others."""
    late = session.too_late(NEEDS_SECONDS[name])
    if late:
        return late
    try:
        return ALL[name](session)
    except Exception as error:  # whatever it is, the next section may tell more
        session.row("failure", section_name=name, words=traceback.format_exc())
        return f"{FAILED}: {type(error).__name__}: {error}"


def run_all(session):
    """Runs what was asked for, then says how each part went; returns whether nothing failed."""
    outcomes = []
    try:
        for i, name in enumerate(session.arguments.sections):
            session.needed_now = NEEDS_SECONDS[name]
            session.needed_later = sum(NEEDS_SECONDS[behind] for behind in session.arguments.sections[i + 1:])
            print(f"\n## {title(ALL[name])}\n", flush=True)
            begin = session.clock()
            outcomes.append([name, "cut off", begin])
            words = run_section(session, name)
            outcomes[-1] = [name, words, session.clock() - begin]
            session.row("summary", name=name, result=words, seconds=round(outcomes[-1][2], 1))
            if words != OK:
                print(words, flush=True)
    finally:  # also when somebody ends us
        if outcomes and outcomes[-1][1] == "cut off":
            outcomes[-1][2] = session.clock() - outcomes[-1][2]
        print("\n## Summary\n\n" + tables.table(["section", "result", "seconds"],
                                                [[n, w, f"{s:.0f}"] for n, w, s in outcomes]), flush=True)
    return not any(words.startswith(FAILED) for _, words, _ in outcomes)
