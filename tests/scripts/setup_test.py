"""scripts/setup with stand-ins for apt-get, CMake and nvcc: what it installs on which release, and says for the CUDA trainer."""

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
    "dpkg-query": 'for name in "${@:3}"; do echo "installed $name"; done',
    "nvcc": "exit 1",
    "python3": "exit 0",  # has pip, and downloads
    "cmake": 'mkdir -p build; printf "#!/bin/sh\\necho 0\\n" > build/virtrain; chmod +x build/virtrain; echo "-- $CMAKE_SAYS"',
}


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="virtrain-setup-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "scripts").mkdir()
        for name in ("setup", "packages.txt", "packages-test.txt", "package-names.txt", "cudnn-frontend.txt"):
            shutil.copy(SOURCE / "scripts" / name, self.root / "scripts" / name)
        (self.root / "bin").mkdir()
        self.release("debian", "12")
        for name, body in STAND_INS.items():
            self.stand_in(name, body)

    def stand_in(self, name, body):
        file = self.root / "bin" / name
        file.write_text(f"#!/bin/bash\n{body}\n")
        file.chmod(0o755)

    def release(self, name, version):
        (self.root / "os-release").write_text(f'ID={name}\nVERSION_ID="{version}"\n')

    def run_setup(self, *arguments, cmake=""):
        environment = {**os.environ, "PATH": f"{self.root / 'bin'}:{os.environ['PATH']}", "CMAKE_SAYS": cmake,
                       "VIRTRAIN_OS_RELEASE": str(self.root / "os-release")}
        return subprocess.run([self.root / "scripts/setup", *arguments], env=environment, capture_output=True,
                              text=True, timeout=60)

    def setup_says(self, *arguments, cmake=""):
        done = self.run_setup(*arguments, cmake=cmake)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stderr

    def installs(self):
        """The packages that setup --all asks apt-get for where none is installed."""
        self.stand_in("dpkg-query", "exit 1")
        (self.root / "apt-get.log").unlink(missing_ok=True)
        self.setup_says("--all")
        line = next(line for line in (self.root / "apt-get.log").read_text().splitlines() if line.startswith("install "))
        return {word for word in line.split() if not word.startswith("-")}

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
        self.setup_says()
        self.assertNotIn("python3-pip", log.read_text() if log.exists() else "")
        self.stand_in("python3", "exit 1")
        self.setup_says()
        self.assertIn("python3-pip", log.read_text())

    def has_promtool(self):
        """A stand-in for apt-get that downloads what has a promtool in it."""
        self.stand_in("apt-get", 'echo "$@" >> "$(dirname "$0")/../apt-get.log"; [ "$1" != download ] || touch "$3_1_amd64.deb"')
        self.stand_in("dpkg-deb", 'mkdir -p "$3/usr/bin"; touch "$3/usr/bin/promtool"; chmod +x "$3/usr/bin/promtool"')

    def test_packages_have_the_names_of_the_release(self):
        self.has_promtool()
        wanted = {
            ("debian", "12"): ({"libboost1.81-dev", "clang-format-16", "xz-utils"}, {"libboost1.83-dev", "promtool"}),
            ("debian", "13"): ({"libboost1.83-dev", "xz-utils", "cmake"}, {"libboost1.81-dev", "clang-format-16", "clang-tidy-14", "-"}),
            ("ubuntu", "24.04"): ({"libboost1.83-dev"}, {"libboost1.81-dev", "chromium"}),
            ("debian", "14"): ({"libboost1.81-dev"}, {"libboost1.83-dev", "="}),
        }
        for release, (among, absent) in wanted.items():
            with self.subTest(release=release):
                self.release(*release)
                shutil.rmtree(self.root / "build", ignore_errors=True)
                installed = self.installs()
                self.assertEqual(among - installed, set())
                self.assertEqual(absent & installed, set())
                log = (self.root / "apt-get.log").read_text()
                promtool = "promtool" if release == ("debian", "13") else "prometheus"
                self.assertIn(f"download -qq {promtool}\n", log)
                self.assertTrue((self.root / "build/tools/promtool").exists())

    def test_every_name_in_the_table_is_of_a_package_that_is_asked_for(self):
        lines = [line.split() for line in (SOURCE / "scripts/package-names.txt").read_text().splitlines() if line[0] != "#"]
        self.assertEqual(lines[0], ["debian-12", "debian-13", "ubuntu-24.04"])
        asked = (SOURCE / "scripts/setup").read_text().split()
        for file in ("packages.txt", "packages-test.txt"):
            asked += [line.split()[0] for line in (SOURCE / "scripts" / file).read_text().splitlines() if line and line[0] != "#"]
        for line in lines[1:]:
            self.assertEqual(len(line), 3, line)
            self.assertTrue(any(line[0] in word for word in asked), line)

    def test_says_where_it_was_not_tested(self):
        for release, said in ((("debian", "12"), False), (("debian", "13"), False), (("ubuntu", "24.04"), True)):
            self.release(*release)
            self.assertEqual("built and tested on Debian 12 and 13 only" in self.setup_says(), said, release)

    def test_a_package_without_promtool_is_a_failure(self):
        self.has_promtool()
        self.stand_in("dpkg-deb", "echo not a package >&2; exit 2")
        done = self.run_setup("--all")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("no usr/bin/promtool in prometheus", done.stderr)


if __name__ == "__main__":
    unittest.main()
