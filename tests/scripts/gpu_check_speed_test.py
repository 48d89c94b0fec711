#!/usr/bin/python3
"""gpu_check_speed_test.py SOURCE: gpu-check's comparison with PyTorch, with stand-ins for trainer, probe and peer."""

import argparse
import contextlib
import importlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu-check.d"))
import passes  # noqa: E402
import peer  # noqa: E402
import plans  # noqa: E402
import sections  # noqa: E402
import speed  # noqa: E402
import trainer  # noqa: E402
import turns  # noqa: E402
from session import Session  # noqa: E402

# Notes its flags; a batch of 4096 never fits, one of 1024 not beside PyTorch. "fails_at N": the N-th run of all fails;
# "last_loss": where its loss ends. Its speed is that of most windows, not the mean: one was disturbed.
TRAINER = """#!/bin/sh
echo "ours $*" >> log
case "$*" in
  *=4096*) ;;
  *=1024*) [ -z "$(ls alive)" ] && fits=1;;
  *) fits=1;;
esac
if [ -z "$fits" ]; then
  words='batch 4096 does not fit in 79.1 GiB; the largest that does is 1800'
  echo '{"record":"error","rank":0,"operation":"plan the memory","message":"'$words'"}'; exit 2
fi
[ "$(grep -c ours log)" = "$(cat fails_at 2>&1)" ] && { echo 'an illegal access' >&2; exit 1; }
[ -n "$profile" ] || echo '{"record":"ready","rank":0,"fusion":"full"}'
for loss in 7.1 3.1; do echo '{"record":"warmup","rank":0,"loss":'$loss'}'; done
for seconds in 1 9.9 1; do
  echo '{"record":"sample","rank":0,"images":'$((1000 + $(grep -c ours log)))',"seconds":'$seconds'}'
done
echo '{"record":"result","rank":0,"scope":"rank","images_per_second":7,"loss_first":3.1,"loss_last":'$(cat last_loss || echo 3.2)'}'
"""

# Its speeds by variant from the file "peers" (images per second; words: what it ends with, "alone": these where another lives).
PEER = """
import json, os, sys, time
flags = dict(word[2:].split("=") for word in sys.argv[1:])
about = json.load(open("peers"))[flags["variant"]]
open("log", "a").write("start " + flags["variant"] + "\\n")
if isinstance(about, str):
    sys.exit("what came before\\n" + about + "\\nthe compiler's last words")
if about.get("alone") and os.listdir("alive"):
    sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\\nthe compiler's last words")
alive = os.path.join("alive", str(os.getpid()))
open(alive, "w").close()
print(json.dumps({"version": "2"}), flush=True)
for turn, line in enumerate(sys.stdin):
    open("log", "a").write(flags["variant"] + " " + line)
    if turn == about.get("dies_in"):
        os.remove(alive)
        sys.exit("CUDA error: an illegal memory access")
    time.sleep(about.get("sleeps", 0))
    print(json.dumps({"seconds": int(flags["batch_size"]) / about["speed"]}), flush=True)
os.remove(alive)
"""


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Stage(unittest.TestCase):
    """A folder with the stand-ins, in which the test runs."""

    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder)
        (self.folder / "alive").mkdir()
        self.program(trainer.TRAINER, TRAINER)
        (self.folder / "peer.py").write_text(PEER, encoding="utf-8")
        self.peers(eager={"speed": 500}, graph={"speed": 600}, compile={"speed": 900}, **{"compile-graphs": {"speed": 800}})
        environment = {name: value for name, value in os.environ.items() if name != "OUT"}
        environment.update(HOME=str(self.folder), XDG_CACHE_HOME=str(self.folder / "cache"))
        stack.enter_context(unittest.mock.patch.dict(os.environ, environment, clear=True))
        stack.enter_context(unittest.mock.patch.object(peer, "SCRIPT", str(self.folder / "peer.py")))
        stack.enter_context(unittest.mock.patch.object(turns.machine, "has_torch", lambda: True))

    def program(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def peers(self, **about):
        (self.folder / "peers").write_text(json.dumps(about), encoding="utf-8")

    def session(self, minutes=None, clock=None, **more):
        arguments = {"minutes": minutes, "results": str(self.folder / "rows"), "build_folder": str(self.folder),
                     "precision": ["fp16"], "batch_size": [256], "image_size": 224, "rounds": 2, "steps": 20,
                     "steady_seconds": 0, "compile": True, **more}
        return Session(argparse.Namespace(**arguments), *([clock] if clock else []))

    def run_section(self, section, session):
        with unittest.mock.patch.object(speed, "copy_rate", lambda _: 4e12), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            outcome = section(session)
        return outcome, out.getvalue()

    def rows(self, section):
        lines = (self.folder / "rows").read_text(encoding="utf-8").splitlines()
        return [row for row in map(json.loads, lines) if row["section"] == section]

    def log(self):
        return (self.folder / "log").read_text(encoding="utf-8").splitlines()

    def order(self):
        """Who ran, shortly: "ours", "start graph", "graph"."""
        return [line if line.startswith("start") else line.split()[0] for line in self.log()]


class Turns(Stage):
    def test_the_fastest_variant_stays_and_who_goes_first_changes(self):
        outcome, said = self.run_section(turns.speed, self.session())
        self.assertEqual(outcome, "ok")
        self.assertEqual(self.order(), ["ours", "start eager", "eager", "start graph", "graph", "start compile-graphs",
                                        "compile-graphs", "start compile", "compile", "ours", "compile", "compile", "ours"])
        self.assertIn("| fp16 | 256 | 1,002 | 900 (compile) | 1.11 | full |", said)
        self.assertIn("eager 500; graph 600; compile-graphs 800; compile 900; turns [1002, 1003] / [900, 900]", said)
        self.assertEqual([row["side"] for row in self.rows("speed_turn")], ["ours", "compile", "compile", "ours"])
        self.assertEqual(len(self.rows("speed_first_look")), 5)
        self.assertEqual(self.rows("speed")[0]["ours"], [1002, 1003])
        self.assertEqual(list((self.folder / "alive").iterdir()), [])  # no process is left

    def test_a_run_that_does_not_train_is_no_figure(self):
        # As at the start, though below the first counted step's; and what a NaN would be, which the trainer refuses itself.
        for last in ("6.9", "NaN", "null"):
            (self.folder / "last_loss").write_text(last)
            for section in (turns.speed, speed.throughput):
                outcome, said = self.run_section(section, self.session(compile=False))
                self.assertEqual(outcome, "FAILED")
                self.assertIn("| fp16 | 256 | FAILED: it does not train: the loss was 7.1 after the first step and is ", said)
        self.assertEqual(self.rows("throughput"), [])
        (self.folder / "last_loss").write_text("6.3")
        self.assertEqual(self.run_section(speed.throughput, self.session())[0], "ok")

    def test_two_that_do_not_fit_at_once_are_tried_one_after_the_other(self):
        self.peers(eager={"speed": 500}, graph={"speed": 400, "alone": True})
        outcome, said = self.run_section(turns.speed, self.session(compile=False, rounds=1))
        self.assertEqual(outcome, "ok")
        self.assertEqual(self.order(), ["ours", "start eager", "eager", "start graph", "start graph", "graph",
                                        "ours", "start eager", "eager"])  # the winner comes back for its turn
        self.assertIn("eager 500; graph 400;", said)

    def test_a_batch_that_fits_only_alone_makes_pytorch_leave_while_ours_runs(self):
        outcome, said = self.run_section(turns.speed, self.session(compile=False, rounds=2, batch_size=[1024]))
        self.assertEqual(outcome, "ok")
        self.assertEqual(self.order()[-7:], ["ours", "ours", "start graph", "graph", "graph", "ours", "ours"])
        self.assertIn("600 (graph)", said)

    def test_a_batch_that_never_fits_is_no_failure(self):
        outcome, said = self.run_section(turns.speed, self.session(batch_size=[4096, 256], compile=False))
        self.assertEqual(outcome, "ok")
        self.assertIn("| fp16 | 4096 | left out: plan the memory: batch 4096 does not fit in 79.1 GiB; the largest that "
                      "does is 1800 | – |", said)
        self.assertIn("600 (graph)", said)  # of the other row
        self.assertEqual(self.rows("failure"), [])

    def test_ours_goes_on_where_pytorch_dies(self):
        self.peers(eager="no such thing", graph={"speed": 600, "dies_in": 1})
        outcome, said = self.run_section(turns.speed, self.session(compile=False))
        self.assertEqual(outcome, "ok")
        self.assertIn("eager: the compiler's last words; graph 600; graph in its turn: CUDA error: an illegal memory access; "
                      "turns [1002, 1003] / []", said)
        self.assertIn("| fp16 | 256 | 1,002 | – | – | full |", said)
        self.assertEqual([row.get("failed") for row in self.rows("speed_turn")],
                         [None, "CUDA error: an illegal memory access", None])

    def test_what_was_measured_before_ours_failed_is_told(self):
        (self.folder / "fails_at").write_text("3")
        outcome, said = self.run_section(turns.speed, self.session(compile=False))
        self.assertEqual(outcome, "FAILED")
        self.assertIn("| fp16 | 256 | 1,002 (FAILED: exit 1: an illegal access) | 600 (graph) |", said)
        (self.folder / "fails_at").write_text("4")
        outcome, said = self.run_section(turns.speed, self.session(compile=False))
        self.assertEqual(outcome, "FAILED")
        self.assertIn("| fp16 | 256 | FAILED: exit 1: an illegal access | – |", said)  # at first sight
        self.assertIn("not tried; turns [] / []", said)

    def test_without_pytorch_ours_runs_alone(self):
        with unittest.mock.patch.object(turns.machine, "has_torch", lambda: False):
            outcome, said = self.run_section(turns.speed, self.session())
        self.assertEqual((outcome, self.order()), ("ok", ["ours"] * 3))
        self.assertIn("no PyTorch", said)


    def test_somebody_who_ends_us_is_told_what_is_known(self):
        out = io.StringIO()
        with self.assertRaises(SystemExit), unittest.mock.patch.object(turns.Row, "their_turn", side_effect=SystemExit(143)), \
                unittest.mock.patch.object(speed, "copy_rate", lambda _: 4e12), contextlib.redirect_stdout(out):
            turns.speed(self.session(compile=False))
        self.assertIn("eager 500; graph 600; turns [1002] / []", out.getvalue())
        self.assertEqual(self.rows("speed")[0]["ours"], [1002])
        self.assertEqual(list((self.folder / "alive").iterdir()), [])


class Time(Stage):
    """A clock that the stand-ins do not move: what is left is what is said here."""

    def test_later_rows_begin_with_the_earlier_winner_and_keep_their_time(self):
        clock = Clock()
        least = turns.least_seconds(self.session().arguments)
        self.assertEqual(least, 60 + 2 * 2 * 15)
        # All variants of the first row, but not with a second row behind.
        both = turns.turns_seconds(self.session().arguments) + least
        session = self.session((turns.VARIANT_SECONDS["compile"] + both - 1 + 10) / 60, clock, precision=["fp16", "bf16"])
        outcome, said = self.run_section(turns.speed, session)
        self.assertEqual(outcome, "ok")
        self.assertIn("- fp16, batch 256: PyTorch eager 500; graph 600; compile-graphs left out:", said)
        self.assertIn("600 (graph, 2 not tried)", said)
        self.assertIn("- bf16, batch 256: PyTorch graph 600; eager 500; compile-graphs 800; compile 900;", said)

    def test_one_variant_is_tried_at_any_rate(self):
        row = turns.Row(self.session(1.5, Clock()), "fp16", 256)
        row.find_fastest("compile", 0)
        row.best.close()
        self.assertEqual([words.split(" left out")[0] for words in row.tried],
                         ["compile", "eager 500", "graph", "compile-graphs"])
        self.assertEqual(row.variant, "eager")

    def test_with_little_time_a_later_row_tries_the_earlier_winner(self):
        row = turns.Row(self.session(1, Clock()), "fp16", 256)
        with unittest.mock.patch.dict(turns.VARIANT_SECONDS, compile=40), \
                unittest.mock.patch.object(turns, "turns_seconds", lambda _: 10):
            row.find_fastest("compile", 0)
        row.best.close()
        self.assertEqual(row.variant, "compile")

    def test_a_variant_that_takes_too_long_leaves_the_turns_their_time(self):
        self.peers(eager={"speed": 500}, graph={"speed": 600, "sleeps": 60})
        session = self.session(10, compile=False)
        with unittest.mock.patch.dict(turns.VARIANT_SECONDS, graph=0), \
                unittest.mock.patch.object(turns, "turns_seconds", lambda _: session.left() - 4):
            row = turns.Row(session, "fp16", 256)
            row.find_fastest(None, 0)
        row.best.close()
        self.assertRegex("; ".join(row.tried), "^eager 500; graph: no answer in ")

    def test_variants_leave_the_sections_behind_their_time(self):
        session = self.session(3, Clock())
        session.needed_later = 60
        row = turns.Row(session, "fp16", 256)
        row.find_fastest(None, 0)
        row.best.close()
        self.assertEqual([words.split(" left out")[0] for words in row.tried],
                         ["eager 500", "graph 600", "compile-graphs", "compile"])
        self.assertEqual(row.untried, 2)

    def test_a_row_without_time_for_a_turn_is_left_out(self):
        clock = Clock()
        session = self.session(3, clock, compile=False)
        with unittest.mock.patch.object(turns.Row, "first_look", lambda _: setattr(clock, "now", 165)):
            outcome, said = self.run_section(turns.speed, session)
        self.assertEqual(outcome, "ok")
        self.assertIn("| fp16 | 256 | left out: 5 s left, needs about 30 s |", said)
        outcome, said = self.run_section(turns.speed, session)
        self.assertEqual(outcome, "ok")
        self.assertIn("| fp16 | 256 | left out: 5 s left, needs about 2 min |", said)


    def test_what_was_seen_before_any_turn_is_told_as_a_first_look(self):
        clock = Clock()
        session = self.session(3, clock, compile=False)
        with unittest.mock.patch.object(turns.Row, "find_fastest", lambda *_: setattr(clock, "now", 165)):
            outcome, said = self.run_section(turns.speed, session)
        self.assertEqual(outcome, "ok")
        self.assertIn("| fp16 | 256 | 1,001 (first look; left out: 5 s left, needs about 30 s) | – | – | full |", said)

    def test_the_first_row_of_passes_comes_at_any_rate_and_further_ones_leave_the_sections_behind_their_time(self):
        clock = Clock()

        def show(*_):
            clock.now += 30
        for needed_later, outcomes in ((150, ["left out: 2 min left, needs about 3 min"]), (0, [])):
            clock.now = 0
            session = self.session(3, clock, precision=["fp16", "bf16"])
            session.needed_later = needed_later
            with unittest.mock.patch.object(passes, "show", show):
                outcome, said = self.run_section(passes.passes, session)
            self.assertEqual((outcome, [words for words in said.splitlines() if "left out" in words]),
                             ("ok", [f"bf16, batch 256: {words}" for words in outcomes]))


class OursAlone(Stage):
    def test_the_time_that_a_section_needs_is_enough_for_its_first_row(self):
        for section in (speed.throughput, passes.passes):
            session = self.session((sections.NEEDS_SECONDS[section.__name__] + Session.RESERVE_SECONDS) / 60, Clock())
            with unittest.mock.patch.object(passes, "show"):
                self.assertNotIn("left out", self.run_section(section, session)[1])

    def test_a_hundred_steps_at_least_and_the_median_of_windows_is_the_speed(self):
        self.assertEqual([speed.steps_for(batch) for batch in (2560, 256, 128, 8)], [100, 100, 187, 400])
        self.run_section(speed.throughput, self.session())
        self.assertIn("--num_batches=100 --num_warmup_batches=10 --steady_seconds=0 --display_every=10", self.log()[0])
        row = self.rows("throughput")[0]
        self.assertEqual((row["images_per_second"], row["result"]["images_per_second"]), (1001, 7))

    def test_a_run_that_our_time_ends_is_no_failure(self):
        for section in (speed.throughput, passes.passes, turns.speed):
            with unittest.mock.patch.object(trainer, "run", side_effect=trainer.OutOfTime("cut off after 7 s")):
                outcome, said = self.run_section(section, self.session())
            self.assertEqual(outcome, "ok")
            self.assertIn("left out: cut off after 7 s", said)

    def test_a_batch_that_does_not_fit_is_no_failure(self):
        outcome, said = self.run_section(speed.throughput, self.session(batch_size=[4096, 256]))
        self.assertEqual(outcome, "ok")
        self.assertIn("| fp16 | 4096 | left out: plan the memory: batch 4096 does not fit in 79.1 GiB", said)
        self.assertIn("| fp16 | 256 | 1,002 | full |", said)
        self.assertIn("does not fit in", self.rows("throughput")[0]["left_out"])
        outcome, said = self.run_section(passes.passes, self.session(batch_size=[4096]))
        self.assertEqual(outcome, "ok")
        self.assertIn("fp16, batch 4096: left out: plan the memory: batch 4096 does not fit in", said)

    def test_several_batch_sizes_are_looked_at_where_none_is_asked_for_and_one_where_each_takes_minutes(self):
        outcome, _ = self.run_section(speed.throughput, self.session(batch_size=None))
        self.assertEqual(outcome, "ok")
        self.assertEqual([row["batch_size"] for row in self.rows("throughput")], [256, 128, 64])
        self.assertEqual(speed.combinations(self.session(batch_size=None)), [("fp16", 256)])  # of the comparison
        self.assertEqual(speed.combinations(self.session(batch_size=[32]), speed.BATCH_SIZES), [("fp16", 32)])

    def test_the_copy_rate_is_the_probes(self):
        self.program("virtrain-probe", """#!/bin/sh
echo '{"record":"probe","name":"device_copy","value":3e12,"unit":"B/s"}'
""")
        self.assertEqual(speed.copy_rate(self.session()), 3e12)

    def test_a_probe_that_fails_is_told(self):
        self.program("virtrain-probe", "#!/bin/sh\necho no room; exit 4\n")
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            with unittest.mock.patch.object(speed.machine, "has_torch", return_value=False):
                self.assertIsNone(speed.copy_rate(self.session()))
        self.assertEqual(errors.getvalue(), "copy rate: no room\n")


class Plans(Stage):
    def test_engines_are_brought_where_there_are_none_and_come_back_after_each_run(self):
        carried, out = self.folder / "carried", self.folder / "out"
        (carried).mkdir()
        plans.bring(None)
        plans.bring(str(carried))  # nothing there
        self.assertFalse(os.path.exists(plans.file()))
        (carried / plans.NAME).write_text("known")
        plans.bring(str(carried))
        where = self.folder / "cache" / "virtrain" / plans.NAME
        self.assertEqual(where.read_text(), "known")
        where.write_text("known and found")
        plans.bring(str(carried))
        self.assertEqual(where.read_text(), "known and found")
        trainer.run(self.session(), "--batch_size=256")
        self.assertFalse(out.exists())  # nobody asks for it
        with unittest.mock.patch.dict(os.environ, OUT=str(out)):
            trainer.run(self.session(), "--batch_size=256")
        self.assertEqual((out / plans.NAME).read_text(), "known and found")
        with unittest.mock.patch.dict(os.environ, OUT="/dev/null/nowhere"):
            trainer.run(self.session(), "--batch_size=256")  # no reason to fail

    def test_the_trainers_own_place_without_the_variable(self):
        del os.environ["XDG_CACHE_HOME"]
        self.assertEqual(plans.file(), f"{self.folder}/.cache/virtrain/cudnn-plans.json")


class Lent(Stage):
    """The whole of it as on a lent machine: what goes there and what comes back."""

    def test_a_run_without_home_brings_everything_back(self):
        for name, script in (("nvidia-smi", "echo NVIDIA H100, 9.0, 580.1"),
                             ("cmake", 'echo "$HOME" > home; [ "$1" = -S ] || cp ours build/' + trainer.TRAINER)):
            self.program(name, "#!/bin/sh\n" + script)
        self.program("ours", "#!/bin/sh\n" + '''
cat cache/virtrain/cudnn-plans.json >> log; echo found >> cache/virtrain/cudnn-plans.json
echo '{"record":"warmup","rank":0,"loss":7.1}'
echo '{"record":"result","rank":0,"scope":"rank","images_per_second":1000,"loss_last":0.1}'
''')
        for folder in ("carried", "build", "out"):
            (self.folder / folder).mkdir()
        (self.folder / "carried" / plans.NAME).write_text("carried\n")
        del os.environ["HOME"]
        self.program("libcuda.so.1", "")  # cannot be loaded, whatever this machine has
        with unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=str(self.folder), OUT=str(self.folder / "out"), VIRTRAIN_COMMIT="1234abc",
                                      PATH=f"{self.folder}:{os.environ['PATH']}"):
            done = subprocess.run([str(SOURCE / "scripts" / "gpu-check"), "--build_folder=build", "--headers=carried", "--no-mpi",
                                   "--sections=throughput", "--precision=fp16", "--batch_size=256"],
                                  capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| fp16 | 256 | 1,000 |", done.stdout)
        self.assertTrue((self.folder / "home").read_text().strip())
        self.assertEqual(self.log(), ["carried"])
        self.assertEqual((self.folder / "out" / plans.NAME).read_text(), "carried\nfound\n")
        self.assertIn('"throughput"', (self.folder / "out" / "gpu-check.jsonl").read_text())


class PyTorch(unittest.TestCase):
    """The peer's process with a torch that does nothing: what is called, and in which order."""

    def step(self, torch, **arguments):
        with unittest.mock.patch.dict(sys.modules, {"torch": torch, "resnet50_reference": unittest.mock.MagicMock()}):
            sys.modules.pop("pytorch_gpu", None)
            self.pytorch_gpu = importlib.import_module("pytorch_gpu")
        given = {"variant": "eager", "precision": "bf16", "batch_size": 2, "image_size": 64, **arguments}
        return self.pytorch_gpu.Step(argparse.Namespace(**given))

    def test_every_variant_steps_and_a_graph_is_captured_once_and_replayed(self):
        for variant, eager_steps, replayed in (("eager", 2, 0), ("graph", 4, 2), ("compile", 2, 0), ("compile-graphs", 2, 0)):
            torch = unittest.mock.MagicMock()
            step = self.step(torch, variant=variant)
            for _ in range(2):
                step.run()
            self.assertEqual(torch.optim.SGD.return_value.step.call_count, eager_steps, variant)
            self.assertEqual(torch.cuda.CUDAGraph.return_value.replay.call_count, replayed, variant)
            self.assertEqual(torch.compile.call_count, "compile" in variant)

    def test_images_come_in_the_type_of_the_arithmetic_and_the_update_takes_the_loss_scale(self):
        for precision, type_name, scaled in (("fp16", "float16", True), ("bf16", "bfloat16", False), ("tf32", "float32", False)):
            torch = unittest.mock.MagicMock()
            torch.optim.SGD.return_value = argparse.Namespace()
            step = self.step(torch, precision=precision)
            torch.randn.return_value.to.assert_called_once_with(getattr(torch, type_name),
                                                                memory_format=torch.channels_last)
            self.assertEqual(hasattr(step.optimizer, "grad_scale"), scaled)
            self.assertEqual(hasattr(step.optimizer, "found_inf"), scaled)
            self.assertEqual(step.scale, 128 if scaled else 1)
            self.assertIs(torch.backends.cudnn.benchmark, True)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
