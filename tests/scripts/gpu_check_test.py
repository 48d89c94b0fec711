#!/usr/bin/python3
"""gpu_check_test.py SOURCE: how scripts/gpu-check runs and what it checks, without a GPU: programs and PyTorch are stand-ins."""

import argparse
import math
import os
import signal
import subprocess
import sys
import time
import unittest

from gpu_check_stage import SOURCE, TRAINER, Clock, Stage, is_gone, out_of_time, patch
import build
import correctness
import machine
import ranks
import sections
import trainer


class Time(Stage):
    def test_a_program_that_our_time_ends_is_told_from_one_that_is_slow_and_both_end_with_their_children(self):
        begin = time.monotonic()
        script = ["sh", "-c", "echo first; sleep 60 & echo $!; wait"]
        for seconds, most, cut_off, how in ((0.2, 900, "cut off after 0 s", "cut off after 0 s"), (300, 0.2, None, "not done in time")):
            done = self.session(seconds).run(script, most)
            self.assertEqual((done.code, done.cut_off, done.how()), (None, cut_off, how))
            first, child = done.out.split()
            self.assertEqual(first, "first")
            self.assertTrue(is_gone(int(child)))
        done = self.session().run(["sh", "-c", "read word; echo $word; echo why >&2; exit 3"], 60, given="go\n")
        self.assertEqual((done.out, done.how()), ("go\n", "exit 3: why"))
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.session().left(), math.inf)

    def run_sections(self, session, **functions):
        parts = {name: sections.Section(name, 60, function) for name, function in functions.items()}
        session.arguments.sections = list(functions)
        with patch.dict(sections.ALL, parts, clear=True):
            return sections.run_all(session)

    def test_sections_leave_those_behind_them_their_time_and_what_time_cuts_off_is_no_failure(self):
        clock, left = Clock(), {}

        def takes(name, seconds):
            def run(session):
                left[name] = session.left()
                clock.now += seconds
                return "ok"
            return run

        session = self.session(250, clock)
        self.assertTrue(self.run_sections(session, one=takes("one", 130), two=takes("two", 100), three=takes("three", 0)))
        self.assertEqual(left, {"one": 130, "two": 60})  # two took more than it was given
        self.assertEqual(self.rows()[1:], [["one", "ok", "130"], ["two", "ok", "100"],
                                           ["three", "left out: 20 s left, needs about 60 s", "0"]])

    def test_what_times_nothing_runs_at_once_and_its_tables_and_figures_become_ours(self):
        (self.folder / "again").write_text("""import json, os, pathlib, sys, time
name, out = (sys.argv[sys.argv.index(flag) + 1] for flag in ("--sections", "--out"))
here = pathlib.Path(out)
(pathlib.Path(out).parent / ("began-" + name)).touch()
end = time.monotonic() + 20
while not all((here.parent / ("began-" + one)).exists() for one in ("steps", "outside")) and time.monotonic() < end: time.sleep(0.01)
if name == "outside": sys.exit(9)
(here / "summary.md").write_text("# head\\n\\n## Summary\\n\\nno\\n\\n## Of " + name + "\\n\\n| a |\\n\\n- b\\n")
with open(here / "results.jsonl", "w") as file:
    for record in ({"section": "run"}, {"section": "figure", "at_s": 1, "value": 7, "cache": os.environ["XDG_CACHE_HOME"]},
                   {"section": "summary", "name": name, "result": "ok", "seconds": 3}): file.write(json.dumps(record) + "\\n")
""", encoding="utf-8")
        session = self.session(sections=["one", "steps", "outside"])
        parts = {name: sections.Section(name, 60, lambda _: "ok") for name in session.arguments.sections}
        with patch.dict(sections.ALL, parts, clear=True), patch.object(sections, "SCRIPT", "again"):
            self.assertFalse(sections.run_all(session))
        self.assertEqual(self.rows()[1:4], [["one", "ok", "0"], ["steps", "ok", "3"],
                                            ["outside", "FAILED: exit 9; see out/outside/said.log", "0"]])
        self.assertIn("\n## Of steps\n\n| a |\n\n- b\n", session.text())
        self.assertEqual([(row["value"], row["cache"]) for row in self.kept("figure")], [(7, "out/steps/cache")])
        self.assertEqual([row["name"] for row in self.kept("summary")], ["one", "steps", "outside"])

    def test_a_section_that_breaks_stops_no_other_and_what_is_known_is_on_the_disk_at_any_moment(self):
        def breaks(session):
            session.keep("figure", value=7)
            raise KeyError("images_per_second")

        def looks(_):
            self.assertEqual(self.rows()[1:], [["breaks", "FAILED: KeyError: 'images_per_second'", "0"], ["looks", "cut off", "–"],
                                               ["later", "not run", "–"]])
            return "ok"

        self.assertFalse(self.run_sections(self.session(), breaks=breaks, looks=looks, later=lambda _: "ok; bf16 left out"))
        self.assertEqual([row[1] for row in self.rows()[2:]], ["ok", "ok; bf16 left out"])
        self.assertEqual(self.kept("figure")[0]["value"], 7)
        self.assertIn("KeyError", self.kept("failure")[0]["words"])


class Correctness(Stage):
    TRAINER = """echo "$*" >> log
case $* in
  *fp16*=full*|*$REFUSED*)
    words='--fusion full: for fp16 on compute capability 8.9 cuDNN has no more than addition'
    echo '{"record":"error","rank":0,"operation":"parse flags","message":"'$words'"}'; exit 2;;
  *$FAILS*) echo 'an illegal access' >&2; exit 1;;
esac
echo '{"record":"result","rank":0,"scope":"rank","loss_first":6.9,"loss_last":'$LAST'}'
"""
    REFERENCE = """import os, sys
if os.environ['ROOM'] == 'no': sys.exit('torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB')
print('loss\\ngradients\\nstate')
bad = os.environ['CHECK'] in sys.argv
print('FAILED: share of gradients' if bad else 'passed')
sys.exit(bad)
"""

    def verdicts(self, section=correctness.correctness, fails="nothing", last="2.5", check="nothing", refused="nothing", room="yes",
                 **given):
        self.program(trainer.TRAINER, self.TRAINER)
        (self.folder / "reference.py").write_text(self.REFERENCE, encoding="utf-8")
        with patch.dict(os.environ, FAILS=fails, LAST=last, CHECK=check, REFUSED=refused, ROOM=room), \
                patch.object(correctness, "REFERENCE", "reference.py"), patch.object(correctness, "PRECISIONS", ["fp16", "fp32"]):
            outcome = section(self.session(**given))
        return outcome, [row[4] for row in self.rows()[1:]]

    def test_every_level_is_checked_from_a_fresh_start_and_fp32_from_both(self):
        outcome, verdicts = self.verdicts()
        self.assertEqual(outcome, "ok")
        self.assertEqual([row[:2] for row in self.rows()[1:]], [["fp16", "full"], ["fp16", "statistics"]] + [
            [precision, fusion] for fusion in ("addition", "none") for precision in ("fp16", "fp32")])
        self.assertEqual(verdicts, ["left out"] + ["ok"] * 5)
        self.assertEqual(self.rows()[2][5:], ["6.900 → 2.500", "gamma 0.1: loss; gradients"])
        self.assertEqual(self.rows()[4][6], "gamma 0.1: loss; gradients; gamma 1: loss; gradients")
        self.assertIn("cuDNN has no more than addition", self.rows()[1][6])
        seeds = [word for line in self.log() for word in line.split() if word.startswith("--seed=")]
        self.assertEqual(len(set(seeds)), 3 + 2 * 2)

    def test_what_is_wrong_at_one_level_fails(self):
        outcome, verdicts = self.verdicts(fails="fp16*=statistics*")
        self.assertEqual((outcome, verdicts.count("FAILED"), verdicts[1]), ("FAILED", 1, "FAILED"))
        self.assertEqual(self.verdicts(refused="fp16*=none")[1][4], "FAILED")  # that level every GPU must have
        outcome, verdicts = self.verdicts(last="6.8")
        self.assertEqual((outcome, verdicts.count("FAILED")), ("FAILED", 5))
        outcome, verdicts = self.verdicts(check="fp32")
        self.assertEqual((outcome, verdicts.count("FAILED")), ("FAILED", 2))
        self.assertRegex(self.rows()[4][6], "^gamma 0.1, seed [0-9]+: FAILED: share of gradients$")

    def test_the_size_that_is_timed_is_checked_as_it_is_run_and_what_has_no_room_is_left_out(self):
        self.assertEqual(self.verdicts(correctness.full_size), ("ok", ["ok"]))
        self.assertIn("--precision=fp16 --fusion=auto --image_size=224 --batch_size=256 ", self.log()[0])
        steps, dumped = self.log()
        seed = [word for word in steps.split() if word.startswith("--seed=")]
        self.assertIn("--num_batches=40 --residual_gamma=0.1", steps)
        self.assertTrue(seed and seed[0] in dumped.split(), "PyTorch goes on from the same start")
        self.assertEqual(self.rows()[1][5], "6.900 → 2.500")
        # Its loss after the steps is PyTorch's to judge.
        self.assertEqual(self.verdicts(correctness.full_size, check="--loss=2.5"), ("FAILED", ["FAILED"]))
        self.assertEqual(self.verdicts(correctness.full_size, room="no"), ("left out: see the table", ["left out"]))

    def test_what_our_time_ends_is_no_failure(self):
        run = iter([trainer.run] * 5)
        with patch.object(trainer, "run", lambda *words, **more: next(run, out_of_time)(*words, **more)):
            outcome, verdicts = self.verdicts()
        self.assertEqual((outcome, verdicts), ("ok; left out from fp32 addition on: cut off after 7 s", ["left out", "ok", "ok"]))

    def test_programs_of_tests(self):
        def run(script, seconds=300):
            self.program("a_test", script)
            return correctness.catch2(self.session(seconds), "a_test")
        self.assertEqual(run("echo '- convolution fp16: 40 engines'; echo 'a word'; echo 'All tests passed'"), "ok")
        self.assertIn("| All tests passed |\n\n- convolution fp16: 40 engines\n", self.current.text())
        self.assertEqual(run("echo 'kernels.cpp:7: FAILED:'; exit 1"), "FAILED: exit 1: kernels.cpp:7: FAILED:; see out/a_test.log")
        self.assertIn("kernels.cpp:7", (self.folder / "out" / "a_test.log").read_text())
        self.assertTrue(run("echo 'skipped: no GPU'; exit 77").startswith("FAILED: exit 77: skipped: no GPU"))
        self.assertEqual(run("sleep 60", 0.2), "left out: cut off after 0 s")
        self.assertTrue(run("echo 'kernels.cpp:7: FAILED:'; sleep 60", 0.2).startswith("FAILED: cut off after 0 s"))
        self.assertIn("was not built", correctness.catch2(self.session(), "none_test"))


class Ranks(Stage):
    RESULT = """echo '{"record":"result","rank":%d,"scope":"rank","parameters_hash":"%s","loss_first":%s,"loss_last":%s,"""\
        """"allreduce_seconds_exposed":%s}'\n"""
    # Both are started alike, with one level of fusion and patience, when engines are known; each leaves its trace.
    TWO = """[ -e known ] || exit 8
case "$*" in *=$BREAKS*) exit 7;; esac
case "$*" in *--fusion=none*--stall_seconds=200*HOSTID=second*--fusion=none*--stall_seconds=200*);; *) exit 9;; esac
for flag; do case $flag in --trace=*) folder=$(dirname ${flag#*=});; esac; done
for rank in 0 1; do
  echo '{"traceEvents":[{"ph":"M"},{"cat":"compute"},{"cat":"'$SPAN'"}]}' > $folder/trace.$rank.json
done
"""

    def run_ranks(self, span="communication", hashes="aa", losses=(("7.1", "6.2"), ("6.9", "5.8")), exposed="0.25",
                  scales=("1024", "1024"), breaks="nothing"):
        self.program("mpirun", self.TWO + "".join(self.RESULT.replace("{", '{"loss_scale":%s,' % scales[rank], 1) %
                                                  (rank, hashes[rank], *losses[rank], exposed) for rank in range(len(losses))))
        self.program(trainer.TRAINER, 'touch known; case "$*" in *--accumulate_steps=2);; *) exit 9;; esac\n'
                     + self.RESULT % (0, "b", "7.0", "6.0", "1e-6"))
        with patch.dict(os.environ, SPAN=span, BREAKS=breaks), patch.object(machine, "loopback_is_up", lambda: True):
            return ranks.ranks(self.session()), {row[0]: row[1:] for row in self.rows()[1:]}

    def test_two_ranks_agree_with_each_other_and_with_one_that_accumulates(self):
        outcome, rows = self.run_ranks()
        self.assertEqual((outcome, list(rows)), ("ok", ["fp32", "fp16", "bf16"]))
        self.assertEqual(rows["fp16"], [
            "ok", "equal parameters after 3 steps, last losses 6.200000 and 5.800000, of one that accumulates 6.000000"])
        for wrong, words in (({"hashes": "ab"}, "DIFFERENT parameters"), ({"scales": ("512", "1024")}, "DIFFERENT loss scales"),
                             ({"exposed": "null"}, "no time of the all-reduces"),
                             ({"losses": (("7.1", "6.2"), ("6.9", "5.99"))}, "loss_last 6.095000, but 6.000000 of one rank"),
                             ({"losses": (("7.1", "NaN"), ("6.9", "5.8"))}, "loss_last nan"),
                             ({"span": "compute"}, "traces without spans"), ({"losses": (("7.1", "6.2"),)}, "1 results, not 2")):
            outcome, rows = self.run_ranks(**wrong)
            self.assertEqual(outcome, "FAILED")
            self.assertTrue(all(row[0] == "FAILED" and row[1].startswith(words) for row in rows.values()), rows)

    def test_16_bits_have_bounds_of_their_own_and_one_precision_that_breaks_stops_no_other(self):
        _, rows = self.run_ranks(losses=(("7.1", "6.2"), ("6.9", "5.824")))  # 2e-3 away
        self.assertEqual([row[0] for row in rows.values()], ["FAILED", "ok", "ok"])
        _, rows = self.run_ranks(breaks="fp16")
        self.assertEqual([row[0] for row in rows.values()], ["ok", "FAILED", "ok"])

    def test_what_is_missing_for_two_is_named(self):
        with patch.object(build, "of_mpi", lambda *_: None):
            self.assertIn("no mpirun", ranks.ranks(self.session()))
        self.program("mpirun", "exit 9")
        self.session().mpi = False
        self.assertIn("built without MPI", ranks.ranks(self.current))
        with patch.object(machine.socket, "create_server", side_effect=OSError(99, "Cannot assign requested address")):
            self.assertIn("the loopback interface is down", ranks.ranks(self.session()))


class Build(Stage):
    def test_the_wheels_libraries_are_preferred_and_the_toolkits_come_last(self):
        folders = {}
        for name, file in (("cudnn", "libcudnn.so.9"), ("nccl", "libnccl.so.2"), ("cu13", "libnvrtc.so.13")):
            folders[name] = os.path.join(self.folder, name)
            (self.folder / name / "lib").mkdir(parents=True)
            (self.folder / name / "lib" / file).touch()
        with patch.object(machine, "wheel_folders", lambda: folders):
            with patch.object(build, "toolkit_has", lambda _: False):
                words = build.wheel_options()
            for before, after in (("/driver", ":/driver"), ("", "")):
                with patch.dict(os.environ, LD_LIBRARY_PATH=before):
                    self.assertEqual(machine.library_path(), f"{self.folder}/nccl/lib:{self.folder}/cu13/lib{after}")
        for word in ("-DCUDNN_LIBRARY={}/cudnn/lib/libcudnn.so.9", "-DNCCL_INCLUDE_DIR={}/nccl/include",
                     "-DCMAKE_CXX_FLAGS=-idirafter {}/cu13/include", "-DCUDA_nvrtc_LIBRARY={}/cu13/lib/libnvrtc.so.13"):
            self.assertIn(word.format(self.folder), words)

    def test_what_was_collected_is_preferred_and_no_mpi_is_no_obstacle(self):
        (self.folder / "headers" / "openmpi" / "local" / "bin").mkdir(parents=True)
        self.program("mpicxx", "")
        self.program("headers/openmpi/local/bin/mpicxx", "")
        for path, headers, expected in ((str(self.folder), "headers", "/headers/openmpi/local/bin/mpicxx"),
                                        (str(self.folder), None, "/mpicxx"), ("/nonexistent", None, None)):
            with patch.dict(os.environ, PATH=path):
                arguments = argparse.Namespace(headers=headers)
                words = build.options(arguments, {"capability": "9.0"}, build.of_mpi(arguments, "mpicxx"))
            self.assertIn(f"-DMPI_CXX_COMPILER={self.folder}{expected}" if expected else "-DVIRTRAIN_MPI=OFF", words)
            self.assertIn("-DCMAKE_CUDA_ARCHITECTURES=90-real", words)

    def test_catch2_is_collected_with_the_library_that_version_3_has(self):
        for name in ("CLI", "fmt", "nlohmann", "catch2"):
            (self.folder / "usr" / name).mkdir(parents=True)
        (self.folder / "usr" / "cudnn_frontend.h").touch()
        (self.folder / "libCatch2.a").touch()
        self.program("pip", "exit 1")
        found = {"FOLDERS": [str(self.folder / "usr")], "CATCH2_LIBRARIES": ["/nonexistent", str(self.folder / "libCatch2.a")]}
        with patch.multiple(build, **found), patch.object(sys, "executable", "./pip"):
            self.assertEqual(build.collect("into"), 0)
            self.assertTrue((self.folder / "into" / "include" / "catch2").is_dir())
            self.assertTrue((self.folder / "into" / "lib" / "libCatch2.a").exists())
            (self.folder / "usr" / "fmt").rmdir()
            self.assertEqual(build.collect("into"), 4)
        words = build.options(argparse.Namespace(headers="into"), None, None)
        self.assertIn(f"-DCMAKE_LIBRARY_PATH={self.folder}/into/lib", words)


class CommandLine(Stage):
    """The whole of it, in a process of its own."""

    def start(self, *words, **more):
        self.program("nvidia-smi", "echo NVIDIA H100 PCIe, 9.0, 580.1\n")
        self.program("made", TRAINER)
        (self.folder / "build").mkdir(exist_ok=True)
        with patch.dict(os.environ, FAILS_AT="0", **more):
            return subprocess.Popen([str(SOURCE / "scripts" / "gpu-check"), "--build_folder=build", "--out=out", *words],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def run_it(self, *words, cmake="[ $1 = -S ] || cp made build/" + trainer.TRAINER, **more):
        self.program("cmake", cmake)
        process = self.start(*words, **more)
        out, err = process.communicate(timeout=120)
        return process.returncode, out, err

    SPEED = ("--sections=speed", "--precision=fp16", "--rounds=1")

    def test_a_run_shows_its_summary_and_keeps_it(self):
        code, out, err = self.run_it(*self.SPEED, HOME="")
        self.assertEqual(code, 0, err)
        summary = (self.folder / "out" / "summary.md").read_text(encoding="utf-8")
        self.assertIn(summary, out)
        self.assertRegex(summary, r"^# NVIDIA H100 PCIe, 20\d\d-\d\d-\d\d")
        self.assertEqual([row[1:3] for row in self.rows()[:2]], [["card", "driver"], ["NVIDIA H100 PCIe", "580.1"]])
        self.assertIn("| fp16 | 256 | 1,001 | ", summary)
        self.assertEqual(self.kept("run")[0]["driver"], "580.1")
        self.assertEqual(self.run_it(*self.SPEED, LAST_LOSS="7")[0], 1)

    def test_builds_that_fail(self):
        half = f"[ $1 = -S ] && exit; cp made build/{trainer.TRAINER}; echo one failed; exit 1"
        for cmake, status, words in (("echo no compiler; exit 1", 4, "no compiler"), (half, 1, "one failed"),
                                     ("echo '-- without virtrain-resnet50-cuda: no cuDNN'", 4, "without virtrain-resnet50-cuda: no cuDNN")):
            code, out, err = self.run_it(*self.SPEED, cmake=cmake)
            self.assertEqual(code, status)
            self.assertIn(words, err)
            self.assertEqual("1,001" in out, status == 1)
        self.assertEqual(self.run_it("--build_only", cmake="exit 0")[0], 0)
        self.program("mpicxx", "")  # which CMake cannot use
        self.program("mpirun", "")
        code, out, err = self.run_it("--sections=ranks", cmake='case $* in *MPI=ON*) exit 1;; esac; cp made build/' + trainer.TRAINER)
        self.assertEqual((code, "once more, without MPI" in err, "left out: built without MPI" in out), (0, True, True))
        code, _, err = self.run_it("--minutes=0.09", cmake="sleep 60")
        self.assertEqual(code, 4)
        self.assertIn("cut off after", err)

    def test_a_signal_that_comes_while_a_program_starts_ends_the_program_too(self):
        started, begin = [], subprocess.Popen.__init__

        def start_and_be_ended(process, *given, **more):
            begin(process, *given, **more)
            started.append(process.pid)
            signal.raise_signal(signal.SIGTERM)

        self.addCleanup(signal.signal, signal.SIGTERM, signal.signal(signal.SIGTERM, lambda *_: sys.exit(143)))
        with patch.object(subprocess.Popen, "__init__", start_and_be_ended), self.assertRaises(SystemExit):
            self.session().run(["sleep", "60"], 60)
        self.assertTrue(is_gone(started[0]))

    def test_a_run_that_is_ended_leaves_what_it_knows_and_no_process(self):
        self.program("cmake", "cp made build/" + trainer.TRAINER)
        process = self.start("--sections=speed", "--precision", "fp16", "bf16")
        self.program("made", 'case $* in *bf16*) echo $$ > stuck; exec sleep 60;; esac\n' + TRAINER)
        end = time.monotonic() + 60
        while not (self.folder / "stuck").exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 143)
        self.assertEqual(self.kept("speed")[0]["side"], "ours")
        self.assertIn(["Images per second, ours and PyTorch's fastest variant in turns", "cut off", "–"], self.rows())
        self.assertTrue(is_gone(int((self.folder / "stuck").read_text())))

    def test_what_a_machine_lacks_is_named_in_the_facts(self):
        gpu = {"name": "NVIDIA H100", "driver": "580.1", "capability": "9.0"}
        with patch.dict(os.environ, PATH="/nonexistent"), patch.object(sys, "path", []):  # no git, no PyTorch that it knows of
            facts = machine.facts(gpu)
        self.assertEqual((facts["card"], facts["commit"], facts["PyTorch"]), ("NVIDIA H100", "unknown", "none"))

    def test_flags_and_a_machine_without_a_gpu(self):
        self.assertEqual(self.run_it("--help")[0], 0)
        self.assertIn("tf32", self.run_it("--precision=fp8")[2])
        code, _, err = self.run_it("--sections", "kernels", "sped")
        self.assertEqual(code, 2)
        self.assertIn("invalid choice: 'sped'", err)
        for script, words in (("echo No devices were found; exit 6", "No devices were found"), ("exit 9", "exit 9")):
            self.program("nvidia-smi", script)
            gpu, why = machine.first_gpu()
            self.assertIsNone(gpu)
            self.assertIn(words, why)
        self.program("python3", f'exec {sys.executable} "$@"')
        with patch.dict(os.environ, PATH=str(self.folder)):
            os.remove("nvidia-smi")
            done = subprocess.run([sys.executable, str(SOURCE / "scripts" / "gpu-check")], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (77, ""))
        self.assertIn("no GPU: nvidia-smi: ", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
