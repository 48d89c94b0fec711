"""What the tests of gpu-check share: a folder with stand-ins for programs, a clock, and a trainer."""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu-check.d"))
import machine  # noqa: E402
import trainer  # noqa: E402
from session import Session  # noqa: E402

patch = unittest.mock.patch

# Its speed is that of most windows, not the mean: one was disturbed. It grows by one with each run.
TRAINER = """echo "ours $*" >> log
case "$*" in *=4096*)
  words='batch 4096 does not fit in 79.1 GiB; the largest that does is 1800'
  echo '{"record":"error","rank":0,"operation":"plan the memory","message":"'$words'"}'; exit 2;;
esac
[ "$(grep -c ours log)" = "$FAILS_AT" ] && { echo 'an illegal access' >&2; exit 1; }
echo '{"record":"ready","rank":0,"fusion":"full","fusion_refused":{"none":"no engine"}}'
for loss in 7.1 3.1; do echo '{"record":"warmup","rank":0,"loss":'$loss'}'; done
for seconds in 1 9.9 1; do
  echo '{"record":"sample","rank":0,"images":'$((1000 + $(grep -c ours log)))',"seconds":'$seconds'}'
done
echo '{"record":"result","rank":0,"scope":"rank","loss_last":'${LAST_LOSS-3.2}',"device_bytes":41500000000,'\
'"gpu":{"during":{"throttled":{"power":0.25},"sm_clock_mhz":{"mean":1980}}}}'
"""


def out_of_time(*_, **__):
    raise trainer.OutOfTime("cut off after 7 s")


class Clock:
    """Time that passes when it is told to."""
    now = 1000.0

    def __call__(self):
        return self.now


def is_gone(process):
    """Whether it has ended, or does so soon: a signal needs its moment."""
    for _ in range(2000):
        try:
            state = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="utf-8").split(")")[-1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


class Stage(unittest.TestCase):
    """A folder with the stand-ins, in which the test runs."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        (self.folder / "log").touch()
        stack.enter_context(patch.dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}"))
        stack.enter_context(patch.object(machine, "has_torch", lambda: True))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))

    def program(self, name, script):
        path = self.folder / name
        path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
        path.chmod(0o755)

    def session(self, seconds=None, clock=time.monotonic, **more):
        """With `seconds` so many are left."""
        arguments = {"minutes": seconds and (seconds + Session.END_SECONDS) / 60, "out": "out", "build_folder": str(self.folder),
                     "precision": ["fp16"], "batch_size": [256], "rounds": 3, "headers": None, "at_once": True, "built": False,
                     "build_only": False, "sections": [], **more}
        self.current = Session(argparse.Namespace(**arguments), clock)
        return self.current

    def kept(self, section):
        lines = (self.folder / "out" / "results.jsonl").read_text(encoding="utf-8").splitlines()
        return [row for row in map(json.loads, lines) if row["section"] == section]

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    def rows(self):
        """The cells of the summary as it is on the disk."""
        lines = (self.folder / "out" / "summary.md").read_text(encoding="utf-8").splitlines()
        return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")]
