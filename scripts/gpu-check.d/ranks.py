"""Two ranks on one GPU: whether they are right, never how fast."""
import json
import os
import tempfile

import build
import trainer
from correctness import FAILED, OK
from session import Pace

# Shard k of the data is the k-th micro-batch over all ranks (workloads/resnet50/initialize.h), so two ranks see what one
# sees that accumulates twice. One level of fusion alone: one rank would wait while the other times several. With this gamma
# rounding does not grow from step to step.
FLAGS = ["--image_size=64", "--batch_size=16", "--num_batches=3", "--num_warmup_batches=0", "--steady_seconds=0",
         "--fusion=none", "--residual_gamma=0.1", "--stall_seconds=200", "--shared_gpu"]
# The precisions, each another type for NCCL, with the size of their buckets: those of 16 bits go in some twenty pieces. Then by
# how much the two ranks' mean losses may differ from those of the one: the first are before any exchange, the last after
# two. In 16 bits two ranks send gradients that are rounded, where the one sums in fp32, so that a few of the weights that
# the next step reads are rounded the other way: on the CPU, in bf16, that moved the last by up to 4e-4. Gradients summed and
# not averaged move it by a tenth.
PAIRS = {"fp32": (25, {"loss_first": 1e-4, "loss_last": 1e-3}),
         "fp16": (2, {"loss_first": 1e-4, "loss_last": 3e-3}),
         "bf16": (2, {"loss_first": 1e-4, "loss_last": 3e-3})}


def why_not(session):
    """Why there cannot be two; None if there can."""
    if build.of_mpi(session.arguments, "mpirun") is None:
        return "left out: there is no mpirun"
    return None if session.arguments.mpi else "left out: built without MPI"


def launcher(session, command):
    """What stands before `command` to start it twice. NCCL refuses two ranks on one GPU of one host, so each is told of a
    host of its own."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    of_rank = ["-np", "1", "-x", "NCCL_SOCKET_IFNAME=lo", "-x", "NCCL_IB_DISABLE=1", "-x"]
    return [build.of_mpi(session.arguments, "mpirun"), *root, "--oversubscribe", *of_rank, "NCCL_HOSTID=first", *command, ":",
            *of_rank, "NCCL_HOSTID=second"]


def spans_of(file):
    """How many spans of computing and of communicating a rank's trace has."""
    with open(file, encoding="utf-8") as trace:
        events = json.load(trace)["traceEvents"]
    return {kind: sum(event.get("cat") == kind for event in events) for kind in ("compute", "communication")}


def two(session, flags):
    """Results of both ranks, and the spans of their traces."""
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        flags = [*flags, "--trace=" + os.path.join(folder, "trace.json")]
        records = trainer.run(session, *flags, launcher=launcher(session, [trainer.path(session), *flags]), most_seconds=240)
        files = [os.path.join(folder, f"trace.{rank}.json") for rank in range(2)]
        return records["ranks"], [spans_of(file) if os.path.exists(file) else {} for file in files]


def faults(results, traces, alone, bounds):
    """What is wrong, in words; `alone` is the result of one rank that accumulated what two had."""
    if len(results) != 2:
        return [f"{len(results)} results, not 2"]
    wrong = []
    if len({result["parameters_hash"] for result in results}) != 1:
        wrong.append("DIFFERENT parameters")
    if len({(result.get("loss_scale"), result.get("skipped_steps")) for result in results}) != 1:
        wrong.append("DIFFERENT loss scales: an overflow was not seen by both")
    for name, most in bounds.items():
        mean = sum(result[name] for result in results) / 2
        if not abs(mean / alone[name] - 1) <= most:  # a NaN is wrong as well
            wrong.append(f"{name} {mean:.6f}, but {alone[name]:.6f} of one rank that accumulates the same shards")
    if not all(isinstance(result.get("allreduce_seconds_exposed"), float) for result in results):
        wrong.append("no time of the all-reduces that was exposed")
    if not all(trace.get("compute") and trace.get("communication") for trace in traces):
        wrong.append(f"traces without spans: {traces}")
    return wrong


def pair(session, precision):
    """What is wrong with two ranks in that precision, in words; nothing if all is well. Throws trainer.Failed."""
    bucket_mib, bounds = PAIRS[precision]
    flags = [f"--precision={precision}", f"--bucket_mib={bucket_mib}", *FLAGS]
    # First alone: then two find the engines of the same graphs known, and none waits for the other to time them.
    alone = trainer.run(session, *flags, "--accumulate_steps=2", most_seconds=240)["result"]
    results, traces = two(session, flags)
    wrong = faults(results, traces, alone, bounds)
    session.row("ranks", precision=precision, wrong=wrong, results=results, alone=alone, spans=traces)
    if not wrong:
        losses = [" and ".join(f"{result[name]:.6f}" for result in results) for name in bounds]
        exposed = ", ".join(f"{1e3 * result['allreduce_seconds_exposed']:.1f}" for result in results)
        print(f"- {precision}: 2 ranks, equal parameters after 3 steps; losses at first {losses[0]}, at last {losses[1]}; one "
              f"rank that accumulates the same shards {alone['loss_first']:.6f} and {alone['loss_last']:.6f}. Exposed "
              f"all-reduces {exposed} ms; spans {traces}", flush=True)
    return "; ".join(wrong)


def ranks(session):
    """Two ranks on one GPU (whether they agree, and with one that accumulates; never how fast)"""
    if why_not(session):
        return why_not(session)
    wrong, left_out, known, pace = [], [], False, Pace(session, 80)
    for precision in [precision for precision in PAIRS if precision in session.arguments.precision]:
        late = pace.too_late()
        try:
            if late:
                raise trainer.OutOfTime(late.removeprefix("left out: "))
            with pace:
                words = pair(session, precision)
        except trainer.LeftOut as why:
            left_out.append(f"{precision} left out: {why}")
            continue
        except trainer.Failed as failed:
            words = str(failed)
        known = True
        wrong += [f"{precision}: {words}"] if words else []
    if wrong:
        return f"{FAILED}: {'; '.join(wrong)}"
    return "; ".join(([OK] if known else []) + left_out) or "left out: it looks at fp32, fp16 and bf16 only"
