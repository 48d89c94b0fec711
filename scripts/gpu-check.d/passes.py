"""The section that says where a step's time goes, pass by pass."""
import json
import os
import tempfile

import speed
import trainer
from correctness import FAILED, OK
from session import Pace
from tables import head, line, number, share


def by_pass(operations, bytes_per_second):
    """Sums of the trainer's profile, the longest pass first: {"pass", "operations", "seconds", "share" of the step,
    "bytes", "bytes_per_second", "of_floor": the least time that the bytes take, as a part of the time taken}."""
    sums = {}
    for operation in operations:
        row = sums.setdefault(operation["pass"], {"pass": operation["pass"], "operations": 0, "seconds": 0.0, "bytes": 0})
        row["operations"] += 1
        row["seconds"] += operation["seconds"]
        row["bytes"] += operation["bytes"]
    rows = sorted(sums.values(), key=lambda row: -row["seconds"])
    if rows:
        rows.append({"pass": "all", **{name: sum(row[name] for row in rows) for name in ("operations", "seconds", "bytes")}})
    for row in rows:
        row["share"] = row["seconds"] / rows[-1]["seconds"]
        row["bytes_per_second"] = row["bytes"] / row["seconds"]
        row["of_floor"] = row["bytes_per_second"] / bytes_per_second if bytes_per_second else None
    return rows


def profile(session, precision, batch_size):
    """The operations of one step, and the records of the short run behind it."""
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        file = os.path.join(folder, "profile.jsonl")
        records = trainer.run(session, f"--precision={precision}", f"--batch_size={batch_size}",
                              f"--image_size={session.arguments.image_size}", "--num_batches=30",
                              "--num_warmup_batches=10", "--steady_seconds=0", f"--profile_step={file}")
        trainer.require_falling_loss(session, records)
        with open(file, encoding="utf-8") as lines:
            return [json.loads(words) for words in lines], records


def show(session, precision, batch_size):
    operations, records = profile(session, precision, batch_size)
    rows = by_pass(operations, speed.copy_rate(session))
    session.row("passes", precision=precision, batch_size=batch_size, fusion=records["ready"].get("fusion"),
                passes=rows, operations=operations)
    step = records["result"]["step_seconds_p50"]
    print(f"\n{precision}, batch {batch_size}, fusion {records['ready'].get('fusion')}: the step as one graph takes "
          f"{1e3 * step:.2f} ms, its operations one by one {1e3 * rows[-1]['seconds']:.2f} ms.\n\n"
          + head(["pass", "operations", "ms", "of the step", "MB an image", "TB/s", "of the floor"]))
    for row in rows:
        print(line([row["pass"], row["operations"], number(1e3 * row["seconds"], 3), share(row["share"]),
                    number(row["bytes"] / batch_size / 1e6, 1), number(row["bytes_per_second"] / 1e12, 2),
                    share(row["of_floor"])]))
    longest = sorted(operations, key=lambda operation: -operation["seconds"])[:10]
    print("\nThe ten longest operations:\n\n" + head(["operation", "ms", "TB/s", "cuDNN's engine"]))
    for one in longest:
        print(line([one["name"], number(1e3 * one["seconds"], 3), number(one["bytes_per_second"] / 1e12, 2),
                    one["engine"] or "ours"]))


def passes(session):
    """Where the time goes, pass by pass"""
    print(f"Device copy {speed.rate_words(session)} read and written. The floor of a pass is its bytes at that rate; a "
          "convolution may be bound by arithmetic instead.", flush=True)
    outcome, pace = OK, Pace(session, 60)
    for precision, batch_size in speed.combinations(session):
        late = pace.too_late()
        if late:
            print(f"\n{precision}, batch {batch_size}: {late}", flush=True)
            continue
        with pace:
            try:
                show(session, precision, batch_size)
            except trainer.LeftOut as why:
                print(f"\n{precision}, batch {batch_size}: left out: {why}", flush=True)
                session.row("passes", precision=precision, batch_size=batch_size, left_out=str(why))
            except trainer.Failed as failed:
                print(f"\n{precision}, batch {batch_size}: {FAILED}: {failed}", flush=True)
                outcome = FAILED
    return outcome
