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
import unittest

STRESS = str(pathlib.Path(sys.argv[1]) / "virtrain-stress")
MIB = 1 << 20


class Process:
    """A running virtrain-stress; its records one by one."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [STRESS, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
            found = json.loads(line)
            assert found["rank"] == 0 and len(line) < 4096
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
            self.assertEqual(stress.next("hello")["configuration"]["kind"], "cpu")
            stress.next("ready")
            stress.say("go")
            first, second = stress.next("progress"), stress.next("progress")
            for progress in (first, second):
                self.assertGreater(progress["work"], 0)
                self.assertAlmostEqual(progress["rate"], progress["work"] / progress["seconds"], delta=1)
                self.assertEqual(progress["unit"], "operations")
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

    def test_refusals(self):
        for arguments in ([], ["--kind", "gemm"], ["--kind", "disk"], ["--kind", "membw", "--rate", "50%"]):
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


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
