"""Sections that say how fast the GPU moves bytes: the probes, and each pass of a step beside them."""
import os

import build
import machine
import trainer
from correctness import rows_of
from session import FAILED, OK, json_lines, number, percent

PROBES = ("device_copy", "gpu_gemm", "host_to_device", "device_to_host", "peer_copy")
# Large messages only: of one GPU they say what the library costs, of several what their links carry.
NCCL = ("nccl_all_reduce,nccl_all_gather,nccl_broadcast", "--min_bytes", "1MiB", "--max_bytes", "64MiB", "--factor", "8",
        "--stall_seconds", "60")
EXIT_HOST_UNABLE = 4


def figures_of(session, name, *flags):
    """(records, why there are none or how it failed)."""
    program = build.program(session, "virtrain-probe")
    if program is None:
        return [], "left out: virtrain-probe was not built"
    command = ["env", f"LD_LIBRARY_PATH={machine.library_path()}", program, "--probe", name, "--format", "jsonl", *flags]
    done = session.run(command, 120)
    figures = [one for one in json_lines(done.out) if one.get("record") == "probe"
               and not (one.get("ranks") == 1 and (one.get("detail") or {}).get("in_place"))]  # NCCL has nothing to do there
    for figure in figures:
        session.keep("probes", **figure)
    if done.cut_off or (done.code == EXIT_HOST_UNABLE and flags):  # NCCL is loaded at run time, and may not be there
        return figures, f"left out: {done.how()}"
    if done.code != 0 or any(figure.get("wrong") for figure in figures):
        return figures, f"{FAILED}: {done.how() if done.code else 'wrong data'}"
    return figures, None if figures else "left out: no output (peer_copy needs two GPUs)"


def probes(session):
    rows, outcome = [], OK
    for name, *flags in [*((name,) for name in PROBES), NCCL]:
        figures, words = figures_of(session, name, *flags)
        rows += [[one["name"], one.get("data_type") or "–", number(one.get("size_bytes")), f"{one['value']:.4g} {one['unit']}"]
                 for one in figures]
        rows += [[name, "–", "–", words]] if words else []
        outcome = FAILED if (words or "").startswith(FAILED) else outcome
        session.show("Probes", ["probe", "type", "bytes", "value"], rows)
    return outcome


def by_pass(operations, copy_rate):
    """Sums of the trainer's profile, the longest pass first, and of all: {"pass", "operations", "seconds", "share" of the step,
    "bytes", "bytes_per_second", "of_floor": the least time that the bytes take, as a part of the time taken}."""
    sums = {}
    for operation in operations:
        for name in (operation["pass"], "all"):
            row = sums.setdefault(name, {"pass": name, "operations": 0, "seconds": 0.0, "bytes": 0})
            row["operations"] += 1
            row["seconds"] += operation["seconds"]
            row["bytes"] += operation["bytes"]
    rows = sorted(sums.values(), key=lambda row: (row["pass"] == "all", -row["seconds"]))
    for row in rows:
        row["share"] = row["seconds"] / rows[-1]["seconds"]
        row["bytes_per_second"] = row["bytes"] / row["seconds"]
        row["of_floor"] = row["bytes_per_second"] / copy_rate if copy_rate else None
    return rows


def furthest(operations, copy_rate, most=25):
    """The operations that take the longest beyond the least time of their bytes: rows of a table."""
    def beyond(operation):
        return operation["seconds"] - operation["bytes"] / copy_rate
    return [[operation["name"], number(1e6 * operation["seconds"]), number(1e6 * operation["bytes"] / copy_rate),
             number(1e6 * beyond(operation)), operation.get("graph") or "–", operation.get("engine") or "–"]
            for operation in sorted(operations, key=beyond, reverse=True)[:most]]


def passes(session):
    figures, _ = figures_of(session, "device_copy")
    copy_rate = max((figure["value"] for figure in figures if figure["unit"] == "B/s"), default=None)

    def profile(session, precision, batch_size):
        file = os.path.join(session.arguments.out, f"profile-{precision}.jsonl")
        try:
            records = trainer.run(session, f"--precision={precision}", f"--batch_size={batch_size}", "--num_batches=30",
                                  f"--image_size={trainer.IMAGE_SIZE}", "--num_warmup_batches=10", "--steady_seconds=0",
                                  f"--profile_step={file}")
            trainer.require_falling_loss(records)
        except trainer.Failed as failed:
            return trainer.verdict(failed), "–", str(failed)
        with open(file, encoding="utf-8") as lines:
            operations = json_lines(lines.read())
        rows = by_pass(operations, copy_rate)
        session.keep("passes", precision=precision, batch_size=batch_size, passes=rows)
        session.show(f"Passes of {precision}", ["pass", "operations", "ms", "of the step", "MB an image", "TB/s", "of the floor"], [
            [row["pass"], row["operations"], number(1e3 * row["seconds"], 3), percent(row["share"]),
             number(row["bytes"] / batch_size / 1e6, 1), number(row["bytes_per_second"] / 1e12, 2), percent(row["of_floor"])]
            for row in rows], ["The floor is the bytes at the rate of a device copy: "
                               f"{number(copy_rate and copy_rate / 1e12, 2)} TB/s, read and written."])
        if copy_rate:
            session.show(f"Operations of {precision} furthest above their bytes",
                         ["operation", "µs", "bytes' µs", "beyond", "graph", "engine"], furthest(operations, copy_rate))
        return OK, records["ready"].get("fusion"), (f"the step as one graph takes {1e3 * records['result']['step_seconds_p50']:.2f} ms, "
                                                    f"its operations one by one {1e3 * rows[-1]['seconds']:.2f} ms")

    cases = [(precision, session.arguments.batch_size[0]) for precision in session.arguments.precision]
    return rows_of(session, "Passes", ["precision", "batch", "result", "fusion", "details"], cases, profile)
