"""Runs the trainer and reads its records."""
import os
import re
import statistics

from session import FAILED, json_lines

TRAINER = "virtrain-resnet50-cuda"
IMAGE_SIZE = 224  # of all that is timed
FALLEN = 0.9
NOT_HERE = re.compile(r"does not fit in|parse flags: .* cuDNN has no more than|find cuDNN's engines:")


class Failed(Exception):
    """A run ended badly."""


class LeftOut(Failed):
    """There is no result, which is no fault: this GPU or machine cannot do it."""


class OutOfTime(LeftOut):
    """Our own time ended."""


def records_of(text):
    """{"hello": …, "ready": …, "result": …}: rank 0's own, the first of each; "samples" has all of its samples, "ranks"
    all results of ranks."""
    found = {"ranks": [], "samples": []}
    for record in json_lines(text):
        kind = record.get("record")
        if kind == "result" and record.get("scope") == "rank":
            found["ranks"].append(record)
        if record.get("rank", 0) == 0:
            found.setdefault(kind, record)
            if kind == "sample":
                found["samples"].append(record)
    return found


def images_per_second(records):
    """By the median of the windows between samples, as PyTorch's is by that of its own; the mean where there are none."""
    windows = [sample["images"] / sample["seconds"] for sample in records["samples"]]
    return statistics.median(windows) if windows else records["result"]["images_per_second"]


def require_falling_loss(records):
    """Throws Failed where a run that was timed has not trained. All its steps see one batch, from the same start: in 30
    steps the loss falls from 7.1 to 2.5 with 32 images of 224 px, to 3.2 with 256 of 64 px (CPU, fp32)."""
    first, last = records["warmup"]["loss"], records["result"]["loss_last"]
    if last is None or not last < FALLEN * first:  # a NaN is no fall
        raise Failed(f"it does not train: the loss was {first} after the first step and is {last} after the last")


def verdict(failed):
    """Of a row in a table. Time's end is none: it ends the table."""
    if isinstance(failed, OutOfTime):
        raise failed
    return "left out" if isinstance(failed, LeftOut) else FAILED


def path(session):
    return os.path.join(session.arguments.build_folder, TRAINER)


def run(session, *flags, launcher=(), most=900):
    """The records of one run. Throws Failed."""
    done = session.run([*launcher, path(session), *flags], most, given="go\n")
    records = records_of(done.out)
    if done.code == 0 and "result" in records:
        return records
    error = records.get("error")
    words = f"{error.get('operation')}: {error.get('message')}" if error and done.code is not None else done.how()
    if done.cut_off:
        raise OutOfTime(words)
    if error and NOT_HERE.search(words):
        raise LeftOut(words)
    session.keep("failure", flags=flags, words=words, out=done.out[-4000:], err=done.err[-4000:])
    raise Failed(words)
