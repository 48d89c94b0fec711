"""Two ranks on one GPU: whether they are right, never how fast."""
import os

import build
import trainer
from correctness import FAILED, OK


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


def ranks(session):
    """Two ranks on one GPU (whether they agree, never how fast)"""
    if why_not(session):
        return why_not(session)
    # One waits while the other times engines, so there is one level of fusion alone, and patience.
    flags = ["--precision=fp32", "--image_size=64", "--batch_size=16", "--num_batches=3", "--num_warmup_batches=0",
             "--steady_seconds=0", "--fusion=none", "--stall_seconds=200"]
    try:
        records = trainer.run(session, *flags, launcher=launcher(session, [trainer.path(session), *flags]), most_seconds=240)
    except trainer.Failed as failed:
        return f"{FAILED}: {failed}"
    results = records["ranks"]
    hashes = {result["parameters_hash"] for result in results}
    print(f"{len(results)} ranks, {'equal' if len(hashes) == 1 else 'DIFFERENT'} parameters after 3 steps")
    return OK if len(results) == 2 and len(hashes) == 1 else FAILED
