"""One run of gpu-check: what was asked for, the time that is left, and the file that keeps what was measured."""
import json
import math
import os
import time

import processes


def minutes(seconds):
    """ "5 min", "40 s": for people."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Session:
    """`arguments` are those of the command line; without --minutes time has no end."""

    # For the summary, and for programs that must be ended.
    RESERVE_SECONDS = 10

    def __init__(self, arguments, clock=time.monotonic):
        self.arguments = arguments
        self.clock = clock
        self.begin = clock()
        allowed = getattr(arguments, "minutes", None)
        self.end = self.begin + 60 * allowed - self.RESERVE_SECONDS if allowed else math.inf
        self.results = getattr(arguments, "results", None)
        self.needed_now = 0  # seconds, at least, by the section that runs
        self.needed_later = 0  # by what comes behind it

    def left(self):
        """Seconds, perhaps none."""
        return max(0, self.end - self.clock())

    def limit(self, most):
        """The seconds that something may take which must not take more than `most`."""
        return min(most, self.left())

    def too_late(self, needs):
        """Why something that takes about `needs` seconds is left out; None if it fits."""
        if needs <= self.left():
            return None
        return f"left out: {minutes(self.left())} left, needs about {minutes(needs)}"

    def run(self, command, most, least=math.inf, **given):
        """processes.run for at most `most` seconds. What names the `least` that it can do with leaves the sections behind it
        their time. `cut_off` of what comes back says so where our time ended it, which is no fault of the program's."""
        seconds = min(most, self.left(), max(self.left() - self.needed_later, least))
        done = processes.run(command, seconds, **given)
        done.cut_off = f"cut off after {seconds:.0f} s" if done.code is None and seconds < most else None
        return done

    def row(self, section, **fields):
        """Keeps what was measured at once: a run that is cut off loses nothing."""
        if not self.results:
            return
        os.makedirs(os.path.dirname(os.path.abspath(self.results)), exist_ok=True)
        with open(self.results, "a", encoding="utf-8") as file:
            file.write(json.dumps({"section": section, "at_s": round(self.clock() - self.begin, 1), **fields}) + "\n")


class Pace:
    """How long the next row of a table will take: as long as the longest so far, at first a guess."""

    def __init__(self, session, guess):
        self.session = session
        self.needs = guess
        self.known = False

    def too_late(self):
        """The first row comes at any rate; further ones leave the sections behind their time."""
        return self.session.too_late(self.needs + (self.session.needed_later if self.known else 0))

    def __enter__(self):
        self.begin = self.session.clock()
        return self

    def __exit__(self, *_):
        took = self.session.clock() - self.begin
        self.needs = max(self.needs, took) if self.known else took
        self.known = True
