"""Sections that say how fast it is: ours alone, and in turns with PyTorch."""
import functools
import json
import statistics
import sys

import build
import floor
import machine
import peer
import processes
import trainer
from correctness import FAILED, OK
from session import Pace
from tables import gigabytes, head, line, number, share


def json_lines(text):
    found = []
    for words in text.splitlines():
        try:
            record = json.loads(words) if words.startswith("{") else None
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


@functools.lru_cache
def copy_rate(session):
    """Bytes read and written per second by a device copy: our probe's, else PyTorch's; None without either."""
    program = build.program(session.arguments, "virtrain-probe")
    if program:
        done = processes.run([program, "--probe", "device_copy", "--bytes", str(1 << 30), "--format", "jsonl"],
                             session.limit(60))
        for record in json_lines(done.out):
            if record.get("value") and record.get("unit") == "B/s":
                session.row("copy_rate", bytes_per_second=record["value"], by="virtrain-probe")
                return record["value"]
        print(f"copy rate: {done.last_words()}", file=sys.stderr)
    if not machine.has_torch():
        return None
    try:
        with peer.Peer("none", seconds=session.limit(120)) as torch:
            rate = torch.ask("copy", session.limit(60))["bytes_per_second"]
            session.row("copy_rate", bytes_per_second=rate, by="PyTorch")
            return rate
    except peer.Failed as failed:
        print(f"copy rate: {failed}", file=sys.stderr)
        return None


def rate_words(session):
    rate = copy_rate(session)
    return "–" if rate is None else f"{rate / 1e12:.2f} TB/s"


def run_ours(session, precision, batch_size, steady_seconds, steps):
    return trainer.run(session, f"--precision={precision}", f"--batch_size={batch_size}",
                       f"--image_size={session.arguments.image_size}", f"--num_batches={steps}",
                       "--num_warmup_batches=10", f"--steady_seconds={steady_seconds}", "--display_every=10")


OURS = ["fusion", "of the floor", "peak memory", "images/J", "SM MHz", "throttled"]


def cells_of_ours(session, precision, records, speed):
    fusion = records.get("ready", {}).get("fusion")
    least = floor.images_per_second(copy_rate(session), fusion, precision, session.arguments.image_size)
    during = (records["result"].get("gpu") or {}).get("during") or {}
    throttled = ", ".join(f"{name} {share(part)}" for name, part in (during.get("throttled") or {}).items()) or "no"
    clock = (during.get("sm_clock_mhz") or {}).get("mean")
    return [fusion_words(records.get("ready", {})), share(speed / least if least else None), gigabytes(records["result"].get("device_bytes")),
            number(during.get("images_per_joule"), 2), number(clock), throttled]


def fusion_words(ready):
    """The level, and what the others took where this run has timed them."""
    timed = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in (ready.get("fusion_timed") or {}).items())
    refused = ", ".join(f"no {name}" for name in ready.get("fusion_refused") or {})
    return ready.get("fusion", "–") + (f" ({', '.join(filter(None, [timed, refused]))})" if timed or refused else "")


def combinations(session):
    return [(p, b) for b in session.arguments.batch_size for p in session.arguments.precision]


def throughput(session):
    """Images per second, ours alone: a first look"""
    print(f"{session.arguments.image_size} px, 50 steps; device copy {rate_words(session)} read and written.\n\n"
          + head(["precision", "batch", "images/s", *OURS]), flush=True)
    outcome, pace = OK, Pace(session, 60)
    for precision, batch_size in combinations(session):
        late = pace.too_late()
        if late:
            print(line([precision, batch_size, late] + ["–"] * len(OURS)), flush=True)
            session.row("throughput", precision=precision, batch_size=batch_size, left_out=late)
            continue
        with pace:
            try:
                records = run_ours(session, precision, batch_size, min(10, session.arguments.steady_seconds), 50)
                speed = records["result"]["images_per_second"]
                cells = [number(speed), *cells_of_ours(session, precision, records, speed)]
                session.row("throughput", precision=precision, batch_size=batch_size, ready=records.get("ready"),
                            result=records["result"])
            except trainer.Failed as failed:
                cells, outcome = [f"{FAILED}: {failed}"] + ["–"] * len(OURS), FAILED
        print(line([precision, batch_size, *cells]), flush=True)
    return outcome


def fastest_peer(session, precision, batch_size):
    """The fastest variant's process, ready for its next turn, its name, and the others in words."""
    arguments = session.arguments
    variants = ["eager", "graph"] + (["compile", "compile-graphs"] if arguments.compile else [])
    best, words = None, []
    for variant in variants:
        guess = 90 if variant.startswith("compile") else 30
        # What is left must also serve the turns.
        late = session.too_late(guess + 2 * arguments.rounds * (arguments.steady_seconds + 10) if best else guess)
        if late:
            words.append(f"{variant} {late}")
            continue
        try:
            candidate = peer.Peer(variant, precision, batch_size, arguments.image_size, session.limit(240))
            answer = candidate.ask(f"steps 30 {min(5, arguments.steady_seconds)}", session.limit(240))
            speed = batch_size / answer["seconds"]
        except peer.Failed as failed:
            words.append(f"{variant}: {failed}")
            continue
        words.append(f"{variant} {speed:,.0f}")
        loser = candidate if best and best[2] >= speed else best and best[0]
        if not best or speed > best[2]:
            best = (candidate, variant, speed)
        if loser:
            loser.close()  # frees its memory
    return best, "; ".join(words)


def take_turns(session, precision, batch_size, best):
    """Speeds of ours and of the peer, as many rounds as there is time for; the records of our last run."""
    arguments = session.arguments
    mine, theirs, records, pace = [], [], None, Pace(session, 2 * (arguments.steady_seconds + 15))
    for _ in range(arguments.rounds):
        if mine and pace.too_late():
            break
        with pace:
            records = run_ours(session, precision, batch_size, arguments.steady_seconds, arguments.steps)
            mine.append(records["result"]["images_per_second"])
            if best:
                answer = best[0].ask(f"steps {arguments.steps} {arguments.steady_seconds}", session.limit(600))
                theirs.append(batch_size / answer["seconds"])
    return mine, theirs, records


def turns(session, precision, batch_size):
    """Ours and PyTorch's fastest in turns; the cells of the table's row and whether ours ran."""
    best, tried = fastest_peer(session, precision, batch_size) if machine.has_torch() else (None, "no PyTorch")
    mine, theirs = [], []
    try:
        mine, theirs, records = take_turns(session, precision, batch_size, best)
    except (trainer.Failed, peer.Failed) as failed:
        return [f"{FAILED}: {failed}"] + ["–"] * (2 + len(OURS)), False
    finally:
        if best:
            best[0].close()
        print(f"<!-- PyTorch {precision}, batch {batch_size}: {tried}; rounds {[round(x) for x in mine]} / "
              f"{[round(x) for x in theirs]} -->", flush=True)
    ours = statistics.median(mine)
    other = statistics.median(theirs) if theirs else None
    session.row("speed", precision=precision, batch_size=batch_size, ours=mine, pytorch=theirs,
                variant=best[1] if best else None, tried=tried, ready=records.get("ready"), result=records["result"])
    return [number(ours), f"{number(other)} ({best[1]})" if best else "–", number(ours / other, 2) if other else "–",
            *cells_of_ours(session, precision, records, ours)], True


def speed(session):
    """Images per second, ours and PyTorch's fastest in turns"""
    arguments = session.arguments
    print(f"{arguments.image_size} px, {arguments.steps} steps a turn, medians of {arguments.rounds} turns; device copy "
          f"{rate_words(session)} read and written. The floor is the bytes that our level of fusion moves at that rate, "
          "nothing else.\n\n" + head(["precision", "batch", "ours", "PyTorch (variant)", "ratio", *OURS]), flush=True)
    outcome, pace = OK, Pace(session, 150)
    for precision, batch_size in combinations(session):
        late = pace.too_late()
        if late:
            print(line([precision, batch_size, late] + ["–"] * (2 + len(OURS))), flush=True)
            session.row("speed", precision=precision, batch_size=batch_size, left_out=late)
            continue
        with pace:
            cells, ran = turns(session, precision, batch_size)
        print(line([precision, batch_size, *cells]), flush=True)
        outcome = outcome if ran else FAILED
    return outcome
