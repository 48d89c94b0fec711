"""Sections that say whether the results are right."""
import functools
import os
import random
import sys
import tempfile

import build
import machine
import trainer
from session import FAILED, OK

REFERENCE = os.path.join(machine.ROOT, "scripts", "reference", "resnet50_reference.py")
OUT_OF_MEMORY = "out of memory"  # PyTorch's words, CUDA's own as well
PRECISIONS = ["fp16", "bf16", "tf32", "fp32"]
STEPS = 40
# Of a block's last norm at the start. At 1 gradients are so ill-conditioned that 16 bits say nothing.
GAMMAS = {"fp32": ("0.1", "1")}


def catch2(session, name, *cases):
    """One of the tests' programs: all cases, or those that Catch2's patterns name. What it measures are its lines that begin
    with "- "."""
    program = build.program(session, name)
    if program is None:
        return f"left out: {name} was not built (it needs Catch2)"
    done = session.run([program, *cases], 900)
    if done.cut_off and "FAILED:" not in done.out:
        return f"left out: {done.cut_off}"
    lines = done.out.strip().splitlines()
    session.show(name, ["result"], [[lines[-1] if lines else "no output"]], [line for line in lines if line.startswith("- ")])
    if done.code == 0:
        return OK
    log = os.path.join(session.arguments.out, f"{name}.log")
    with open(log, "w", encoding="utf-8") as file:
        file.write(done.out + done.err)
    return f"{FAILED}: {done.how()}; see {log}"  # one that skips itself (77), too: there is a GPU


def falling_loss(session, flags):
    """Of one fixed batch in 40 steps. Throws trainer.Failed."""
    result = trainer.run(session, *flags, f"--num_batches={STEPS}")["result"]
    if result["loss_last"] is None or not result["loss_last"] < 0.5 * result["loss_first"]:
        raise trainer.Failed(f"the loss does not fall: {result['loss_first']:.3f} → {result['loss_last']}")
    return f"{result['loss_first']:.3f} → {result['loss_last']:.3f}"


def course_beside_pytorch(session, precision, flags):
    """(loss, details). Where 40 steps are too few for one batch's loss to be halved, it falls as PyTorch's does. Throws
    trainer.Failed."""
    seed = random.randrange(1, 2**31)
    result = trainer.run(session, *flags, f"--num_batches={STEPS}", "--residual_gamma=0.1", f"--seed={seed}")["result"]
    if result["loss_last"] is None:
        raise trainer.Failed(f"the loss was {result['loss_first']:.3f} and is not a number")
    loss = f"{result['loss_first']:.3f} → {result['loss_last']:.3f}"
    if not machine.has_torch():
        return loss, None
    return loss, first_step(session, precision, flags, "0.1", seed, [f"--steps={STEPS}", f"--loss={result['loss_last']}"])


def first_step(session, precision, flags, gamma, seed=None, more=()):
    """Loss and gradients of the first step against fp64 in PyTorch, with a new seed each time, so that no rule holds for one
    start only. Throws trainer.Failed."""
    seed = seed or random.randrange(1, 2**31)
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        dump = os.path.join(folder, "step.safetensors")
        trainer.run(session, *flags, "--num_batches=1", f"--residual_gamma={gamma}", f"--seed={seed}", f"--dump={dump}")
        done = session.run([sys.executable, REFERENCE, "check", dump, "--precision", precision, "--device", "cuda",
                            "--fp64_device", "cuda", *more], 240)
    if done.cut_off:
        raise trainer.OutOfTime(done.cut_off)
    if done.code != 0 and OUT_OF_MEMORY in done.err:
        raise trainer.LeftOut(f"PyTorch {OUT_OF_MEMORY}")
    said = done.out.strip().splitlines() or [done.last_words()]
    if done.code != 0:
        raise trainer.Failed(f"gamma {gamma}, seed {seed}: {said[-1]}")
    return f"gamma {gamma}: {'; '.join(said[:3] if more else said[:2])}"


def step_row(session, precision, fusion, image_size, batch_size, course=False):
    """(verdict, loss, details). Throws trainer.OutOfTime."""
    flags, loss = [f"--precision={precision}", f"--fusion={fusion}", f"--image_size={image_size}", f"--batch_size={batch_size}",
                   "--num_warmup_batches=0", "--steady_seconds=0"], "–"
    try:
        if course:
            loss, details = course_beside_pytorch(session, precision, flags)
            return (OK, loss, details) if details else ("left out", loss, "no PyTorch")
        loss = falling_loss(session, flags)
        if not machine.has_torch():
            return "left out", loss, "no PyTorch"
        return OK, loss, "; ".join(first_step(session, precision, flags, gamma) for gamma in GAMMAS.get(precision, ("0.1",)))
    except trainer.Failed as why:
        verdict = trainer.verdict(why)
        return FAILED if fusion == "none" and loss == "–" else verdict, loss, str(why)  # every GPU has that level


def rows_of(session, title, columns, cases, check):
    """Shows a row for each case, with its verdict behind the case's own words; returns the outcome."""
    rows, verdicts, cut_off = [], [], None
    for case in cases:
        try:
            cells = check(session, *case)
        except trainer.OutOfTime as why:
            cut_off = f"left out from {' '.join(map(str, case[:2]))} on: {why}"
            break
        rows.append([*case, *cells])
        verdicts.append(cells[0])
        session.keep(title, **dict(zip(columns, rows[-1])))
        session.show(title, columns, rows)
    if FAILED in verdicts:
        return FAILED
    return "; ".join(filter(None, [OK if OK in verdicts else "left out: see the table" if rows else "", cut_off]))


COLUMNS = ["precision", "fusion", "px", "batch", "first step", "loss in 40 steps", "details"]


def correctness(session):
    # Those that hold most come first, of all precisions, so that a lack of time leaves none of these out.
    # Above "addition" cuDNN has precompiled engines for fp16 alone. For bf16 it compiles some, shape by shape: "full" has all.
    cases = [(precision, fusion, 64, 16) for fusion in ("full", "statistics", "addition", "none") for precision in PRECISIONS
             if precision == "fp16" or fusion in ("addition", "none") or (precision, fusion) == ("bf16", "full")]
    return rows_of(session, "Correctness", COLUMNS, cases, step_row)


def full_size(session):
    cases = [(precision, "auto", trainer.IMAGE_SIZE, session.arguments.batch_size[0]) for precision in session.arguments.precision]
    return rows_of(session, "Correctness at the size that is timed", COLUMNS, cases, functools.partial(step_row, course=True))
