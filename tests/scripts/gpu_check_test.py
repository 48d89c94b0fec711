#!/usr/bin/python3
"""gpu_check_test.py SOURCE: what scripts/gpu-check computes and says, without a GPU."""

import argparse
import contextlib
import io
import json
import math
import os
import pathlib
import pwd
import re
import stat
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

SOURCE = pathlib.Path(sys.argv[1])
sys.path.insert(0, str(SOURCE / "scripts" / "gpu-check.d"))
import build  # noqa: E402
import floor  # noqa: E402
import machine  # noqa: E402
import passes  # noqa: E402
import plans  # noqa: E402
import processes  # noqa: E402
import sections  # noqa: E402
import speed  # noqa: E402
import tables  # noqa: E402
import trainer  # noqa: E402
from session import Pace, Session  # noqa: E402


def gpu_check(*arguments):
    return subprocess.run([str(SOURCE / "scripts" / "gpu-check"), *arguments], capture_output=True, text=True, check=False)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def session_of(minutes=None, results=None, clock=time.monotonic, **more):
    return Session(argparse.Namespace(minutes=minutes, results=results, **more), clock)


class Time(unittest.TestCase):
    def test_what_does_not_fit_is_left_out_in_words(self):
        clock = Clock()
        session = session_of(10, clock=clock)
        self.assertEqual(session.left(), 590)  # ten seconds are kept for the end
        self.assertIsNone(session.too_late(590))
        clock.now += 400
        self.assertEqual(session.too_late(300), "left out: 3 min left, needs about 5 min")
        self.assertEqual(session.limit(900), 190)
        self.assertEqual(session.limit(60), 60)
        clock.now += 400
        self.assertEqual(session.left(), 0)
        self.assertEqual(session.too_late(40), "left out: 0 s left, needs about 40 s")

    def test_what_runs_leaves_the_sections_behind_their_time_and_a_cut_off_is_told_from_its_own_slowness(self):
        session = session_of(10, clock=Clock())
        session.needed_later = 500
        for most, least, seconds in ((900, 60, 90), (900, 120, 120), (900, math.inf, 590), (900, 700, 590), (50, 60, 50)):
            with unittest.mock.patch.object(processes, "run", return_value=processes.Done(None, "", "")) as run:
                done = session.run(["it"], most, least, given="go")
            run.assert_called_once_with(["it"], seconds, given="go")
            self.assertEqual(done.cut_off, None if seconds == most else f"cut off after {seconds} s")
        self.assertIsNone(session.run(["false"], 900).cut_off)

    def test_without_minutes_time_has_no_end(self):
        session = session_of()
        self.assertEqual(session.left(), math.inf)
        self.assertIsNone(session.too_late(1e9))
        self.assertEqual(session.limit(900), 900)

    def test_rows_are_guessed_by_the_longest_before(self):
        clock = Clock()
        session = session_of(10, clock=clock)
        pace = Pace(session, 600)
        self.assertIn("needs about 10 min", pace.too_late())
        for seconds in (100, 50):
            with pace:
                clock.now += seconds
        self.assertEqual(pace.needs, 100)
        self.assertIsNone(pace.too_late())
        session.needed_later = 341
        self.assertEqual(pace.too_late(), "left out: 7 min left, needs about 7 min")
        self.assertIsNone(Pace(session, 100).too_late())  # the first one at any rate

    def test_a_program_that_does_not_end_is_ended_with_its_children_and_has_said_what_it_said(self):
        begin = time.monotonic()
        lines = []
        done = processes.run(["sh", "-c", "echo first; sleep 60 & echo second; wait"], 1, on_line=lines.append)
        self.assertIsNone(done.code)
        self.assertEqual(lines, ["first", "second"])
        self.assertLess(time.monotonic() - begin, 30)
        done = processes.run(["sh", "-c", "read word; echo $word; echo why >&2; exit 3"], 60, given="go\n")
        self.assertEqual((done.code, done.out, done.err, done.last_words()), (3, "go\n", "why\n", "why"))


class Sections(unittest.TestCase):
    def run_sections(self, session, **fakes):
        for name, function in fakes.items():
            function.__doc__ = function.__doc__ or name
        with unittest.mock.patch.dict(sections.ALL, fakes, clear=True), \
                unittest.mock.patch.dict(sections.NEEDS_SECONDS, {name: 60 for name in fakes}), \
                contextlib.redirect_stdout(io.StringIO()) as out:
            return sections.run_all(session), out.getvalue()

    def test_a_section_that_fails_stops_no_other_and_all_is_kept(self):
        def breaks(_):
            raise KeyError("images_per_second")

        clock = Clock()

        def slow(_):
            self.assertEqual((session.needed_now, session.needed_later), (60, 60))
            clock.now += 500
            return "ok"

        with tempfile.TemporaryDirectory() as folder:
            results = os.path.join(folder, "new", "rows.jsonl")
            session = session_of(10, results, clock, sections=["breaks", "slow", "late"])
            well, said = self.run_sections(session, breaks=breaks, slow=slow, late=lambda _: "ok")
            rows = [json.loads(line) for line in pathlib.Path(results).read_text(encoding="utf-8").splitlines()]
        self.assertFalse(well)
        self.assertIn("| breaks | FAILED: KeyError: 'images_per_second' | 0 |", said)
        self.assertIn("| slow | ok | 500 |", said)
        self.assertIn("| late | ok | 0 |", said)  # 90 s were left
        self.assertEqual([row["name"] for row in rows if row["section"] == "summary"], ["breaks", "slow", "late"])
        self.assertIn("KeyError", next(row for row in rows if row["section"] == "failure")["words"])

    def test_a_section_without_time_is_left_out_and_is_no_failure(self):
        session = session_of(0.5, sections=["one"])
        well, said = self.run_sections(session, one=lambda _: "FAILED: it ran")
        self.assertTrue(well)
        self.assertIn("| one | left out: 20 s left, needs about 60 s | 0 |", said)

    def test_a_run_that_is_ended_still_sums_up(self):
        def ended(_):
            raise SystemExit(143)

        out = io.StringIO()
        with self.assertRaises(SystemExit), contextlib.redirect_stdout(out):
            with unittest.mock.patch.dict(sections.ALL, {"one": ended}), \
                    unittest.mock.patch.object(sections, "title", lambda _: "one"), \
                    unittest.mock.patch.dict(sections.NEEDS_SECONDS, {"one": 1}):
                sections.run_all(session_of(sections=["one"]))
        self.assertIn("| one | cut off |", out.getvalue())

    def test_every_section_has_its_need_and_its_title(self):
        self.assertEqual(set(sections.ALL), set(sections.NEEDS_SECONDS))
        for section in sections.ALL.values():
            self.assertTrue(sections.title(section))
        self.assertEqual(list(sections.ALL)[:3], ["kernels", "correctness", "throughput"])  # the most important first
        commands = re.findall(r"--sections (\S+)", (SOURCE / "scripts" / "gpu-check").read_text(encoding="utf-8"))
        self.assertEqual(list(dict.fromkeys(",".join(commands).split(","))), list(sections.ALL))  # in all, and in that order


class Passes(unittest.TestCase):
    def test_operations_are_summed_by_pass(self):
        def operation(name, seconds, moved):
            return {"pass": name, "seconds": seconds, "bytes": moved}

        rows = passes.by_pass([operation("norm apply", 0.002, 4e9), operation("pool", 0.001, 1e9),
                               operation("norm apply", 0.001, 5e9)], 4e12)
        self.assertEqual([row["pass"] for row in rows], ["norm apply", "pool", "all"])
        self.assertEqual([row["operations"] for row in rows], [2, 1, 3])
        self.assertAlmostEqual(rows[0]["share"], 0.75)
        self.assertAlmostEqual(rows[0]["bytes_per_second"], 3e12)
        self.assertAlmostEqual(rows[0]["of_floor"], 0.75)
        self.assertAlmostEqual(rows[2]["of_floor"], 10e9 / 0.004 / 4e12)
        self.assertIsNone(passes.by_pass([operation("pool", 1, 1)], None)[0]["of_floor"])
        self.assertEqual(passes.by_pass([], 4e12), [])

    def test_the_table_of_a_profile(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, trainer.TRAINER)
            program.write_text("""#!/bin/sh
for flag; do case $flag in --profile_step=*) file=${flag#*=};; esac; done
echo '{"name":"conv1 forward","pass":"convolution forward","micro_batch":0,"seconds":0.002,"bytes":4000000000,'\
'"bytes_per_second":2e12,"graph":"convolution fp16","engine":"eng1"}' > "$file"
echo '{"record":"ready","rank":0,"fusion":"full"}'
echo '{"record":"warmup","rank":0,"loss":7.1}'
echo '{"record":"result","rank":0,"scope":"rank","step_seconds_p50":0.0015,"loss_last":0.1}'
""", encoding="utf-8")
            program.chmod(0o755)
            results = os.path.join(folder, "rows.jsonl")
            session = session_of(None, results, build_folder=folder, precision=["fp16"], batch_size=[256], image_size=224)
            with unittest.mock.patch.object(passes.speed, "copy_rate", lambda _: 4e12), \
                    contextlib.redirect_stdout(io.StringIO()) as out:
                self.assertEqual(passes.passes(session), "ok")
            row = json.loads(pathlib.Path(results).read_text(encoding="utf-8"))
        self.assertIn("fusion full: the step as one graph takes 1.50 ms, its operations one by one 2.00 ms", out.getvalue())
        self.assertIn("| convolution forward | 1 | 2.000 | 100 % | 15.6 | 2.00 | 50 % |", out.getvalue())
        self.assertIn("| conv1 forward | 2.000 | 2.00 | eng1 |", out.getvalue())
        self.assertEqual(row["operations"][0]["name"], "conv1 forward")


class Speed(unittest.TestCase):
    def test_levels_of_fusion_are_shown_where_they_were_timed(self):
        self.assertEqual(speed.fusion_words({"fusion": "full", "fusion_timed": {}, "fusion_refused": {}}), "full")
        self.assertEqual(speed.fusion_words({"fusion": "none", "fusion_timed": {"none": 0.0314}, "fusion_refused": {"full": "?"}}),
                         "none (none 31.40 ms, no full)")
        self.assertEqual(speed.fusion_words({}), "–")


class Build(unittest.TestCase):
    def test_the_wheels_libraries_are_preferred_and_the_toolkits_comes_last(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, library in (("cudnn", "libcudnn.so.9"), ("nccl", "libnccl.so.2"), ("cu13", "libnvrtc.so.13")):
                os.makedirs(os.path.join(folder, name, "include"))
                os.makedirs(os.path.join(folder, name, "lib"))
                pathlib.Path(folder, name, "lib", library).touch()
            folders = {name: os.path.join(folder, name) for name in ("cudnn", "nccl", "cu13")}
            with unittest.mock.patch.object(machine, "wheel_folders", lambda: folders), \
                    unittest.mock.patch.object(build, "toolkit_has", lambda _: False):
                words = build.wheel_options()
        self.assertIn(f"-DCUDNN_LIBRARY={folder}/cudnn/lib/libcudnn.so.9", words)
        self.assertIn(f"-DNCCL_INCLUDE_DIR={folder}/nccl/include", words)
        self.assertIn(f"-DCMAKE_CXX_FLAGS=-idirafter {folder}/cu13/include", words)
        self.assertIn(f"-DCUDA_nvrtc_LIBRARY={folder}/cu13/lib/libnvrtc.so.13", words)


    def test_what_has_not_changed_is_not_built_again(self):
        with tempfile.TemporaryDirectory() as root, unittest.mock.patch.object(machine, "ROOT", root), \
                unittest.mock.patch.object(build, "run") as run:
            folder = pathlib.Path(root, "build")
            source, built = pathlib.Path(root, "workloads", "main.cpp"), folder / "virtrain-resnet50-cuda"

            def make(_, *command):
                folder.mkdir(exist_ok=True)
                built.touch()
                return ""
            run.side_effect = make
            source.parent.mkdir()
            source.write_text("one")
            arguments = argparse.Namespace(build_folder=str(folder), headers=None, mpi=False, architectures="90", jobs=1)

            def builds():
                run.reset_mock()
                self.assertIsNone(build.build(Session(arguments), None))
                return run.called

            self.assertTrue(builds())
            os.utime(source)  # carried once more
            self.assertFalse(builds())
            source.write_text("two")
            self.assertTrue(builds())
            arguments.architectures = "100"
            self.assertTrue(builds())
            built.unlink()
            self.assertTrue(builds())
            arguments.headers = root + "/headers"
            os.mkdir(arguments.headers)
            self.assertTrue(builds())
            pathlib.Path(arguments.headers, plans.NAME).write_text("found")  # brought from the command before
            self.assertFalse(builds())

            def make_badly(_, *command):
                make(_)
                if "--build" in command:
                    raise kind("one failed")
                return ""
            run.side_effect = make_badly
            for kind, again in ((build.Failure, False), (build.Unfinished, True)):
                source.write_text(str(kind))
                self.assertEqual(build.build(Session(arguments), None), "one failed")
                run.reset_mock()
                self.assertEqual(build.build(Session(arguments), None), "one failed")
                self.assertEqual(run.called, again)

    def test_a_build_that_is_cut_off_is_told_from_one_that_fails(self):
        for script, kind in (("exit 3", build.Failure), ("sleep 60", build.Unfinished)):
            with self.assertRaises(build.Failure) as raised:
                build.run(session_of(10.5 / 60, clock=Clock()), "sh", "-c", script)
            self.assertIs(type(raised.exception), kind)

    def test_links_that_go_round_in_circles_or_nowhere_are_not_followed(self):
        with tempfile.TemporaryDirectory() as root:
            device, group = pathlib.Path(root, "devices", "17:00.0"), pathlib.Path(root, "groups", "21")
            device.mkdir(parents=True)
            group.mkdir(parents=True)
            (device / "vendor").write_text("0x10de")
            (device / "driver").symlink_to("../../drivers/nvidia")
            (device / "group").symlink_to("../../groups/21")
            (group / "17:00.0").symlink_to("../../devices/17:00.0")
            self.assertEqual(build.files_below(root), [str(device / "vendor")])


class Machine(unittest.TestCase):
    def test_libraries_are_looked_for_in_wheels_and_where_the_driver_was_found(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("nccl/lib", "cu13/lib", "cu12"):
                os.makedirs(os.path.join(folder, name))
            folders = {name: os.path.join(folder, name) for name in ("cudnn", "cu13", "nccl", "cu12")}
            for found, before, expected in ((folders, "/driver", f"{folder}/nccl/lib:{folder}/cu13/lib:/driver"),
                                            (folders, "", f"{folder}/nccl/lib:{folder}/cu13/lib"),
                                            ({}, "/driver:/more", "/driver:/more"), ({}, "", "")):
                with unittest.mock.patch.object(machine, "wheel_folders", lambda found=found: found), \
                        unittest.mock.patch.dict(os.environ, LD_LIBRARY_PATH=before):
                    self.assertEqual(machine.library_path(), expected)

    def test_the_first_gpu_is_cudas_and_the_drivers_version_nvidia_smis(self):
        class Driver:
            """Of a library that has a second GPU alone before it."""

            def __init__(self, status=0):
                self.cuInit = lambda _: status

            def cuDeviceGetName(self, name, _size, _device):
                name.value = b"NVIDIA L4"
                return 0

            def cuDeviceGetAttribute(self, value, number, _device):
                value._obj.value = {75: 8, 76: 9}[number]

            def cuDriverGetVersion(self, value):
                value._obj.value = 13010

        def first(driver, smi):
            with unittest.mock.patch.object(machine.ctypes, "CDLL", side_effect=[driver]), \
                    unittest.mock.patch.object(machine.subprocess, "run", side_effect=[smi]):
                return machine.first_gpu()

        smi = argparse.Namespace(stdout="NVIDIA H100, 9.0, 580.1\nNVIDIA L4, 8.9, 580.1\n")
        self.assertEqual(first(Driver(), smi), {"name": "NVIDIA L4", "capability": "8.9", "driver": "580.1"})
        self.assertEqual(first(Driver(), OSError()), {"name": "NVIDIA L4", "capability": "8.9", "driver": "for CUDA 13.1"})
        self.assertEqual(first(OSError(), smi), {"name": "NVIDIA H100", "capability": "9.0", "driver": "580.1"})
        self.assertIsNone(first(OSError(), OSError()))
        self.assertIsNone(first(Driver(100), smi))  # CUDA_VISIBLE_DEVICES leaves none

    def test_the_commit_is_known_without_git_or_its_folder(self):
        with tempfile.TemporaryDirectory() as root, unittest.mock.patch.object(machine, "ROOT", root):
            self.assertEqual(machine.commit(), "unknown")
            with unittest.mock.patch.dict(os.environ, VIRTRAIN_COMMIT="1234abc"):
                self.assertEqual(machine.commit(), "1234abc")
                os.mkdir(os.path.join(root, ".git"))  # of no repository
                self.assertEqual(machine.commit(), "1234abc")
                with unittest.mock.patch.dict(os.environ, PATH="/nonexistent"):
                    self.assertEqual(machine.commit(), "1234abc")
                subprocess.run("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m c", shell=True,
                               cwd=root, check=True)
                self.assertRegex(machine.commit(), "^[0-9a-f]{7,}$")

    def test_there_is_a_home(self):
        with unittest.mock.patch.dict(os.environ, HOME="/somewhere"):
            machine.give_home()
            self.assertEqual(os.environ["HOME"], "/somewhere")
        for home in ("", None):
            with unittest.mock.patch.dict(os.environ):
                os.environ.pop("HOME")
                if home is not None:
                    os.environ["HOME"] = home
                machine.give_home()
                known = pwd.getpwuid(os.getuid()).pw_dir
                self.assertEqual(os.environ["HOME"], known if os.path.isdir(known) else tempfile.gettempdir())
        with unittest.mock.patch.dict(os.environ, HOME=""), unittest.mock.patch("os.path.expanduser", lambda path: path):
            machine.give_home()  # somebody without an entry in /etc/passwd
            self.assertEqual(os.environ["HOME"], tempfile.gettempdir())


class Mpi(unittest.TestCase):
    def test_what_was_collected_is_preferred_and_none_at_all_is_no_obstacle(self):
        with tempfile.TemporaryDirectory() as headers, tempfile.TemporaryDirectory() as system:
            for folder in (pathlib.Path(headers, "openmpi", "bin"), pathlib.Path(system)):
                folder.mkdir(parents=True, exist_ok=True)
                (folder / "mpicxx").write_text("#!/bin/sh\n")
                (folder / "mpicxx").chmod(0o755)
            collected, there = os.path.join(headers, "openmpi/bin/mpicxx"), os.path.join(system, "mpicxx")
            for path, folder, mpi, expected in ((system, headers, True, collected), (system, None, True, there),
                                                ("/nonexistent", None, True, None), (system, headers, False, None)):
                with unittest.mock.patch.dict(os.environ, PATH=path):
                    words = build.mpi_options(argparse.Namespace(headers=folder, mpi=mpi))
                compiler = [f"-DMPI_CXX_COMPILER={expected}"] if expected else []
                self.assertEqual(words, [f"-DVIRTRAIN_MPI={'ON' if expected else 'OFF'}", *compiler])


class GpuCheck(unittest.TestCase):
    def test_without_a_gpu_it_says_so(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        done = gpu_check()
        self.assertEqual(done.returncode, 77)
        self.assertIn("no GPU here", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_flags(self):
        self.assertEqual(gpu_check("--help").returncode, 0)
        done = gpu_check("--precision", "fp8")
        self.assertEqual(done.returncode, 2)
        self.assertIn("tf32", done.stderr)
        done = gpu_check("--sections", "kernels,sped")
        self.assertEqual(done.returncode, 2)
        self.assertIn("no section 'sped' (allowed: kernels, correctness", done.stderr)

    def test_floor(self):
        # 4.3 TB/s over 304 MB an image, by hand
        self.assertAlmostEqual(floor.images_per_second(4.3e12, "full", "fp16", 224), 14144.7, places=1)
        self.assertAlmostEqual(floor.images_per_second(4.3e12, "none", "fp32", 224), 5810.8, places=1)
        self.assertAlmostEqual(floor.images_per_second(4.3e12, "none", "bf16", 112), 4 * 11621.6, places=0)
        self.assertIsNone(floor.images_per_second(4.3e12, "unheard of", "fp16", 224))
        self.assertIsNone(floor.images_per_second(None, "full", "fp16", 224))

    def test_tables(self):
        self.assertEqual(tables.table(["a", "b"], [["x|y", 1], ["two\nlines", "–"]]),
                         "| a | b |\n|---|---|\n| x\\|y | 1 |\n| two lines | – |")
        self.assertEqual(tables.number(7950.4), "7,950")
        self.assertEqual(tables.number(None), "–")
        self.assertEqual(tables.share(0.853), "85 %")
        self.assertEqual(tables.gigabytes(41.5e9), "41.5 GB")

    def test_records(self):
        records = trainer.records_of('{"record":"hello","rank":0,"size":2}\ncuDNN says something\n{broken\n'
                                     '{"record":"result","rank":1,"scope":"rank","images_per_second":2}\n'
                                     '{"record":"result","rank":0,"scope":"rank","images_per_second":1}\n'
                                     '{"record":"result","rank":0,"scope":"tenant","images_per_second":3}\n')
        self.assertEqual(records["hello"]["size"], 2)
        self.assertEqual(records["result"]["images_per_second"], 1)
        self.assertEqual(len(records["ranks"]), 2)

    def test_a_trainer_that_fails_or_says_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, trainer.TRAINER)
            session = session_of(build_folder=folder)

            def run(script):
                program.write_text("#!/bin/sh\n" + script, encoding="utf-8")
                program.chmod(program.stat().st_mode | stat.S_IXUSR)
                return trainer.run(session, "--precision=fp16", most_seconds=20)

            with self.assertRaisesRegex(trainer.Failed, "out of memory: batch 4096"):
                run("""echo '{"record":"error","rank":0,"operation":"out of memory","message":"batch 4096"}'; exit 4""")
            with self.assertRaisesRegex(trainer.Failed, "exit 0: it said nothing"):
                run("exit 0")
            with self.assertRaisesRegex(trainer.Failed, "not done after 1 s; it reached ready"):
                program.write_text("""#!/bin/sh\necho '{"record":"ready","rank":0}'; sleep 60""", encoding="utf-8")
                trainer.run(session, most_seconds=1)
            ending = session_of((1 + Session.RESERVE_SECONDS) / 60, clock=Clock(), build_folder=folder)
            with self.assertRaisesRegex(trainer.OutOfTime, "cut off after 1 s; it reached ready"):
                trainer.run(ending)
            ending.end += 300
            ending.needed_later = 300
            with unittest.mock.patch.object(trainer, "LEAST_SECONDS", 1), self.assertRaisesRegex(trainer.OutOfTime, "after 1 s"):
                trainer.run(ending)
            self.assertEqual(run("""read go; echo '{"record":"result","rank":0,"scope":"rank","flag":"'$1$go'"}'""")
                             ["result"]["flag"], "--precision=fp16go")

    def test_libraries_of_wheels_have_long_names(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "lib"))
            self.assertIsNone(build.library(folder, "cudnn"))
            for name in ("libcudnn.so.9", "libcudnn_ops.so.9"):
                pathlib.Path(folder, "lib", name).touch()
            self.assertEqual(build.library(folder, "cudnn"), os.path.join(folder, "lib", "libcudnn.so.9"))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
