"""The section that compares: ours and PyTorch's fastest variant take turns on the same GPU."""
import statistics

import machine
import peer
import speed as ours
import trainer
from correctness import FAILED, OK
from session import Pace
from tables import head, line, number

# Start, a few steps (of which the first ones try cuDNN's engines, or compile), and seconds to warm up.
VARIANT_SECONDS = {"eager": 45, "graph": 45, "compile": 100, "compile-graphs": 100}


class Variant:
    """One way to run PyTorch's step. Its process waits between turns; closed, it leaves its memory to others, and starts
    again for the next one."""

    def __init__(self, session, name, precision, batch_size):
        self.session, self.name, self.precision, self.batch_size = session, name, precision, batch_size
        self.process = None
        self.speed = None  # at first sight

    def turn(self, steps, steady_seconds, most_seconds=300):
        """Images per second."""
        end = self.session.clock() + self.session.limit(most_seconds)
        try:
            if self.process is None:
                self.process = peer.Peer(self.name, self.precision, self.batch_size, self.session.arguments.image_size,
                                         end - self.session.clock())
            answer = self.process.ask(f"steps {steps} {steady_seconds}", end - self.session.clock())
        except peer.Failed:
            self.close()
            raise
        return self.batch_size / answer["seconds"]

    def first_look(self, most_seconds):
        self.speed = self.turn(30, min(5, self.session.arguments.steady_seconds), most_seconds)

    def close(self):
        if self.process:
            self.process.close()
        self.process = None


def faster(best, challenger, most_seconds):
    """The one of the two; the other is closed. Throws peer.Failed where the challenger does not run in that time."""
    try:
        challenger.first_look(most_seconds)
    except peer.Failed as failed:
        if best is None or peer.OUT_OF_MEMORY not in str(failed):
            raise
        best.close()  # there may be room for one of them
        challenger.first_look(most_seconds)
    winner, loser = (best, challenger) if best and best.speed >= challenger.speed else (challenger, best)
    if loser:
        loser.close()
    return winner


def turns_seconds(arguments):
    """Of both sides."""
    return 2 * arguments.rounds * (arguments.steady_seconds + 15)


def least_seconds(arguments):
    """Of a row: our engines are looked for, then both sides take their turns."""
    return 60 + turns_seconds(arguments)


class Row:
    """One precision and batch size. What is known is kept at once, whatever happens to the rest."""

    def __init__(self, session, precision, batch_size):
        self.session, self.precision, self.batch_size = session, precision, batch_size
        self.mine, self.theirs, self.records = [], [], None  # turns of both; what our latest run has said
        self.best, self.variant, self.tried = None, None, []  # PyTorch's fastest, its name, what came of each variant
        self.untried = 0  # variants left out for want of time: one of them may be the fastest
        self.wrong = None  # on our side, in words

    def keep(self, section, **fields):
        self.session.row(section, precision=self.precision, batch_size=self.batch_size, **fields)

    def compare(self, favourite, rows_after):
        try:
            self.first_look()
            self.find_fastest(favourite, rows_after)
            self.take_turns()
        except trainer.LeftOut as why:
            self.wrong = f"left out: {why}"
        except trainer.Failed as failed:
            self.wrong = f"{FAILED}: {failed}"
        finally:  # also when somebody ends us
            if self.best:
                self.best.close()
            self.keep("speed", ours=self.mine, pytorch=self.theirs, variant=self.variant, tried=self.tried, wrong=self.wrong,
                      ready=(self.records or {}).get("ready"), result=(self.records or {}).get("result"))

    def run_ours(self, steady_seconds, steps):
        """PyTorch, which waits for its turn, may keep its process on the GPU."""
        shares = ["--shared_gpu"] if self.best and self.best.process else []
        return ours.run_ours(self.session, self.precision, self.batch_size, steady_seconds, steps, *shares)

    def first_look(self):
        """Ours alone on the GPU: engines and fusion are chosen with all of its memory, and what does not fit is known."""
        self.records = self.run_ours(0, 20)
        self.keep("speed_first_look", side="ours", images_per_second=trainer.images_per_second(self.records),
                  ready=self.records.get("ready"))

    def find_fastest(self, favourite, rows_after):
        """PyTorch's, the likely ones first."""
        arguments = self.session.arguments
        if not machine.has_torch():
            self.tried.append("no PyTorch")
            return
        names = ["eager", "graph"] + (["compile-graphs", "compile"] if arguments.compile else [])
        # For the turns of both, the rows behind, and the sections behind those.
        reserve = turns_seconds(arguments) + rows_after * least_seconds(arguments) + self.session.needed_later
        at_any_rate = favourite or "eager"  # the fastest of the row before, else the quickest to start
        for name in dict.fromkeys([at_any_rate, *names]):
            # It leaves alone the time for the turns, eager without another one nothing, the others all that comes.
            spare = turns_seconds(arguments) if name == at_any_rate else reserve
            if name == "eager" and self.best is None:
                spare = 0
            late = self.session.too_late(VARIANT_SECONDS[name] + spare)
            self.untried += bool(late)
            self.tried.append(f"{name} {late}" if late else self.challenge(name, min(400, self.session.left() - spare)))
        self.variant = self.best.name if self.best else None

    def challenge(self, name, most_seconds):
        """What came of it, in words."""
        challenger = Variant(self.session, name, self.precision, self.batch_size)
        try:
            self.best = faster(self.best, challenger, most_seconds)
        except peer.Failed as failed:
            self.keep("speed_first_look", side=name, failed=str(failed))
            return f"{name}: {failed}"
        self.keep("speed_first_look", side=name, images_per_second=challenger.speed)
        return f"{name} {challenger.speed:,.0f}"

    def take_turns(self):
        """As many rounds as there is time for; who goes first changes, as the GPU is warmer for the second."""
        sides = [self.my_turn, self.their_turn]
        pace = Pace(self.session, 2 * (self.session.arguments.steady_seconds + 15))
        for _ in range(self.session.arguments.rounds):
            late = pace.too_late()
            if late:
                self.wrong = None if self.mine else late
                break
            with pace:
                for side in sides:
                    side()
            sides.reverse()

    def my_turn(self):
        arguments = self.session.arguments
        try:
            self.records = self.run_ours(arguments.steady_seconds, arguments.steps)
        except trainer.DoesNotFit:
            if self.best is None or self.best.process is None:
                raise
            self.best.close()  # it fitted at first sight, alone
            self.records = self.run_ours(arguments.steady_seconds, arguments.steps)
        self.mine.append(trainer.images_per_second(self.records))
        self.keep("speed_turn", side="ours", images_per_second=self.mine[-1])

    def their_turn(self):
        arguments = self.session.arguments
        if self.best is None:
            return
        try:
            self.theirs.append(self.best.turn(arguments.steps, arguments.steady_seconds))
        except peer.Failed as failed:  # ours goes on alone
            self.tried.append(f"{self.variant} in its turn: {failed}")
            self.keep("speed_turn", side=self.variant, failed=str(failed))
            self.best = None
            return
        self.keep("speed_turn", side=self.variant, images_per_second=self.theirs[-1])

    def note(self):
        """What the table has no room for."""
        return (f"- {self.precision}, batch {self.batch_size}: PyTorch {'; '.join(self.tried) or 'not tried'}; turns "
                f"{[round(x) for x in self.mine]} / {[round(x) for x in self.theirs]}"
                + ours.refusals((self.records or {}).get("ready")))

    def cells(self):
        if not self.records:
            return [self.wrong] + ["–"] * (2 + len(ours.OURS))
        mine = statistics.median(self.mine or [trainer.images_per_second(self.records)])
        remarks = "; ".join(filter(None, [None if self.mine else "first look", self.wrong]))
        other = statistics.median(self.theirs) if self.theirs else None
        untried = f", {self.untried} not tried" if self.untried else ""
        return [number(mine) + (f" ({remarks})" if remarks else ""),
                f"{number(other)} ({self.variant}{untried})" if other else "–", number(mine / other, 2) if other else "–",
                *ours.cells_of_ours(self.session, self.precision, self.records, mine)]


def speed(session):
    """Images per second, ours and PyTorch's fastest in turns"""
    arguments, rows = session.arguments, ours.combinations(session)
    print(f"{arguments.image_size} px, {arguments.steps} steps a turn, medians of {arguments.rounds} turns; device copy "
          f"{ours.rate_words(session)} read and written. The floor is the bytes that our level of fusion moves at that "
          "rate, nothing else.\n\n"
          + head(["precision", "batch", "ours", "PyTorch (variant)", "ratio", *ours.OURS]), flush=True)
    outcome, favourite, begun = OK, None, []
    try:
        for done, (precision, batch_size) in enumerate(rows, start=1):
            row = Row(session, precision, batch_size)
            begun.append(row)
            row.wrong = session.too_late(least_seconds(arguments))
            if row.wrong:
                row.keep("speed", left_out=row.wrong)
            else:
                row.compare(favourite, len(rows) - done)
            print(line([precision, batch_size, *row.cells()]), flush=True)
            favourite = row.variant or favourite
            outcome = FAILED if (row.wrong or "").startswith(FAILED) else outcome
    finally:  # also when somebody ends us
        print("\n" + "\n".join(row.note() for row in begun), flush=True)
    return outcome
