#!/usr/bin/python3
"""standalone_test.py SOURCE: workloads/ builds from its own folder, without MPI, oneDNN and the rest's libraries."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

WORKLOADS = pathlib.Path(sys.argv[1]) / "workloads"


def checked(*command):
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise AssertionError(f"{command}\n{result.stdout[-4000:]}{result.stderr[-4000:]}")
    return result.stdout


class Standalone(unittest.TestCase):
    def test_programs_without_mpi_and_onednn(self):
        with tempfile.TemporaryDirectory(prefix="virtrain-workloads-") as build:
            launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
            # Without optimization it compiles fastest, and without -g ccache finds it in another folder, too.
            options = ["-G", "Ninja", "-DCMAKE_BUILD_TYPE=None", "-DVIRTRAIN_MPI=OFF", "-DDNNL_LIBRARY=",
                       "-DCMAKE_CUDA_ARCHITECTURES=90"]
            checked("cmake", "-S", str(WORKLOADS), "-B", build, *options, *launcher)
            cache = pathlib.Path(build, "CMakeCache.txt").read_text(encoding="utf-8")
            self.assertIsNone(re.search(r"(?i)^\w*(boost|catch|libvirt|yaml|sqlite|spdlog|mpi_)\w*:", cache, re.M))
            programs = ["virtrain-probe", "virtrain-stress"]
            has_cuda = re.search(r"^CMAKE_CUDA_COMPILER:\w+=/", cache, re.M)
            checked("cmake", "--build", build, "--target", *programs, *(["virtrain-resnet50-cuda"] if has_cuda else []), "-j",
                    str(os.cpu_count()))
            probe = str(pathlib.Path(build, "virtrain-probe"))
            self.assertIsNone(re.search("libmpi|libdnnl", checked("ldd", probe)))
            refusal = subprocess.run([probe, "--probe", "gemm"], capture_output=True, text=True, check=False)
            self.assertEqual(refusal.returncode, 4)  # cannot, as everywhere
            self.assertIn("this build has no oneDNN", refusal.stderr)
            stress = str(pathlib.Path(build, "virtrain-stress"))
            self.assertIsNone(re.search("libmpi", checked("ldd", stress)))
            refusal = subprocess.run([stress, "--kind", "allreduce"], input="go\n", capture_output=True, text=True, check=False)
            self.assertEqual(refusal.returncode, 4)
            self.assertIn("this build has no MPI", refusal.stderr)
            out = checked(probe, "--probe", "triad", "--bytes", "64KiB", "--format", "jsonl")
            self.assertEqual([json.loads(line)["record"] for line in out.splitlines()], ["hello", "probe", "result"])
            if has_cuda:
                self.look_at_trainer(str(pathlib.Path(build, "virtrain-resnet50-cuda")))

    def look_at_trainer(self, trainer):
        self.assertIsNone(re.search("libmpi", checked("ldd", trainer)))
        hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        refusal = subprocess.run([trainer, "--batch_size=8"], input="", capture_output=True, text=True, env=hidden, check=False)
        self.assertEqual(refusal.returncode, 4)
        self.assertEqual(json.loads(refusal.stdout)["operation"], "look for GPUs")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
