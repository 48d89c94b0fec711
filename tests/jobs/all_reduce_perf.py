#!/usr/bin/python3
"""Stand-in for nccl-tests' all_reduce_perf, whose output it prints word for word, line by line: all_reduce_perf.py [BYTES]...
Each row sleeps as long as its operations say that they take. Options: --burst prints all at once at the end, --wrong says that
data was wrong, --cut leaves the conclusion out, --each has every rank print a table."""

import os
import sys
import time

options = [word for word in sys.argv[1:] if word.startswith("--")]
sizes = [int(word) for word in sys.argv[1:] if not word.startswith("--")] or [1024, 1048576, 8388608]
rank = int(os.environ.get("OMPI_COMM_WORLD_RANK", "0"))
ranks = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "2"))
ITERATIONS = 20

if rank > 0 and "--each" not in options:
    sys.exit()
lines = []


def say(line):
    if "--burst" in options:
        lines.append(line)
    else:
        print(line, flush=True)


say(f"# nThread 1 nGpus 1 minBytes {sizes[0]} maxBytes {sizes[-1]} step: 2(factor) warmup iters: 5 iters: {ITERATIONS} agg iters: 1 validation: 1 graph: 0")
say("#")
say("# Using devices")
for one in range(ranks):
    say(f"#  Rank {one:2d} Group  0 Pid {4000 + one:6d} on     node-a device {one:2d} [0000:{7 + one:02x}:00] NVIDIA Test GPU")
say("#")
say("#                                                              out-of-place                       in-place          ")
say("#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong")
say("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       ")
for size in sizes:
    row = f"{size:12d}  {size // 4:12d}     float     sum      -1"
    for side in ("out", "in"):
        seconds = 0.001 + size / 4e9
        if "--burst" in options:
            seconds = 1
        else:
            time.sleep(seconds * ITERATIONS)
        rate = size / seconds / 1e9
        wrong = 3 if "--wrong" in options and side == "in" else 0
        row += f"   {seconds * 1e6:8.2f} {rate:7.4f} {rate * 2 * (ranks - 1) / ranks:7.4f} {wrong:6d}"
    say(row)
if "--cut" not in options:
    say("# Out of bounds values : %s" % ("3 FAILED" if "--wrong" in options else "0 OK"))
    say("# Avg bus bandwidth    : 1.0")
    say("#")
for line in lines:
    print(line)
