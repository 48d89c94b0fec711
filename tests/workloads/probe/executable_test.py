#!/usr/bin/python3
"""executable_test.py BUILD: virtrain-probe alone and under mpirun, and `virtrain import` reading its tables."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1])
PROBE = str(BUILD / "virtrain-probe")
SMALL = ["--max_bytes", "64KiB", "--factor", "16", "--iterations", "3", "--warmup_iterations", "1"]


def run(arguments, ranks=1):
    command = [PROBE, *arguments]
    if ranks > 1:
        command = ["mpirun.openmpi", "--oversubscribe", "--bind-to", "none", "-np", str(ranks), *command]
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False
    )


def records(result, record):
    lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    return [line for line in lines if line["record"] == record]


def virtrain(*arguments):
    return subprocess.run([str(BUILD / "virtrain"), *arguments], capture_output=True, text=True, check=True).stdout


class Alone(unittest.TestCase):
    def test_records(self):
        arguments = ["--bytes", "1MiB", "--gemm_size", "64", "--repetitions", "3", "--threads", "2", "--format", "jsonl"]
        result = run(arguments)
        self.assertEqual(result.returncode, 0, result.stderr)
        (hello,) = records(result, "hello")
        self.assertEqual((hello["rank"], hello["size"], hello["mpi"], hello["threads"]), (0, 1, None, 2))
        probes = records(result, "probe")
        self.assertEqual([p["name"] for p in probes][:3], ["triad", "memory_copy", "gemm"])
        for probe in probes:
            self.assertEqual(probe["wrong"], 0)
            self.assertGreater(probe["value"], 0)
            self.assertEqual(probe["node"], hello["hostname"])
        (end,) = records(result, "result")
        self.assertEqual((end["figures"], end["wrong"]), (len(probes), 0))

    def test_table(self):
        result = run(["--probe", "triad", "--bytes", "1MiB"])
        heading, line = result.stdout.splitlines()
        self.assertEqual(heading.split()[0], "probe")
        self.assertEqual(line.split()[:4], ["triad", "CPU", "double", "1MiB"])

    def test_without_a_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        result = run(["--probe", "device_copy", "--format", "jsonl"])
        self.assertNotEqual(result.returncode, 0)
        self.assertRegex(result.stderr, "no CUDA|CUDA driver|no CUDA-capable device")
        self.assertEqual(len(records(result, "error")), 1)

    def test_nccl_without_a_gpu(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("there is a GPU")
        for ranks in (1, 2):
            for probe in ("nccl_all_reduce", "nccl_all_gather", "nccl_broadcast"):
                result = run(["--probe", probe, "--format", "jsonl"], ranks)
                self.assertEqual(result.returncode, 4)
                self.assertRegex(result.stderr, "no CUDA|CUDA driver|no CUDA-capable device|no NCCL")
                self.assertGreaterEqual(len(records(result, "error")), 1)
                self.assertEqual(records(result, "probe"), [])

    def test_refusals(self):
        for arguments in (["--bogus"], ["--probe", "all_reduce"], ["--probe", "x"], ["--probe", "nccl_reduce"],
                          ["--probe", "triad", "--gpu", "3"]):
            result = run(arguments)
            self.assertEqual(result.returncode, 2)
            self.assertEqual(len(records(result, "error")), 1)
        self.assertEqual(run(["--help"]).returncode, 0)
        self.assertNotEqual(run(["--probe", "triad"], ranks=2).returncode, 0)


class Ranks(unittest.TestCase):
    def test_records(self):
        result = run([*SMALL, "--format", "jsonl", "--transport", "shm"], ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(h["rank"] for h in records(result, "hello")), [0, 1])
        probes = records(result, "probe")
        names = [p["name"] for p in probes]
        sizes = 4  # 8, 128, 2048, 32768
        self.assertEqual(names, 2 * sizes * ["all_reduce"] + 2 * sizes * ["all_gather"] + sizes * ["broadcast"] + ["round_trip"])
        for probe in probes:
            self.assertEqual((probe["wrong"], probe["ranks"], probe["nodes"], probe["transport"]), (0, 2, 1, "shm"))
        self.assertEqual({p["detail"]["library"] for p in probes[:-1]}, {records(result, "hello")[0]["mpi"]})
        factors = {"all_reduce": 1.0, "all_gather": 0.5, "broadcast": 1.0}
        for probe in probes[:-1]:
            self.assertAlmostEqual(probe["bus_bytes_per_second"] / probe["value"], factors[probe["name"]])
        self.assertEqual(probes[-1]["unit"], "s")

    def test_three_ranks_have_right_data(self):
        result = run([*SMALL, "--probe", "all_reduce,all_gather,broadcast", "--format", "jsonl"], ranks=3)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual({p["wrong"] for p in records(result, "probe")}, {0})

    def test_virtrain_imports_the_table(self):
        result = run([*SMALL, "--probe", "all_reduce,all_gather,broadcast"], ranks=2)
        self.assertEqual(result.returncode, 0, result.stderr)
        with tempfile.TemporaryDirectory() as folder:
            table, database = pathlib.Path(folder, "probe.txt"), str(pathlib.Path(folder, "results.db"))
            table.write_text(result.stdout, encoding="utf-8")
            virtrain("import", str(table), "--experiment", "e", "--arm", "vm", "--db", database)
            rows = json.loads(virtrain("export", "--experiment", "e", "--view", "v_probe", "--format", "json", "--db", database))
        self.assertEqual([r["name"] for r in rows].count("all_reduce"), 8)
        self.assertEqual([r["name"] for r in rows].count("all_gather"), 8)
        self.assertEqual([r["name"] for r in rows].count("broadcast"), 4)
        self.assertEqual({(r["ranks"], r["nodes"], r["wrong"]) for r in rows}, {(2, 1, 0)})
        self.assertEqual({r["size_bytes"] for r in rows}, {8, 128, 2048, 32768})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
