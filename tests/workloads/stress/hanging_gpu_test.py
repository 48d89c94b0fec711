#!/usr/bin/python3
"""hanging_gpu_test.py BUILD FOLDER: a driver that hangs (libcuda.so.1 in FOLDER) is an error, and soon."""

import json
import os
import subprocess
import sys
import unittest

BUILD, DRIVER = sys.argv[1:]


def failure(program, *arguments):
    """The status and the record "error" of a run with --stall_seconds 1."""
    result = subprocess.run(
        [os.path.join(BUILD, program), *arguments, "--stall_seconds", "1"], input="go\n", timeout=30,
        env=dict(os.environ, LD_LIBRARY_PATH=DRIVER), capture_output=True, text=True, check=False,
    )
    return result.returncode, json.loads(result.stdout.splitlines()[-1])


class Hanging(unittest.TestCase):
    def test_stressors(self):
        for arguments in (["gemm"], ["power"], ["l2"], ["membw", "--gpu", "0"], ["h2d"], ["d2h"]):
            status, error = failure("virtrain-stress", "--kind", *arguments)
            self.assertEqual((status, error["record"], error["operation"]), (1, "error", "use GPU 0"))
            self.assertRegex(error["message"], "for 1 s.*GPU")

    def test_probes(self):
        for probe in ("gpu_gemm", "device_copy", "host_to_device", "device_to_host", "peer_copy"):
            status, error = failure("virtrain-probe", "--probe", probe, "--format", "jsonl")
            self.assertEqual((status, error["record"], error["operation"]), (1, "error", f"measure {probe}"))
            self.assertRegex(error["message"], "for 1 s.*GPU")

    def test_canaries(self):
        result = subprocess.run(
            [os.path.join(BUILD, "virtrain-canary"), "fill"], timeout=50, env=dict(os.environ, LD_LIBRARY_PATH=DRIVER), capture_output=True, text=True, check=False,
            input=json.dumps({"paths": ["cuda:0000:19:00.0"], "canary": "vt-canary-" + 22 * "a", "seconds": 1}))
        error = json.loads(result.stdout.splitlines()[-1])
        self.assertEqual((result.returncode, error["record"], error["operation"]), (1, "error", "fill GPU 0000:19:00.0"))
        self.assertRegex(error["message"], "within 11 s: it hangs")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
