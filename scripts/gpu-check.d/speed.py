"""The section that compares: ours and the fastest of PyTorch's variants in turns, each in a process of its own."""
import os
import statistics
import subprocess
import sys

import machine
import trainer
from session import FAILED, OK, end, json_lines, number, percent

SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "pytorch_gpu.py")
OURS = "ours"
VARIANTS = [["eager", "graph"], ["compile-graphs", "compile"]]  # those that take a minute to start come second
LEAST_SECONDS = 15  # of a turn: start, warm-up, steps
STEPS, WARMUP_SECONDS = 100, 6


class Case:
    """One precision and batch size, and what is known of it."""

    def __init__(self, precision, batch_size):
        self.precision, self.batch_size = precision, batch_size
        self.turns = {}  # images per second, by side
        self.failed = {}  # why, by side
        self.records = None  # of our latest run
        self.peers = {}  # what PyTorch's latest run said, by variant

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
        peer = self.peers.get(self.fastest()) or {}
        clock = f"; {number(peer['sm_clock_mhz'])} MHz, {number(peer['power_w'])} W" if peer.get("sm_clock_mhz") else ""
        return "\n".join([f"- {self.precision}, batch {self.batch_size}: PyTorch "
                          + ", ".join(f"{name} {words(name)}" for names in VARIANTS for name in names) + clock,
                          *(f"- {self.precision}, no fusion {level}: {why}" for level, why in refused)])


def schedule(cases, rounds):
    """Who runs next, the most telling first: (case, side). All variants at the first batch size; at the others the fastest of
    these. Who goes first in a turn changes, since the GPU is warmer for the second."""
    main = [case for case in cases if case.batch_size == cases[0].batch_size]
    for case in main:
        yield case, OURS
    for names in VARIANTS if machine.has_torch() else []:
        for case in main:
            for side in names:
                yield case, side
    for turn in range(1, rounds):
        for case in main:
            pair = [OURS, case.fastest()]
            for side in reversed(pair) if turn % 2 else pair:
                if side:
                    yield case, side
    others = cases[len(main):]
    for case in others:
        yield case, OURS
    for case in others:
        best = next((known.fastest() for known in main if known.precision == case.precision), None)
        if best:
            yield case, best


def peer_command(precision, batch_size, variant, steps, warmup_seconds):
    return [sys.executable, SCRIPT, f"--variant={variant}", f"--precision={precision}", f"--steps={steps}",
            f"--batch_size={batch_size}", f"--image_size={trainer.IMAGE_SIZE}", f"--warmup_seconds={warmup_seconds}"]


class Compiling:
    """PyTorch's compiled variants, compiled while our own programs are built, so that their turns begin with what inductor
    keeps on the disk. A variant that fails here fails again, and is named, in its turn."""

    MOST_SECONDS = 150  # from our start

    def __init__(self, session):
        arguments, self.session, self.processes = session.arguments, session, []
        if "speed" not in arguments.sections or arguments.build_only or not machine.has_torch() or os.cpu_count() < 8:
            return
        for variant in VARIANTS[1]:
            for precision in arguments.precision:
                self.processes.append(subprocess.Popen(
                    peer_command(precision, arguments.batch_size[0], variant, 1, 0), stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True))

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        end_by = self.session.begin + self.MOST_SECONDS
        for process in self.processes:
            try:
                process.wait(0 if kind else max(0, end_by - self.session.clock()))
            except subprocess.TimeoutExpired:
                pass
            end(process)
            process.wait()


def run_ours(session, case):
    case.records = trainer.run(session, f"--precision={case.precision}", f"--batch_size={case.batch_size}",
                               f"--image_size={trainer.IMAGE_SIZE}", f"--num_batches={STEPS}", "--num_warmup_batches=10",
                               f"--steady_seconds={WARMUP_SECONDS}", "--display_every=10")
    trainer.require_falling_loss(case.records)
    return trainer.images_per_second(case.records)


def run_pytorch(session, case, variant):
    done = session.run(peer_command(case.precision, case.batch_size, variant, STEPS, WARMUP_SECONDS), 400)
    if done.cut_off:
        raise trainer.OutOfTime(done.cut_off)
    answers = json_lines(done.out)
    if done.code != 0 or not answers:
        memory = [line for line in done.err.splitlines() if "out of memory" in line]  # which a compiler's words may follow
        raise trainer.Failed(memory[-1] if memory else done.how())
    case.peers[variant] = answers[-1]
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
                 **({name: case.records.get(name) for name in ("ready", "result")} if side == OURS else {"peer": case.peers[side]}))
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
