"""Runs the trainer and reads its records."""
import json
import os
import re
import statistics

import plans

TRAINER = "virtrain-resnet50-cuda"
MOST_SECONDS = 900
LEAST_SECONDS = 120  # start, a minute or more for engines that are not known yet, and the run
EXIT_USAGE = 2
FALLEN = 0.9


class Failed(Exception):
    """A run ended badly, in its own words."""


class LeftOut(Failed):
    """There is no result, and nobody's fault."""


class DoesNotFit(LeftOut):
    """The batch is too large for the GPU's memory: in the trainer's words, the largest that is not."""


class OutOfTime(LeftOut):
    """Our own time ended, or what is left belongs to the sections behind."""


class NoSuchFusion(Failed):
    """cuDNN has no such level for this precision on this GPU, which is no fault either."""


NO_SUCH_FUSION = re.compile(r"parse flags: .* cuDNN has no more than|find cuDNN's engines:")


def records_of(text):
    """{"hello": …, "ready": …, "result": …}: rank 0's own, the first of each; "samples" has all of its samples, "ranks"
    all results of ranks."""
    found = {"ranks": [], "samples": []}
    for line in text.splitlines():
        try:
            record = json.loads(line) if line.startswith("{") else {}
        except ValueError:
            continue
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


def require_falling_loss(session, records):
    """Throws Failed where a run that was timed has not trained. All its steps see one batch, from the same start, and its
    first is the first of its warm-up: in 30 steps the loss falls from 7.1 to 2.5 with 32 images of 224 px, to 3.2 with 256
    of 64 px (CPU, fp32). Later in a run it may have nowhere to fall."""
    first, last = records["warmup"]["loss"], records["result"]["loss_last"]
    if last is not None and last < FALLEN * first:  # a NaN is no fall
        return
    words = f"it does not train: the loss was {first} after the first step and is {last} after the last"
    session.row("failure", words=words, ready=records.get("ready"), result=records["result"])
    raise Failed(words)


def words_of(done):
    error = records_of(done.out).get("error")
    if error:
        return f"{error.get('operation')}: {error.get('message')}"
    return f"exit {done.code}: {done.last_words()}"


def path(session):
    return os.path.join(session.arguments.build_folder, TRAINER)


def run(session, *flags, launcher=(), most_seconds=MOST_SECONDS):
    """One run from "go" to its result; the sections behind it keep their time. Throws Failed."""
    command = [*launcher, path(session), *flags]
    done = session.run(command, most_seconds, LEAST_SECONDS, given="go\n")
    plans.keep()
    records = records_of(done.out)
    if done.code == 0 and "result" in records:
        return records
    words = words_of(done)
    if done.code is None:
        reached = [name for name in ("hello", "ready", "warmup", "sample", "result") if name in records]
        words = f"{done.cut_off or f'not done after {most_seconds:.0f} s'}; it reached {reached[-1] if reached else 'nothing'}"
    if done.cut_off:
        raise OutOfTime(words)
    if done.code == EXIT_USAGE and "does not fit in" in words:
        raise DoesNotFit(words)
    if NO_SUCH_FUSION.match(words):
        raise NoSuchFusion(words)
    session.row("failure", flags=flags, words=words, out=done.out[-4000:], err=done.err[-4000:])
    raise Failed(words)
