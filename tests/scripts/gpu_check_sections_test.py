#!/usr/bin/python3
"""gpu_check_sections_test.py SOURCE: gpu-check's sections about what is right, with stand-ins for the programs that they run."""

import argparse
import contextlib
import io
import os
import pathlib
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu-check.d"))
import correctness  # noqa: E402
import machine  # noqa: E402
import ranks  # noqa: E402
import sections  # noqa: E402
import stressors  # noqa: E402
import trainer  # noqa: E402
from session import Session  # noqa: E402


def session_of(results=None, seconds=None, **arguments):
    """With `seconds` so many are left, for ever."""
    minutes = seconds and (seconds + Session.RESERVE_SECONDS) / 60
    clock = (lambda: 0) if seconds else time.monotonic
    return Session(argparse.Namespace(minutes=minutes, results=results, **arguments), clock)


def out_of_time(*_, **__):
    raise trainer.OutOfTime("cut off after 7 s; it reached ready")


class Tests(unittest.TestCase):
    def run_program(self, script, section=correctness.steps, name="workloads_cuda_step_test", seconds=None, needed_later=0):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, name)
            program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
            program.chmod(0o755)
            session = session_of(build_folder=folder, seconds=seconds)
            session.needed_now, session.needed_later = 1, needed_later
            with contextlib.redirect_stdout(io.StringIO()) as out:
                return section(session), out.getvalue()

    def test_a_program_that_our_time_ends_is_no_failure_unless_it_has_told_of_one(self):
        outcome, said = self.run_program("echo '1 s: a'; sleep 60", seconds=1)
        self.assertEqual((outcome, said), ("left out: cut off after 1 s", "- a: 1.0 s\n"))
        self.assertEqual(self.run_program("sleep 60", seconds=300, needed_later=300)[0], "left out: cut off after 1 s")
        outcome, said = self.run_program("echo 'kernels.cpp:7: FAILED:'; sleep 60", seconds=1)
        self.assertEqual(outcome, "FAILED: cut off after 1 s")
        self.assertIn("kernels.cpp:7: FAILED:", said)

        def impatient(session):
            return correctness.catch2(session, "workloads_cuda_step_test", 1)
        self.assertEqual(self.run_program("sleep 60", impatient, seconds=300)[0], "FAILED: not done after 1 s")

    def test_what_looks_for_engines_again_and_again_has_a_quarter_of_an_hour(self):
        for section in (correctness.steps, correctness.outside):
            with unittest.mock.patch.object(correctness, "catch2") as catch2:
                section(None)
            self.assertEqual(catch2.call_args.args[2], 900)

    def test_cases_are_shown_once_with_their_seconds(self):
        outcome, said = self.run_program("echo '1.5 s: a'; echo '2 s: a'; echo '0.1 s: b'; echo 'All tests passed'")
        self.assertEqual(outcome, "ok")
        self.assertEqual(said, "- a: 3.5 s (2 times)\n- b: 0.1 s\n- All tests passed\n")

    def test_what_a_test_has_measured_is_shown(self):
        script = "echo '- convolution fp16: 40 engines'; echo '1 s: each'; echo 'a word'; echo '- more'; echo '2 s: each'"
        outcome, said = self.run_program(script, correctness.operations, "workloads_cuda_operations_test")
        self.assertEqual((outcome, said), ("ok", "- convolution fp16: 40 engines\n- more\n- each: 3.0 s (2 times)\n"))

    def test_a_test_that_fails_tells_all_and_one_that_skips_itself_fails(self):
        outcome, said = self.run_program("echo '1 s: a'; echo 'kernels.cpp:7: FAILED: CHECK( 1 == 2 )'; exit 1")
        self.assertEqual(outcome, "FAILED: exit 1")
        self.assertIn("kernels.cpp:7: FAILED: CHECK( 1 == 2 )", said)
        self.assertEqual(self.run_program("echo 'skipped: no GPU'; exit 77")[0], "FAILED: skipped: no GPU")
        self.assertIn("was not built", correctness.steps(session_of(build_folder="/nonexistent")))


class FirstSteps(unittest.TestCase):
    """The section "correctness" with stand-ins for the trainer and PyTorch."""

    TRAINER = """#!/bin/sh
echo "$*" >> "$LOG"
case $* in
  *fp32*=full*|*fp32*=statistics*|*fp32*=$REFUSED*)
    words='--fusion full: for fp32 on compute capability 9.0 cuDNN has no more than addition'
    echo '{"record":"error","rank":0,"operation":"parse flags","message":"'$words'"}'; exit 2;;
  *$FAILS*) echo 'an illegal access' >&2; exit 1;;
  *batch_size=4096*)
    words='batch 4096 does not fit in 79.1 GiB; the largest that does is 1800'
    echo '{"record":"error","rank":0,"operation":"plan the memory","message":"'$words'"}'; exit 2;;
esac
echo '{"record":"result","rank":0,"scope":"rank","loss_first":6.9,"loss_last":'$LAST'}'
"""
    # fp64 on the GPU has room for the batches that $ROOM matches.
    REFERENCE = """import os, re, sys
last = open(os.environ['LOG']).read().splitlines()[-1]
if 'cuda' in sys.argv[sys.argv.index('--fp64_device'):] and not re.search('batch_size=' + os.environ['ROOM'], last):
    sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB')
print('loss\\ngradients\\npassed')
sys.exit(os.environ['CHECK'] in sys.argv)
"""

    def run_section(self, fails="nothing", last="2.5", check="nothing", refused="nothing", room="(256|64|16) ",
                    section=correctness.correctness, **arguments):
        with tempfile.TemporaryDirectory() as folder:
            program, reference = pathlib.Path(folder, trainer.TRAINER), pathlib.Path(folder, "reference.py")
            program.write_text(self.TRAINER, encoding="utf-8")
            program.chmod(0o755)
            reference.write_text(self.REFERENCE, encoding="utf-8")
            log, rows = pathlib.Path(folder, "log"), pathlib.Path(folder, "rows")
            log.touch()
            rows.touch()
            with unittest.mock.patch.dict(os.environ, LOG=str(log), FAILS=fails, LAST=last, CHECK=check,
                                          REFUSED=refused, ROOM=room), \
                    unittest.mock.patch.object(correctness, "REFERENCE", str(reference)), \
                    unittest.mock.patch.object(machine, "has_torch", lambda: True), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                outcome = section(session_of(str(rows), build_folder=folder, precision=["fp16", "fp32"], **arguments))
            self.rows = rows.read_text(encoding="utf-8")
            return outcome, out.getvalue(), log.read_text(encoding="utf-8").splitlines()

    def test_every_possible_level_is_checked_from_a_fresh_start_and_fp32_from_both(self):
        outcome, said, log = self.run_section()
        self.assertEqual(outcome, "ok")
        rows = [line.split(" | ") for line in said.splitlines() if "passed" in line]
        self.assertEqual([" ".join(row[:3]).lstrip("| ") for row in rows], [
            "fp16 full 0.1", "fp16 statistics 0.1", "fp16 addition 0.1", "fp32 addition 0.1", "fp32 addition 1", "fp16 none 0.1",
            "fp32 none 0.1", "fp32 none 1"])
        seeds = [row[3] for row in rows]
        self.assertEqual(len(set(seeds)), len(seeds))
        dumped = [words for words in log if "--dump" in words and "no more" not in words]
        for seed, row in zip(seeds, rows):
            self.assertTrue(any(f"--fusion={row[1]} " in words and f"--residual_gamma={row[2]} --seed={seed} " in words
                                for words in dumped), row)
        self.assertNotIn('"failure"', self.rows)  # what cannot be here is none
        left_out = [line for line in said.splitlines() if "left out: not possible here" in line]
        self.assertEqual(len(left_out), 2)  # once a level
        self.assertIn("cuDNN has no more than addition", left_out[0])

    def test_what_is_wrong_at_one_level_fails(self):
        outcome, said, _ = self.run_section(fails="fp16*=statistics*")
        self.assertEqual((outcome, said.count("an illegal access")), ("FAILED", 1))
        outcome, said, _ = self.run_section(refused="none")  # that level every GPU must have
        self.assertEqual((outcome, said.count("| FAILED |")), ("FAILED", 2))
        outcome, said, _ = self.run_section(last="6.8")
        self.assertEqual((outcome, said.count("6.900 → 6.800 DOES NOT FALL")), ("FAILED", 6))
        outcome, said, _ = self.run_section(check="fp32")
        self.assertEqual((outcome, said.count("| FAILED |")), ("FAILED", 4))

    def test_the_size_that_is_timed_is_checked_as_it_is_run(self):
        def full_size(batch_size=None, **given):
            outcome, said, log = self.run_section(section=correctness.full_size, image_size=224, batch_size=batch_size, **given)
            rows = [[cell.strip(" |") for cell in line.split(" | ")] for line in said.splitlines()[2:]]
            return outcome, [[row[0], row[1], row[3]] for row in rows], log

        outcome, rows, log = full_size()
        self.assertEqual((outcome, rows), ("ok", [["fp16", "256", "passed"], ["fp32", "256", "passed"]]))
        self.assertRegex(log[0], "--precision=fp16 --fusion=auto --image_size=224 --batch_size=256 .*--num_batches=1 .*--dump=")
        # What has no memory is tried with fewer images: PyTorch's fp64, and ours.
        for given in ({"room": "64 "}, {"room": "64 ", "batch_size": [4096]}):
            self.assertEqual(full_size(**given)[:2], ("ok", [["fp16", "64", "passed"], ["fp32", "64", "passed"]]))
        self.assertEqual(full_size(room="nothing")[:2],
                         ("fp16 left out; fp32 left out", [["fp16", "16", "left out"], ["fp32", "16", "left out"]]))
        self.assertEqual(full_size(check="fp32")[:2], ("FAILED", [["fp16", "256", "passed"], ["fp32", "256", "FAILED"]]))
        self.assertEqual(full_size(fails="precision=fp16")[:2], ("FAILED", [["fp16", "–", "FAILED"], ["fp32", "256", "passed"]]))
        with unittest.mock.patch.object(trainer, "run", side_effect=out_of_time):
            self.assertEqual(full_size()[1][0][2], "left out: cut off after 7 s; it reached ready")

    def test_a_case_that_our_time_ends_is_no_failure_and_the_last_one(self):
        run = correctness.Case.run
        cut_off = "left out: cut off after 7 s; it reached ready"
        # The first run, and after both of fp16's first case and fp32's, which is refused.
        for runs, expected in ((0, cut_off), (3, f"ok; fp16 with fusion statistics and what follows {cut_off}")):
            in_time = iter([run] * runs)

            def until(*arguments):
                return next(in_time, out_of_time)(*arguments)
            with unittest.mock.patch.object(correctness.Case, "run", until):
                self.assertEqual(self.run_section()[0], expected)
        # What the first step has shown stays.
        with unittest.mock.patch.object(trainer, "run", side_effect=out_of_time):
            self.assertEqual(correctness.falling_loss(None, correctness.Case("fp16", "none", "0.1")),
                             (cut_off, True))
        with unittest.mock.patch.object(correctness.Case, "run"), tempfile.TemporaryDirectory() as folder, \
                unittest.mock.patch.object(correctness, "REFERENCE", os.path.join(folder, "slow.py")), \
                unittest.mock.patch.object(machine, "has_torch", lambda: True):
            pathlib.Path(folder, "slow.py").write_text("import time; time.sleep(60)", encoding="utf-8")
            self.assertEqual(correctness.first_step(session_of(seconds=1), correctness.Case("fp16", "none", "0.1"), folder),
                             ("left out", "cut off after 1 s"))


class Once:
    """A pace that lets one row pass."""
    rows = 0

    def too_late(self):
        return "left out: 9 s left" if self.rows else None

    def __enter__(self):
        self.rows += 1

    def __exit__(self, *_):
        pass


class OnOneGpu(unittest.TestCase):
    """The last three sections, with programs that tell how they were started."""

    def run_section(self, section, seconds=None, arguments=None, **programs):
        with tempfile.TemporaryDirectory() as folder:
            for name, script in programs.items():
                path = pathlib.Path(folder, name.replace("_", "-"))
                path.write_text("#!/bin/sh\n" + script, encoding="utf-8")
                path.chmod(0o755)
            with contextlib.redirect_stdout(io.StringIO()) as out, \
                    unittest.mock.patch.dict(os.environ, PATH=folder + os.pathsep + os.environ["PATH"]):
                return section(session_of(build_folder=folder, headers=None, mpi=True, seconds=seconds, **(arguments or {}))), \
                    out.getvalue()

    RESULT = """echo '{"record":"result","rank":%d,"scope":"rank","parameters_hash":"%s","loss_first":%s,"loss_last":%s,"""\
        """"allreduce_seconds_exposed":%s}'\n"""
    # Both are started alike, with one level of fusion and patience, when engines are known; each leaves its trace.
    TWO = """[ -e "$(dirname "$0")/known" ] || exit 8
case "$*" in *=$BREAKS*) exit 7;; esac
case "$*" in *--fusion=none*--stall_seconds=200*HOSTID=second*--fusion=none*--stall_seconds=200*);; *) exit 9;; esac
for flag; do case $flag in --trace=*) folder=$(dirname ${flag#*=});; esac; done
for rank in 0 1; do
  echo '{"traceEvents":[{"ph":"M"},{"cat":"compute"},{"cat":"'$SPAN'"}]}' > $folder/trace.$rank.json
done
"""

    def run_ranks(self, span="communication", hashes="aa", losses=(("7.1", "6.2"), ("6.9", "5.8")), exposed="0.25",
                  scales=("1024", "1024"), breaks="nothing", precision=("fp16", "bf16", "tf32", "fp32")):
        both = [self.RESULT.replace("{", '{"loss_scale":%s,' % scales[rank], 1) %
                (rank, hashes[rank], *losses[rank], exposed) for rank in range(len(losses))]
        alone = 'touch "$(dirname "$0")/known"; case "$*" in *--accumulate_steps=2);; *) exit 9;; esac\n'
        alone += self.RESULT % (0, "b", "7.0", "6.0", "1e-6")
        with unittest.mock.patch.dict(os.environ, SPAN=span, BREAKS=breaks):
            return self.run_section(ranks.ranks, arguments={"precision": precision}, mpirun=self.TWO + "".join(both),
                                    virtrain_resnet50_cuda=alone)

    def test_two_ranks_agree_with_each_other_and_with_one_that_accumulates(self):
        outcome, said = self.run_ranks()
        self.assertEqual(outcome, "ok")
        for precision in ("fp32", "fp16", "bf16"):
            self.assertIn(f"- {precision}: 2 ranks, equal parameters after 3 steps; losses at first 7.100000 and 6.900000, at "
                          "last 6.2", said)
        for wrong, words in (({"hashes": "ab"}, "DIFFERENT parameters"), ({"scales": ("512", "1024")}, "DIFFERENT loss scales"),
                             ({"exposed": "null"}, "no time of the all-reduces"),
                             ({"losses": (("7.1", "6.2"), ("6.9", "5.99"))}, "loss_last 6.095000, but 6.000000 of one rank"),
                             ({"losses": (("7.1", "NaN"), ("6.9", "5.8"))}, "loss_last nan"),
                             ({"span": "compute"}, "traces without spans"), ({"losses": (("7.1", "6.2"),)}, "1 results, not 2")):
            outcome, said = self.run_ranks(**wrong)
            self.assertTrue(outcome.startswith("FAILED: fp32: " + words), outcome)
            self.assertIn("; bf16: " + words, outcome)
            self.assertEqual(said, "")

    def test_two_ranks_are_run_in_16_bits_too_with_bounds_of_their_own(self):
        self.assertEqual(self.run_ranks(losses=(("7.1", "6.2"), ("6.9", "5.824")))[0],  # 2e-3 away
                         "FAILED: fp32: loss_last 6.012000, but 6.000000 of one rank that accumulates the same shards")
        outcome, said = self.run_ranks(breaks="fp16")
        self.assertEqual(outcome, "FAILED: fp16: exit 7: it said nothing")
        self.assertEqual([line.split(":")[0] for line in said.splitlines()], ["- fp32", "- bf16"])
        # Time for the first pair alone.
        with unittest.mock.patch.object(ranks, "Pace", lambda session, guess: Once()):
            outcome, said = self.run_ranks()
        self.assertEqual((outcome, len(said.splitlines())), ("ok; fp16 left out: 9 s left; bf16 left out: 9 s left", 1))
        # Only what was asked for: a GPU may not have bf16.
        outcome, said = self.run_ranks(precision=["fp16", "tf32"])
        self.assertEqual((outcome, [line.split(":")[0] for line in said.splitlines()]), ("ok", ["- fp16"]))
        self.assertEqual(self.run_ranks(precision=["tf32"])[0], "left out: it looks at fp32, fp16 and bf16 only")

    STRESS = """share=1
while [ -n "$1" ]; do case $1 in --kind) kind=$2;; --rate) rate=$2;; --bytes) bytes=16777216;; esac; shift; done
case $rate in '') work=$FREE;; *%) work=$LIMITED; share=0.5;; *) work=$LIMITED; per_second=100;; esac
echo '{"record":"hello","configuration":{"bytes":'${bytes:-0}',"share":'$share',"bytes_per_second":'${per_second:-null}'}}'
echo '{"record":"progress","seconds":1.0,"work":'$work'}'
echo '{"record":"result","seconds":3.0,"work":'$((3 * work))',"unit":"B"}'
"""
    MPIRUN = "case \"$*\" in *HOSTID=first*--gpu\\ 0*:*HOSTID=second*) ;; *) exit 9;; esac\n" + STRESS

    def run_stressors(self, **work):
        with unittest.mock.patch.dict(os.environ, work):
            return self.run_section(stressors.stressors, virtrain_stress=self.STRESS, mpirun=self.MPIRUN)

    def test_a_stressor_works_and_keeps_its_limit(self):
        outcome, said = self.run_stressors(FREE="200", LIMITED="101")  # a piece above is allowed, of each load
        self.assertEqual(outcome, "ok", said)
        self.assertIn("| h2d | none | 200 B/s | ok |\n| h2d | 512MiB/s | 101 B/s | ok |\n", said)
        outcome, said = self.run_stressors(FREE="200", LIMITED="160")
        self.assertEqual(outcome, "FAILED")
        self.assertIn("| gemm | 50% | 160 B/s | FAILED: 80 % of the unlimited rate at 50 % of the time |", said)
        self.assertIn("| d2h | 512MiB/s | 160 B/s | FAILED: 160 B/s are more than the 100 allowed |", said)
        self.assertIn("| allreduce | 32MiB/s | 160 B/s | ok |", said)  # within a vector
        outcome, said = self.run_stressors(FREE="0", LIMITED="100")
        self.assertEqual(outcome, "FAILED")
        self.assertIn("| membw | none | 0 B/s | FAILED: it did nothing |", said)

    def test_a_load_that_cannot_be_here_is_left_out_and_one_that_ends_badly_fails(self):
        script = "echo 'stress: no such library' >&2; exit 4\n"
        outcome, said = self.run_section(stressors.stressors, virtrain_stress=script, mpirun=script)
        self.assertEqual(outcome, "FAILED")
        self.assertIn("| gemm | none | – | FAILED: exit 4: stress: no such library |", said)
        self.assertIn("| allreduce | none | – | left out: exit 4: stress: no such library |", said)
        self.assertIn("was not built", self.run_section(stressors.stressors)[0])

    def test_what_our_time_ends_is_no_failure(self):
        with unittest.mock.patch.object(trainer, "run", side_effect=out_of_time):
            outcome, _ = self.run_section(ranks.ranks, arguments={"precision": ["fp32"]}, mpirun="")
        self.assertEqual(outcome, "fp32 left out: cut off after 7 s; it reached ready")
        outcome, said = self.run_section(sections.probes, 0.1, virtrain_probe="sleep 60")
        self.assertEqual(outcome, "ok")
        self.assertIn("- device_copy: left out: cut off after 0 s\n", said)
        with unittest.mock.patch.object(stressors, "ROW_SECONDS", 0):
            outcome, said = self.run_section(stressors.stressors, 0.1, virtrain_stress="sleep 60", mpirun="sleep 60")
        self.assertEqual((outcome, said.count("left out: cut off after 0 s")), ("ok", 10))

    def test_a_probe_finds_the_libraries(self):
        probe = """[ "$2" = peer_copy ] || echo '{"record":"probe","name":"'$2'","value":1,"unit":"'$LD_LIBRARY_PATH'"}'"""
        with unittest.mock.patch.object(machine, "library_path", lambda: "/wheel:/driver"):
            outcome, said = self.run_section(sections.probes, virtrain_probe=probe)
        self.assertEqual(outcome, "ok")
        self.assertIn("- device_copy : 1 /wheel:/driver\n", said)
        self.assertIn("- peer_copy: left out: one GPU, no peer\n", said)

    def test_what_nccl_does_not_do_for_one_rank_is_no_figure(self):
        line = """'{"record":"probe","name":"%s","ranks":%d,"size_bytes":8,"value":1,"unit":"B/s","detail":{"in_place":%s}}'"""
        probe = "\n".join("echo " + line % figure for figure in (
            ("alone_in_place", 1, "true"), ("alone", 1, "false"), ("together_in_place", 2, "true")))
        outcome, said = self.run_section(sections.probes, virtrain_probe=probe)
        self.assertEqual(outcome, "ok")
        self.assertNotIn("alone_in_place", said)
        self.assertIn("- alone  8 bytes: 1 B/s\n", said)
        self.assertIn("- together_in_place  8 bytes: 1 B/s\n", said)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
