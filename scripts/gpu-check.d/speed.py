"""How fast it is: the section that looks at ours alone, and what the comparison in turns.py shares with it."""
import functools
import json
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
        done = processes.run([program, "--probe", "device_copy", "--format", "jsonl"], session.limit(60))
        for record in json_lines(done.out) if done.code == 0 else []:
            if record.get("value") and record.get("unit") == "B/s" and not record.get("wrong"):
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


def run_ours(session, precision, batch_size, steady_seconds, steps, *flags):
    """Its records; its windows have as many steps as the peer's (pytorch_gpu.py)."""
    records = trainer.run(session, f"--precision={precision}", f"--batch_size={batch_size}",
                          f"--image_size={session.arguments.image_size}", f"--num_batches={steps}",
                          "--num_warmup_batches=10", f"--steady_seconds={steady_seconds}", "--display_every=10", *flags)
    trainer.require_falling_loss(session, records)
    return records


OURS = ["fusion", "of the floor", "peak memory", "images/J", "SM MHz", "throttled"]


def cells_of_ours(session, precision, records, speed):
    fusion = records.get("ready", {}).get("fusion")
    least = floor.images_per_second(copy_rate(session), fusion, precision, session.arguments.image_size)
    during = (records["result"].get("gpu") or {}).get("during") or {}
    reasons = during.get("throttled")  # None where NVML does not tell
    throttled = "–" if reasons is None else ", ".join(f"{name} {share(part)}" for name, part in reasons.items()) or "no"
    clock = (during.get("sm_clock_mhz") or {}).get("mean")
    return [fusion_words(records.get("ready", {})), share(speed / least if least else None),
            gigabytes(records["result"].get("device_bytes")), number(during.get("images_per_joule"), 2),
            number(clock), throttled]


def fusion_words(ready):
    """The level, and what the others took where this run has timed them."""
    timed = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in (ready.get("fusion_timed") or {}).items())
    refused = ", ".join(f"no {name}" for name in ready.get("fusion_refused") or {})
    return ready.get("fusion", "–") + (f" ({', '.join(filter(None, [timed, refused]))})" if timed or refused else "")


def refusals(ready):
    """Why levels were passed over, a line of Markdown for each: any may be a fault of ours."""
    return "".join(f"\n- no {name}: {words}" for name, words in ((ready or {}).get("fusion_refused") or {}).items())


def steps_for(batch_size):
    """Ten windows, and enough that a fast GPU takes some 3 s: it counts its energy ten times a second."""
    return max(100, min(400, 24_000 // batch_size))


# Those that are measured where none is asked for: by throughput a few, by what takes minutes for each the first.
BATCH_SIZES = (256, 128, 64)


def combinations(session, batch_sizes=BATCH_SIZES[:1]):
    return [(p, b) for b in session.arguments.batch_size or batch_sizes for p in session.arguments.precision]


def throughput(session):
    """Images per second, ours alone: a first look"""
    print(f"{session.arguments.image_size} px; device copy {rate_words(session)} read and written.\n\n"
          + head(["precision", "batch", "images/s", *OURS]), flush=True)
    outcome, pace, refused_words = OK, Pace(session, 40), ""
    for precision, batch_size in combinations(session, BATCH_SIZES):
        late = pace.too_late()
        if late:
            print(line([precision, batch_size, late] + ["–"] * len(OURS)), flush=True)
            session.row("throughput", precision=precision, batch_size=batch_size, left_out=late)
            continue
        with pace:
            try:
                records = run_ours(session, precision, batch_size, min(10, session.arguments.steady_seconds),
                                   steps_for(batch_size))
                speed = trainer.images_per_second(records)
                cells = [number(speed), *cells_of_ours(session, precision, records, speed)]
                refused_words += refusals(records.get("ready"))
                session.row("throughput", precision=precision, batch_size=batch_size, images_per_second=speed,
                            ready=records.get("ready"), result=records["result"])
            except trainer.LeftOut as why:
                cells = [f"left out: {why}"] + ["–"] * len(OURS)
                session.row("throughput", precision=precision, batch_size=batch_size, left_out=str(why))
            except trainer.Failed as failed:
                cells, outcome = [f"{FAILED}: {failed}"] + ["–"] * len(OURS), FAILED
        print(line([precision, batch_size, *cells]), flush=True)
    if refused_words:
        print(refused_words, flush=True)
    return outcome
