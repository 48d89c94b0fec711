#!/usr/bin/python3
"""What cpack puts into which Debian package, what these need, and whether manual pages read well.

scripts/try-package installs them."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_line import BUILD, verbs, virtrain

VERBS = verbs()
HAS_CUDA = (BUILD / "virtrain-resnet50-cuda").exists()


def said(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, **options).stdout


def field(package, name):
    return said("dpkg-deb", "-f", package, name).strip()


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cpack = pathlib.Path(os.environ.get("CMAKE_COMMAND", "cmake")).with_name("cpack")
        for tool in (cpack, "dpkg-deb", "dpkg-shlibdeps"):
            if not shutil.which(tool):
                print(f"skipped: {tool} is not installed")
                sys.exit(77)
        folder = tempfile.TemporaryDirectory(prefix="virtrain-packages-")
        cls.addClassCleanup(folder.cleanup)
        said(cpack, "--config", BUILD / "CPackConfig.cmake", "-B", folder.name, "-D", "CPACK_DEBIAN_COMPRESSION_TYPE=gzip")
        cls.packages = {field(p, "Package"): p for p in pathlib.Path(folder.name).glob("*.deb")}

    def files(self, package):
        """{path: mode} of all but folders."""
        lines = [line.split() for line in said("dpkg-deb", "-c", self.packages[package]).splitlines()]
        self.assertEqual({line[1] for line in lines}, {"root/root"})
        return {line[5].removeprefix("."): line[0] for line in lines if not line[5].endswith("/")}

    def test_the_packages(self):
        cuda = {"virtrain-workloads-cuda"} if HAS_CUDA else set()
        self.assertEqual(set(self.packages), {"virtrain", "virtrain-workloads-cpu"} | cuda)

    def test_programs(self):
        programs = {p: {f for f, mode in self.files(p).items() if mode.startswith("-rwx")} for p in self.packages}
        helpers = {f"/usr/libexec/virtrain/virtrain-{name}" for name in ("agent", "host", "payload", "rsh", "slice", "guest-init")}
        self.assertEqual(programs["virtrain"], {"/usr/bin/virtrain"} | helpers)
        self.assertEqual(programs["virtrain-workloads-cpu"],
                         {f"/usr/bin/virtrain-{name}" for name in ("resnet50-cpu", "probe", "stress", "canary")})
        if HAS_CUDA:
            self.assertEqual(programs["virtrain-workloads-cuda"], {"/usr/bin/virtrain-resnet50-cuda"})

    def test_what_is_beside_the_programs(self):
        files = self.files("virtrain")
        for expected in (
            *["/usr/share/virtrain/scenarios/quickstart.yaml", "/usr/share/virtrain/grafana/virtrain-nightly.json"],
            *["/usr/lib/systemd/system/virtrain-clean.service", "/usr/share/doc/virtrain/docs/hosts.md"],
            *["/usr/lib/systemd/system/virtrain-host.socket", "/usr/lib/systemd/system/virtrain-host@.service"],
            *["/usr/share/bash-completion/completions/virtrain", "/usr/share/zsh/vendor-completions/_virtrain"],
            "/usr/share/fish/vendor_completions.d/virtrain.fish",
        ):
            self.assertIn(expected, files)
        nested = {"payload-make", *(f"schedule-{verb}" for verb in ("add", "list", "remove", "run"))}
        pages = {"virtrain"} | {f"virtrain-{verb}" for verb in {*VERBS, *nested}}
        self.assertEqual({f for f in files if "/man/" in f}, {f"/usr/share/man/man1/{page}.1.gz" for page in pages})
        for package in self.packages:
            for name in ("copyright", "changelog.gz"):
                self.assertIn(f"/usr/share/doc/{package}/{name}", self.files(package))

    def test_nothing_of_the_tests_and_the_build(self):
        for package in self.packages:
            for file in self.files(package):
                self.assertRegex(file, r"^/usr/(bin|libexec/virtrain|lib/systemd/system|share)/")
                self.assertNotRegex(file, r"_test|\.h$|\.a$|cmake")

    def test_no_file_is_in_two_packages(self):
        files = [file for package in self.packages for file in self.files(package)]
        self.assertEqual(len(files), len(set(files)))

    def test_what_they_need(self):
        version = field(self.packages["virtrain"], "Version")
        needs = field(self.packages["virtrain"], "Depends")
        self.assertIn(f"virtrain-workloads-cpu (= {version})", needs)
        for library in ("libvirt0", "libyaml-cpp0.", "libarchive13", "openmpi-bin", "libc6"):
            self.assertIn(library, needs)
        wants = field(self.packages["virtrain"], "Recommends")
        for package in ("qemu-system-x86", "libvirt-daemon-system", "supermin", "linux-image"):
            self.assertIn(package, wants)
        trainer = field(self.packages["virtrain-workloads-cpu"], "Depends")
        self.assertIn("libdnnl", trainer)
        self.assertIn("libopenmpi", trainer)
        for package in self.packages.values():
            self.assertNotRegex(field(package, "Depends") + field(package, "Recommends"), r"-dev\b|g\+\+|cmake")

    def test_each_package_says_what_it_is(self):
        descriptions = {field(package, "Description") for package in self.packages.values()}
        self.assertEqual(len(descriptions), len(self.packages))
        for text in descriptions:
            self.assertLess(len(text.splitlines()[0]), 80)

    def test_scripts_of_the_package_are_sound(self):
        with tempfile.TemporaryDirectory() as folder:
            said("dpkg-deb", "-e", self.packages["virtrain"], folder)
            for name in ("postinst", "prerm", "postrm"):
                said("sh", "-n", pathlib.Path(folder) / name)


class ManualPages(unittest.TestCase):
    def test_no_warning(self):
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        for page in sorted((BUILD / "harness/manual/man1").iterdir()):
            shown = subprocess.run(["man", "--warnings", "-l", "-Tutf8", page], capture_output=True, text=True, check=False)
            self.assertEqual((page.name, shown.stderr), (page.name, ""))
            self.assertNotIn(os.path.expanduser("~") + "/", shown.stdout)


if __name__ == "__main__":
    unittest.main()
