"""Programs that are given so much time and no more, with all that they have started."""
import os
import signal
import subprocess
import tempfile
import threading


class Done:
    """How a program ended: `code` is None for one that took too long."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    def last_words(self, lines=1):
        """The end of what it said, on standard error if there is any."""
        said = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return "\n".join(said[-lines:]) or "it said nothing"


def end(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(command, seconds, given="", on_line=None):
    """Runs it for at most so many seconds (math.inf: no limit); `on_line` sees each line of its output at once."""
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                                   errors="replace", start_new_session=True)
        overrun = threading.Event()
        timer = threading.Timer(min(seconds, 86400), lambda: (overrun.set(), end(process)))
        timer.start()
        out = []
        try:
            try:
                process.stdin.write(given)
                process.stdin.close()
            except BrokenPipeError:
                pass  # it has ended; its status says why
            for line in process.stdout:
                out.append(line)
                if on_line:
                    on_line(line.rstrip("\n"))
            process.wait()
        finally:
            timer.cancel()
            end(process)
            process.stdout.close()
            process.wait()
        errors.seek(0)
        return Done(None if overrun.is_set() else process.returncode, "".join(out), errors.read())
