"""The section that compares: ours and the fastest of PyTorch's variants in turns, each in a process of its own."""
import os
import statistics
import sys

import machine
import trainer
from session import FAILED, OK, json_lines, number, percent

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "pytorch_gpu.py")
OURS = "ours"
VARIANTS = [["eager", "graph"], ["compile-graphs", "compile"]]  # those that take a minute to start come second
LEAST_SECONDS = 25  # of a turn: start, warm-up, steps
STEPS, WARMUP_SECONDS = 100, 10


class Case:
    """One precision and batch size, and what is known of it."""

    def __init__(self, precision, batch_size):
        self.precision, self.batch_size = precision, batch_size
        self.turns = {}  # images per second, by side
        self.failed = {}  # why, by side
        self.records = None  # of our latest run

    def median(self, side):
        return statistics.median(self.turns[side]) if self.turns.get(side) else None

    def fastest(self):
        """PyTorch's, None where none runs."""
        return max((side for side in self.turns if side != OURS), key=self.median, default=None)

    def row(self):
        mine, best = self.median(OURS), self.fastest()
        theirs = self.median(best)
        result = self.records["result"] if self.records else {}
        during = (result.get("gpu") or {}).get("during") or {}
        reasons = during.get("throttled")  # None where NVML does not tell
        throttled = "–" if reasons is None else ", ".join(f"{why} {percent(part)}" for why, part in reasons.items()) or "no"
        memory = result.get("device_bytes")
        return [self.precision, self.batch_size, self.failed.get(OURS) or number(mine), f"{number(theirs)} ({best})" if best else "–",
                number(mine / theirs, 2) if mine and theirs else "–",
                f"{len(self.turns.get(OURS, []))} / {len(self.turns.get(best, []))}",
                ((self.records or {}).get("ready") or {}).get("fusion", "–"), number(memory / 1e9 if memory else None, 1),
                number((during.get("sm_clock_mhz") or {}).get("mean")), throttled]

    def note(self):
        """Every variant, those too that a table would hide: one that was not tried may be the fastest."""
        def words(side):
            return self.failed.get(side) or (number(self.median(side)) if side in self.turns else "not tried")
        refused = (((self.records or {}).get("ready") or {}).get("fusion_refused") or {}).items()
        return "\n".join([f"- {self.precision}, batch {self.batch_size}: PyTorch "
                          + ", ".join(f"{name} {words(name)}" for names in VARIANTS for name in names),
                          *(f"- {self.precision}, no fusion {level}: {why}" for level, why in refused)])


def schedule(cases, rounds):
    """Who runs next, the most telling first: (case, side). Who goes first changes, since the GPU is warmer for the second."""
    for names in VARIANTS:
        for case in cases:
            for side in ([OURS] if names is VARIANTS[0] else []) + (names if machine.has_torch() else []):
                yield case, side
    for turn in range(1, rounds):
        for case in cases:
            pair = [OURS, case.fastest()]
            for side in reversed(pair) if turn % 2 else pair:
                if side:
                    yield case, side


def run_ours(session, case):
    case.records = trainer.run(session, f"--precision={case.precision}", f"--batch_size={case.batch_size}",
                               f"--image_size={trainer.IMAGE_SIZE}", f"--num_batches={STEPS}", "--num_warmup_batches=10",
                               f"--steady_seconds={WARMUP_SECONDS}", "--display_every=10")
    trainer.require_falling_loss(case.records)
    return trainer.images_per_second(case.records)


def run_pytorch(session, case, variant):
    done = session.run([sys.executable, SCRIPT, f"--variant={variant}", f"--precision={case.precision}", f"--steps={STEPS}",
                        f"--batch_size={case.batch_size}", f"--image_size={trainer.IMAGE_SIZE}",
                        f"--warmup_seconds={WARMUP_SECONDS}"], 400)
    if done.cut_off:
        raise trainer.OutOfTime(done.cut_off)
    answers = json_lines(done.out)
    if done.code != 0 or not answers:
        memory = [line for line in done.err.splitlines() if "out of memory" in line]  # which a compiler's words may follow
        raise trainer.Failed(memory[-1] if memory else done.how())
    return answers[-1]["images_per_second"]


def turn(session, case, side):
    """Throws trainer.OutOfTime."""
    if session.left() < LEAST_SECONDS:
        raise trainer.OutOfTime(f"{session.left():.0f} s left")
    try:
        speed = run_ours(session, case) if side == OURS else run_pytorch(session, case, side)
    except trainer.Failed as failed:
        case.failed[side] = f"{trainer.verdict(failed)}: {failed}"
        case.turns.pop(side, None)
        session.keep("speed", precision=case.precision, batch_size=case.batch_size, side=side, failed=case.failed[side])
        return
    case.turns.setdefault(side, []).append(speed)
    session.keep("speed", precision=case.precision, batch_size=case.batch_size, side=side, images_per_second=speed,
                 **({name: case.records.get(name) for name in ("ready", "result")} if side == OURS else {}))
    print(f"{case.precision}, batch {case.batch_size}: {side} {speed:,.0f} images/s", flush=True)


def speed(session):
    cut_off = None
    cases = [Case(precision, batch) for batch in session.arguments.batch_size for precision in session.arguments.precision]
    for case, side in schedule(cases, session.arguments.rounds):
        if side in case.failed or OURS in case.failed:
            continue
        try:
            turn(session, case, side)
        except trainer.OutOfTime as why:
            cut_off = f"left out from {case.precision} {side} on: {why}"
            break
        session.show(f"Images per second at {trainer.IMAGE_SIZE} px, medians of turns",
                     ["precision", "batch", "ours", "PyTorch", "ratio", "turns", "fusion", "GB", "SM MHz", "throttled"],
                     [known.row() for known in cases], [known.note() for known in cases])
    if any(case.failed.get(OURS, "").startswith(FAILED) for case in cases):
        return FAILED
    return "; ".join(filter(None, [OK if any(OURS in case.turns for case in cases) else "", cut_off])) or "left out: see the table"
