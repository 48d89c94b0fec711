"""One run of gpu-check: the time that is left, programs that end with it, and the folder that keeps what was measured."""
import json
import math
import os
import signal
import subprocess
import time
import typing

OK = "ok"
FAILED = "FAILED"


class Done(typing.NamedTuple):
    """How a program ended. `code` is None where it was ended; `cut_off` says so where our own time was the reason."""

    code: typing.Optional[int]
    out: str
    err: str
    cut_off: typing.Optional[str] = None

    def how(self):
        return self.cut_off or ("not done in time" if self.code is None else f"exit {self.code}: {self.last_words()}")

    def last_words(self):
        said = [line for line in (self.err.strip() or self.out.strip()).splitlines() if line.strip()]
        return said[-1] if said else "no output"


def end(process):
    """With all that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Held:
    """Signals that end us wait while a program starts: until Popen has returned, nobody knows whom to end."""

    def __enter__(self):
        self.came = []
        self.before = {number: signal.signal(number, lambda number, _: self.came.append(number))
                       for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def release(self):
        for number, handler in self.before.items():
            signal.signal(number, handler)
        for number in self.came:
            signal.raise_signal(number)
        self.before, self.came = {}, []

    def __exit__(self, *_):
        self.release()


def number(value, digits=0):
    return "–" if value is None else f"{value:,.{digits}f}"


def percent(value):
    return "–" if value is None else f"{100 * value:.0f} %"


def table(columns, rows):
    def line(row):
        return "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
    return "\n".join([line(columns), "|" + "---|" * len(columns), *map(line, rows)])


def json_lines(text):
    found = []
    for words in text.splitlines():
        try:
            record = json.loads(words) if words.startswith("{") else None
        except ValueError:
            continue
        if isinstance(record, dict):
            found.append(record)
    return found


class Session:
    END_SECONDS = 5  # for programs that must be ended

    def __init__(self, arguments, clock=time.monotonic):
        self.arguments, self.clock = arguments, clock
        self.begin = clock()
        self.end = self.begin + 60 * arguments.minutes - self.END_SECONDS if arguments.minutes else math.inf
        self.section_end = self.end
        self.mpi = True  # whether the programs are built with it
        self.blocks = {}  # of the summary, by title
        self.heading = "# GPU check"
        os.makedirs(arguments.out, exist_ok=True)

    def left(self):
        """Seconds of the section that runs."""
        return max(0, min(self.end, self.section_end) - self.clock())

    def run(self, command, most, given=""):
        """Runs a program for at most `most` seconds, and no longer than the section may."""
        seconds = min(most, self.left())
        with Held() as held:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                       errors="replace", start_new_session=True)
            try:
                held.release()
                out, err = process.communicate(given, timeout=seconds)
                return Done(process.returncode, out, err)
            except subprocess.TimeoutExpired:
                end(process)
                return Done(None, *process.communicate(), f"cut off after {seconds:.0f} s" if seconds < most else None)
            finally:  # also when somebody ends us
                end(process)
                process.wait()

    def describe(self, facts, command):
        self.heading = f"# {facts['card']}, {facts['date']}\n\n" + table(facts.keys(), [facts.values()])
        self.keep("run", command=command, **facts)

    def keep(self, section, **fields):
        """Keeps a figure as soon as it is known."""
        with open(os.path.join(self.arguments.out, "results.jsonl"), "a", encoding="utf-8") as file:
            file.write(json.dumps({"section": section, "at_s": round(self.clock() - self.begin, 1), **fields}) + "\n")

    def again(self):
        """The flags with which another process of ours works on the same."""
        arguments = self.arguments
        return ["--build_folder", arguments.build_folder, "--precision", *arguments.precision,
                "--batch_size", *map(str, arguments.batch_size), *(["--headers", arguments.headers] if arguments.headers else [])]

    def take_blocks(self, text, but):
        """Those of another summary, but for the one of that title."""
        for block in text.split("\n## ")[1:]:
            title, _, words = block.partition("\n\n")
            if title != but:
                self.blocks[title] = words.strip()

    def text(self):
        """The summary, as Markdown."""
        return "\n\n".join([self.heading, *(f"## {title}\n\n{text}" for title, text in self.blocks.items())]) + "\n"

    def show(self, title, columns, rows, notes=()):
        """A table of the summary, which is written anew whenever one has grown."""
        self.blocks[title] = "\n\n".join(filter(None, [table(columns, rows), "\n".join(notes)]))
        path = os.path.join(self.arguments.out, "summary.md")
        with open(path + ".new", "w", encoding="utf-8") as file:
            file.write(self.text())
        os.replace(path + ".new", path)  # whole at any moment
