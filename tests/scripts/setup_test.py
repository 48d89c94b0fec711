"""scripts/setup with stand-ins for apt-get, CMake and nvcc: what it installs and says for the CUDA trainer."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(sys.argv.pop(1))

STAND_INS = {
    "id": "echo 0",
    "apt-get": 'echo "$@" >> apt-get.log',
    # No package is missing but what setup asks for by itself.
    "dpkg-query": 'case "$*" in *db:Status-Status*" libboost"*) ;; *) echo installed ;; esac',
    "nvcc": "exit 1",
    "cmake": 'mkdir -p build; printf "#!/bin/sh\\necho 0\\n" > build/virtrain; chmod +x build/virtrain; echo "-- $CMAKE_SAYS"',
}


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="virtrain-setup-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        for name in ("setup", "packages.txt", "cudnn-frontend.txt"):
            shutil.copy(SOURCE / "scripts" / name, self.root / "scripts" / name)
        (self.root / "bin").mkdir()
        for name, body in STAND_INS.items():
            self.stand_in(name, body)

    def stand_in(self, name, body):
        file = self.root / "bin" / name
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def setup_says(self, *arguments, cmake=""):
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "CMAKE_SAYS": cmake}
        done = subprocess.run([self.root / "scripts/setup", *arguments], env=environment, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def test_says_why_there_is_no_cuda_trainer(self):
        why = "without virtrain-resnet50-cuda: no cuDNN 9 found"
        self.assertIn(f"setup: {why} (docs/gpu-host.md", self.setup_says("--offline", cmake=why))

    def test_says_what_the_trainer_cannot_do(self):
        why = "virtrain-resnet50-cuda on one GPU only: no NCCL found"
        self.assertIn(f"setup: {why} (docs/gpu-host.md", self.setup_says("--offline", cmake=why))

    def test_says_nothing_of_a_whole_trainer(self):
        self.assertNotIn("cuda", self.setup_says("--offline", cmake="Configuring done"))

    def test_installs_pip_where_the_trainer_needs_it(self):
        log = self.root / "apt-get.log"
        self.stand_in("python3", "exit 0")  # has pip, and downloads
        self.setup_says()
        self.assertNotIn("python3-pip", log.read_text() if log.exists() else "")
        self.stand_in("python3", "exit 1")
        self.setup_says()
        self.assertIn("python3-pip", log.read_text())


if __name__ == "__main__":
    unittest.main()
