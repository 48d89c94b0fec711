"""Two ranks on one GPU: whether they are right, never how fast."""
import json
import os
import tempfile

import build
import machine
import trainer
from correctness import rows_of
from session import FAILED, OK

# Shard k of the data is the k-th micro-batch over all ranks (workloads/resnet50/model.h), so two ranks see what one
# sees that accumulates twice. One level of fusion alone: one rank would wait while the other times several. With this gamma
# rounding does not grow from step to step.
FLAGS = ["--image_size=64", "--batch_size=16", "--num_batches=3", "--num_warmup_batches=0", "--steady_seconds=0",
         "--fusion=none", "--residual_gamma=0.1", "--stall_seconds=200", "--shared_gpu"]
# Each precision is another type for NCCL. The size of its buckets (those of 16 bits go in some twenty pieces), and by how much
# the two ranks' mean last loss may differ from that of the one. In 16 bits two ranks send rounded gradients, where the one
# sums in fp32: on the CPU, in bf16, that moved it by up to 4e-4. Gradients summed and not averaged move it by a tenth.
PAIRS = {"fp32": (25, 1e-3), "fp16": (2, 3e-3), "bf16": (2, 3e-3)}


def why_not(session):
    """Why there cannot be two; None if there can."""
    if build.of_mpi(session.arguments, "mpirun") is None:
        return "left out: there is no mpirun (--collect gets one)"
    if not session.mpi:
        return "left out: built without MPI (mpicxx is missing, or CMake cannot use it)"
    if not machine.loopback_is_up():
        return "left out: the loopback interface is down, without which Open MPI starts no ranks (ip link set lo up)"
    return None


def launcher(session, command):
    """What stands before `command` to start it twice. NCCL refuses two ranks on one GPU of one host, so each is told of a
    host of its own."""
    root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
    of_rank = ["-np", "1", "-x", "NCCL_SOCKET_IFNAME=lo", "-x", "NCCL_IB_DISABLE=1", "-x"]
    return [build.of_mpi(session.arguments, "mpirun"), *root, "--oversubscribe", *of_rank, "NCCL_HOSTID=first", *command, ":",
            *of_rank, "NCCL_HOSTID=second"]


def kinds_of_spans(file):
    if not os.path.exists(file):
        return set()
    with open(file, encoding="utf-8") as trace:
        return {event.get("cat") for event in json.load(trace)["traceEvents"]}


def faults(results, traces, alone, bound):
    """What is wrong; `alone` is the result of one rank that accumulated what two had."""
    if len(results) != 2:
        return [f"{len(results)} results, not 2"]
    wrong = []
    if len({result["parameters_hash"] for result in results}) != 1:
        wrong.append("DIFFERENT parameters")
    if len({(result.get("loss_scale"), result.get("skipped_steps")) for result in results}) != 1:
        wrong.append("DIFFERENT loss scales: an overflow was not seen by both")
    for name, most in (("loss_first", 1e-4), ("loss_last", bound)):  # the first is before any exchange
        mean = sum(result[name] for result in results) / 2
        if not abs(mean / alone[name] - 1) <= most:  # a NaN is wrong as well
            wrong.append(f"{name} {mean:.6f}, but {alone[name]:.6f} of one rank that accumulates the same shards")
    if not all(isinstance(result.get("allreduce_seconds_exposed"), float) for result in results):
        wrong.append("no time of the all-reduces that was exposed")
    if not all({"compute", "communication"} <= kinds for kinds in traces):
        wrong.append("traces without spans of computing or communicating")
    return wrong


def pair(session, precision):
    """(verdict, details). Throws trainer.OutOfTime."""
    bucket_mib, bound = PAIRS[precision]
    flags = [f"--precision={precision}", f"--bucket_mib={bucket_mib}", *FLAGS]
    try:
        # First alone: then two find the engines of the same graphs known, and none waits for the other to time them.
        alone = trainer.run(session, *flags, "--accumulate_steps=2")["result"]
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
            flags.append(f"--trace={folder}/trace.json")
            results = trainer.run(session, *flags, launcher=launcher(session, [trainer.path(session), *flags]))["ranks"]
            traces = [kinds_of_spans(f"{folder}/trace.{rank}.json") for rank in range(2)]
    except trainer.Failed as failed:
        return trainer.verdict(failed), str(failed)
    wrong = faults(results, traces, alone, bound)
    session.keep("ranks", precision=precision, wrong=wrong, results=results, alone=alone)
    losses = " and ".join(f"{result['loss_last']:.6f}" for result in results)
    return FAILED if wrong else OK, "; ".join(wrong) or (
        f"equal parameters after 3 steps, last losses {losses}, of one that accumulates {alone['loss_last']:.6f}")


def ranks(session):
    columns = ["precision", "result", "details"]
    return why_not(session) or rows_of(session, "Two ranks on one GPU", columns, [(precision,) for precision in PAIRS], pair)
