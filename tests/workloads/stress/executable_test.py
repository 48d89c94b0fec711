#!/usr/bin/python3
"""executable_test.py BUILD: virtrain-stress as the harness drives it."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

STRESS = str(pathlib.Path(sys.argv[1]) / "virtrain-stress")
MIB = 1 << 20


def loses_last_words():
    """Open MPI 5 does not pass on what ranks say when it ends them because another was killed."""
    said = subprocess.run(["mpirun.openmpi", "--version"], capture_output=True, text=True, check=True).stdout
    return ") 5." in said


class Process:
    """A running virtrain-stress; its records one by one."""

    def __init__(self, *arguments, launcher=()):
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.process = subprocess.Popen(
            [*launcher, STRESS, *arguments],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                pipe.close()

    def next(self, record):
        for line in self.process.stdout:
            found = json.loads(line.lstrip("\0"))  # Open MPI 5 may send one when the input has ended
            assert (found["rank"] == 0 or found["record"] == "hello") and len(line) < 4096
            if found["record"] == record:
                return found
        raise AssertionError(f"no record {record}: {self.process.stderr.read()}")

    def say(self, word):
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def wait(self):
        return self.process.wait(timeout=60)


class Protocol(unittest.TestCase):
    def test_go_progress_stop(self):
        with Process("--kind", "cpu", "--threads", "1") as stress:
            hello = stress.next("hello")
            self.assertEqual((hello["configuration"]["kind"], hello["pci_address"]), ("cpu", None))
            self.assertTrue(hello["device"])
            stress.next("ready")
            stress.say("go")
            first, second = stress.next("progress"), stress.next("progress")
            for progress in (first, second):
                self.assertGreater(progress["work"], 0)
                self.assertAlmostEqual(progress["rate"], progress["work"] / progress["seconds"], delta=1)
                self.assertEqual(progress["unit"], "operations")
                self.assertTrue(0.3 < progress["busy"] < 1.5, progress)
            self.assertGreater(second["t_ns"], first["t_ns"])
            stress.say("stop")
            result = stress.next("result")
            self.assertEqual((result["ended_by"], result["stopped"]), ("stop", True))
            self.assertGreaterEqual(result["work"], first["work"] + second["work"])
            self.assertEqual(stress.wait(), 0)

    def test_signals_end_it_cleanly(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Process("--kind", "llc", "--bytes", "1MiB", "--threads", "2") as stress:
                stress.say("go")
                stress.next("progress")
                stress.process.send_signal(number)
                self.assertEqual(stress.next("result")["ended_by"], "signal")
                self.assertEqual(stress.wait(), 0)

    def test_end_of_input_ends_it_where_no_time_is_set(self):
        with Process("--kind", "cpu", "--threads", "1") as stress:
            stress.say("go")
            stress.process.stdin.close()
            self.assertEqual(stress.next("result")["ended_by"], "end of input")
        with Process("--kind", "cpu", "--threads", "1", "--seconds", "0.3") as stress:
            stress.say("go")
            stress.process.stdin.close()
            result = stress.next("result")
            self.assertEqual((result["ended_by"], result["stopped"]), ("seconds", False))
            self.assertGreaterEqual(result["seconds"], 0.3)

    def test_before_go(self):
        for words, status in (("", 2), ("start\n", 2), ("stop\n", 0)):
            result = subprocess.run([STRESS, "--kind", "cpu"], input=words, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(result.returncode, status, result.stderr)
            last = json.loads(result.stdout.splitlines()[-1])
            self.assertEqual(last["record"], "error" if status else "result")
            if not status:
                self.assertEqual(last["work"], 0)

    def test_without_a_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        result = subprocess.run([STRESS, "--kind", "gemm"], input="go\n", capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 4)
        self.assertRegex(result.stderr, "no CUDA|CUDA driver")
        self.assertEqual(json.loads(result.stdout)["record"], "error")

    def test_refusals(self):
        for arguments in ([], ["--kind", "gemm", "--threads", "2"], ["--kind", "disk"], ["--kind", "membw", "--rate", "150%"]):
            result = subprocess.run([STRESS, *arguments], input="go\n", capture_output=True, text=True, check=False)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(json.loads(result.stdout)["record"], "error")


class Rate(unittest.TestCase):
    def test_bytes_a_second_are_an_upper_bound(self):
        with tempfile.TemporaryDirectory() as folder:
            for kind in (["membw", "--bytes", "64MiB"], ["disk", "--bytes", "8MiB", "--file", str(pathlib.Path(folder, "x"))]):
                with Process("--kind", *kind, "--rate", "16MiB/s", "--threads", "2", "--seconds", "1.5") as stress:
                    stress.say("go")
                    result = stress.next("result")
                    pieces = 2 * 2 * MIB  # each thread may be one ahead
                    self.assertLess(result["work"], 1.5 * 16 * MIB * result["seconds"] + pieces)
                    self.assertGreater(result["work"], 0.1 * 16 * MIB * result["seconds"])

    def test_a_share_of_the_time(self):
        with Process("--kind", "cpu", "--rate", "20%", "--threads", "1", "--seconds", "1") as stress:
            stress.say("go")
            stress.next("result")
            _, _, usage = os.wait4(stress.process.pid, 0)
            stress.process.returncode = 0
            self.assertLess(usage.ru_utime + usage.ru_stime, 0.6)
            self.assertGreater(usage.ru_utime, 0.01)


class Files(unittest.TestCase):
    def test_nothing_is_left_even_after_kill(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            with tempfile.TemporaryDirectory() as folder:
                with Process("--kind", "disk", "--file", str(pathlib.Path(folder, "x")), "--bytes", "4MiB") as stress:
                    stress.say("go")
                    self.assertGreater(stress.next("progress")["work"], 0)
                    stress.process.send_signal(number)
                    stress.wait()
                self.assertEqual(os.listdir(folder), [])


class Net(unittest.TestCase):
    def test_two_sides(self):
        with Process("--kind", "net", "--listen", "0") as receiver:
            port = receiver.next("ready")["port"]
            receiver.say("go")
            with Process("--kind", "net", "--peer", f"localhost:{port}", "--rate", "64MiB/s", "--seconds", "0.5") as sender:
                sender.say("go")
                sent = sender.next("result")["work"]
            self.assertGreater(sent, 0)
            received = 0
            while received < sent:
                received += receiver.next("progress")["work"]
            receiver.say("stop")
            self.assertEqual(receiver.next("result")["work"], sent)

    def test_a_peer_that_goes_is_an_error(self):
        with Process("--kind", "net", "--listen", "0") as receiver:
            port = receiver.next("ready")["port"]
            receiver.say("go")
            with Process("--kind", "net", "--peer", f"localhost:{port}") as sender:
                sender.say("go")
                sender.next("progress")
                receiver.process.kill()
                self.assertIn("peer", sender.next("error")["operation"])
                self.assertEqual(sender.wait(), 1)


def gone(pid):
    """Whether it has ended, reaped or not; mpirun does not wait until what it killed is gone."""
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Ranks(unittest.TestCase):
    """allreduce over real ranks."""

    ARGUMENTS = ("--kind", "allreduce", "--bytes", "1MiB")

    @staticmethod
    def started(ranks, *arguments):
        launcher = ("mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np", str(ranks))
        return Process(*Ranks.ARGUMENTS, *arguments, launcher=launcher)

    def hellos(self, stress, ranks):
        found = [stress.next("hello") for _ in range(ranks)]
        self.assertEqual([hello["rank"] for hello in found], list(range(ranks)))
        self.assertEqual({hello["size"] for hello in found}, {ranks})
        self.assertEqual(len({hello["pid"] for hello in found}), ranks)
        return found

    def test_all_ranks_start_and_stop_together(self):
        for ranks in (2, 3):
            with self.started(ranks, "--rate", "32MiB/s") as stress:
                hellos = self.hellos(stress, ranks)
                stress.next("ready")
                stress.say("go")
                progress = stress.next("progress")
                self.assertEqual((progress["unit"], progress["work"] % MIB), ("B", 0))
                self.assertGreater(progress["work"], 0)
                stress.say("stop")
                result = stress.next("result")
                self.assertEqual((result["ended_by"], result["unit"]), ("stop", "B"))
                self.assertGreaterEqual(result["work"], progress["work"])
                self.assertEqual(stress.wait(), 0)
                for hello in hellos:
                    self.assertTrue(gone(hello["pid"]))

    def test_the_rate_is_an_upper_bound_and_rests_are_no_work(self):
        with self.started(2, "--rate", "8MiB/s", "--seconds", "2") as stress:
            pids = [hello["pid"] for hello in self.hellos(stress, 2)]
            stress.say("go")
            stress.next("progress")
            follower = pathlib.Path(f"/proc/{pids[1]}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
            result = stress.next("result")
            self.assertEqual(result["ended_by"], "seconds")
            self.assertLess(result["work"], 1.1 * 8 * MIB * result["seconds"] + 2 * MIB)
            self.assertGreater(result["work"], 0.1 * 8 * MIB * result["seconds"])
            # The rank that waits for rank 0 must not keep a core busy, as MPI's own waiting would.
            self.assertLess(int(follower[11]) + int(follower[12]), 0.7 * os.sysconf("SC_CLK_TCK"))
            self.assertEqual(stress.wait(), 0)

    def test_a_long_rest_ends_at_once(self):
        with self.started(2, "--rate", "20KiB/s") as stress:  # 51 s between two sums
            self.hellos(stress, 2)
            stress.say("go")
            stress.next("progress")
            stress.say("stop")
            begun = time.monotonic()
            self.assertEqual(stress.next("result")["ended_by"], "stop")
            self.assertEqual(stress.wait(), 0)
            self.assertLess(time.monotonic() - begun, 10)

    def test_stop_or_the_end_of_input_before_go(self):
        for words, record, status in (("stop\n", "result", 0), ("", "error", 2)):
            with self.started(2) as stress:
                stress.process.stdin.write(words)
                stress.process.stdin.close()
                stress.next(record)
                self.assertEqual(stress.wait(), status)

    def test_a_killed_rank_is_an_error(self):
        for number in (0, 1):
            with self.started(3) as stress:
                pids = [hello["pid"] for hello in self.hellos(stress, 3)]
                stress.say("go")
                stress.next("progress")
                os.kill(pids[number], signal.SIGKILL)
                self.assertNotEqual(stress.wait(), 0)
                records = [json.loads(line)["record"] for line in stress.process.stdout]
                self.assertNotIn("result", records)
                if number == 1 and not loses_last_words():
                    self.assertIn("error", records)
                for pid in pids:
                    self.assertTrue(gone(pid))

    def test_a_rank_that_hangs_is_an_error_within_the_limit(self):
        with self.started(2, "--stall_seconds", "2") as stress:
            pids = [hello["pid"] for hello in self.hellos(stress, 2)]
            stress.say("go")
            stress.next("progress")
            os.kill(pids[1], signal.SIGSTOP)
            begun = time.monotonic()
            error = stress.next("error")
            self.assertLess(time.monotonic() - begun, 10)
            self.assertIn("for 2 s", error["message"])
            self.assertNotEqual(stress.wait(), 0)

    def test_a_rank_that_hangs_at_the_end_is_an_error_and_no_result(self):
        with self.started(2, "--stall_seconds", "2", "--rate", "1MiB/s") as stress:  # a second between two sums
            pids = [hello["pid"] for hello in self.hellos(stress, 2)]
            stress.say("go")
            stress.next("progress")
            os.kill(pids[1], signal.SIGSTOP)
            stress.say("stop")
            self.assertNotEqual(stress.wait(), 0)
            records = [json.loads(line)["record"] for line in stress.process.stdout]
            self.assertIn("error", records)
            self.assertNotIn("result", records)

    def test_a_lone_process_and_missing_gpus_are_refused(self):
        result = subprocess.run([STRESS, *self.ARGUMENTS], input="go\n", capture_output=True, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("mpirun -np 2", result.stderr)
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        with self.started(2, "--gpu", "0") as stress:
            self.assertEqual(stress.wait(), 4)
            self.assertRegex(stress.process.stderr.read(), "no CUDA|CUDA driver|no CUDA-capable device|no NCCL")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
