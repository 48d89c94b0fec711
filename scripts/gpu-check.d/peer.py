"""PyTorch as a process of its own that waits between its turns."""
import json
import os
import subprocess
import sys
import tempfile
import threading

import processes

OUT_OF_MEMORY = "out of memory"  # PyTorch's words, CUDA's own as well
SCRIPT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "pytorch_gpu.py")


class Failed(Exception):
    """PyTorch ended, in its own words."""


class Peer:
    """Each answer is waited for so many seconds; then the process is ended, and that is its failure."""

    def __init__(self, variant, precision="bf16", batch_size=1, image_size=224, seconds=600):
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, SCRIPT, f"--variant={variant}", f"--precision={precision}", f"--batch_size={batch_size}",
             f"--image_size={image_size}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            start_new_session=True)
        try:
            self.about = self._answer(seconds)
        except Failed:
            self.close()
            raise

    def _answer(self, seconds):
        overrun = threading.Event()
        timer = threading.Timer(seconds, lambda: (overrun.set(), processes.end(self.process)))
        timer.start()
        try:
            for line in self.process.stdout:
                if line.startswith("{"):
                    return json.loads(line)
            self.process.wait()
        except BaseException:  # somebody ends us: what has a session of its own would go on
            processes.end(self.process)
            raise
        finally:
            timer.cancel()
        if overrun.is_set():
            raise Failed(f"no answer in {seconds:.0f} s")
        self.errors.seek(0)
        words = [line for line in self.errors.read().splitlines() if line.strip()]
        memory = [line for line in words if OUT_OF_MEMORY in line]  # which a compiler's words may follow
        raise Failed((memory or words or [f"exit {self.process.returncode}"])[-1])

    def ask(self, command, seconds=600):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # it has ended; the answer says why
        return self._answer(seconds)

    def close(self):
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            processes.end(self.process)
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
