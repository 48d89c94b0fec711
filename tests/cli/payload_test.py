#!/usr/bin/python3
"""`virtrain payload make`: each source that it takes, and what `validate` refuses of the images."""

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from command_line import BUILD, PAYLOADS, virtrain

TOOLS = ("mksquashfs", "unsquashfs")
PARTITION, DEFINITION = 0x4004, 0x4001  # kinds of data object
SQUASHFS, EXT3, ENCRYPTED = 1, 2, 5
SYSTEM, DATA = 2, 3


def sif(objects):
    """An Apptainer image as github.com/sylabs/sif/v2 writes it (pkg/sif: header, then descriptors, then data): pairs of
    a descriptor's kind, partition and bytes."""
    begin, total = 32768, 48
    descriptors, data = b"", b""
    for number, (kind, partition, content) in enumerate(objects, 1):
        data += bytes(-len(data) % 4096)
        extra = struct.pack("<ii3s", *partition, b"02\0") if partition else b""
        descriptors += struct.pack("<i?IIIqqqqqqq128s384s", kind, True, number, 0xF0000001, 0, begin + len(data), len(content), len(content),
                                   0, 0, 0, 0, b"object", extra)
        data += content
    header = struct.pack("<32s10s3s3s16sqqqqqqqq", b"#!/usr/bin/env run-singularity\n", b"SIF_MAGIC", b"01", b"02", bytes(16), 0, 0,
                         total - len(objects), total, 128, 585 * total, begin, len(data))
    assert len(header) == 128 and len(descriptors) == 585 * len(objects)
    return (header + descriptors).ljust(begin, b"\0") + data


def is_packing(command_line, pid):
    with contextlib.suppress(OSError):
        return f"/proc/{pid}/fd/".encode() in command_line.read_bytes()
    return False


def wait_until(condition, seconds=30):
    for _ in range(seconds * 20):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not happen")


class InABuild(unittest.TestCase):
    """A folder beside the programs, for /tmp is every node's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="payload-", dir=PAYLOADS)
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.image = self.folder / "env.sqfs"

    def make(self, source, output=None):
        return virtrain("payload", "make", source, "-o", output or self.image)

    def made(self, source, kind, output=None):
        done = self.make(source, output)
        self.assertEqual(done.status, 0, done.err)
        digest = hashlib.sha256((output or self.image).read_bytes()).hexdigest()
        self.assertIn(f", made from: {kind}\nsha256 {digest}\n", done.out)
        return digest


class Payload(InABuild):
    def refused(self, source, words, status=3):
        done = self.make(source)
        self.assertEqual(done.status, status, done.err)
        self.assertIn(words, done.err)
        self.assertFalse(self.image.exists())

    def listed(self, image=None):
        listing = subprocess.run(["unsquashfs", "-ls", "-d", "", image or self.image], capture_output=True, text=True, check=True).stdout
        return set(listing.splitlines())

    def validate(self, program):
        scenario = self.folder / "own.yaml"
        scenario.write_text(json.dumps({
            "name": "own",
            "workload": {"command": [program], "payload": "env.sqfs",
                         "throughput": {"pattern": "tok/s: (?P<value>[0-9.]+)", "example": "tok/s: 5", "unit": "tokens/s"}},
            "guest": {"vcpus": 1, "memory": "512MiB"},
            "cases": [{"name": "one", "tenants": [{"nodes": 1}]}],
            "arms": ["bare_metal", "vm"]}, indent=1))
        return virtrain("validate", scenario)

    def root(self):
        """A root file system with a shell, a script and a program for another machine."""
        root = self.folder / "root"
        for name in ("bin", "lib64", "etc"):
            (root / name).mkdir(parents=True)
        shutil.copy("/bin/dash", root / "bin/sh")
        for loader in pathlib.Path("/lib64").glob("ld-linux-*"):
            shutil.copy(loader, root / "lib64")
        for name, interpreter in (("good", "/bin/sh"), ("lost", "/usr/bin/python9")):
            (root / "bin" / name).write_text(f"#!{interpreter}\n")
            (root / "bin" / name).chmod(0o755)
        foreign = bytearray(pathlib.Path("/bin/true").read_bytes())
        foreign[18:20] = struct.pack("<H", 243)  # e_machine: RISC-V
        (root / "bin/foreign").write_bytes(foreign)
        (root / "bin/foreign").chmod(0o755)
        return root

    def squashfs(self, name="root.sqsh"):
        """As enroot imports one."""
        file = self.folder / name
        subprocess.run(["mksquashfs", self.root(), file, "-noappend", "-quiet", "-no-progress", "-all-root", "-comp", "lzo"], check=True,
                       stdout=subprocess.DEVNULL)
        return file

    def test_root_file_system(self):
        digest = self.made(self.root(), "root file system")
        self.assertLessEqual({"/bin/sh", "/bin/good", "/etc/hosts", "/etc/resolv.conf"}, self.listed())
        self.assertEqual(self.made(self.folder / "root", "root file system", self.folder / "again.sqfs"), digest)

    def test_folder_with_programs(self):
        job = self.folder / "job"
        (job / "bin").mkdir(parents=True)
        shutil.copy("/bin/true", job / "bin/train")
        digest = self.made(job, "folder")
        names = self.listed()
        self.assertIn(f"{job}/bin/train", names)
        self.assertTrue(any("/libc.so.6" in name for name in names), names)
        self.assertTrue(any("/ld-linux-" in name for name in names), names)
        self.assertEqual(self.made(job, "folder", self.folder / "again.sqfs"), digest)
        self.assertEqual(self.validate("train").status, 0)

    def test_virtual_environment(self):
        venv = self.folder / "venv"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", venv], check=True)
        self.made(venv, "virtual environment")
        done = self.validate("python")
        self.assertEqual(done.status, 0, done.err)

    def test_enroot_image(self):
        file = self.squashfs()
        self.assertEqual(self.made(file, "squashfs image"), hashlib.sha256(file.read_bytes()).hexdigest())

    def test_apptainer_image(self):
        content = self.squashfs().read_bytes()
        source = self.folder / "job.sif"
        other = b"hsqs" + bytes(200)
        source.write_bytes(sif([(DEFINITION, None, b"bootstrap: docker\n"), (PARTITION, (SQUASHFS, DATA), other),
                                (PARTITION, (SQUASHFS, SYSTEM), content)]))
        self.assertEqual(self.made(source, "Apptainer image"), hashlib.sha256(content).hexdigest())
        done = self.validate("good")
        self.assertEqual(done.status, 0, done.err)
        shutil.copy(source, self.image)  # as it is, a scenario does not take it
        self.assertEqual(self.validate("good").status, 3)
        self.assertIn("take it out: virtrain payload make IMAGE.sif", self.validate("good").err)

    def test_damaged_apptainer_images(self):
        content = self.squashfs().read_bytes()
        source = self.folder / "job.sif"
        whole = sif([(PARTITION, (SQUASHFS, SYSTEM), content)])
        negative = bytearray(whole)
        negative[96:104] = struct.pack("<q", -1)
        far = bytearray(whole)
        far[96:104] = struct.pack("<q", 1 << 62)
        beyond = bytearray(whole)
        beyond[128 + 17:128 + 25] = struct.pack("<q", 1 << 40)
        for bytes_, words in ((sif([(PARTITION, (ENCRYPTED, SYSTEM), content)]), "no system partition that is a squashfs"),
                              (sif([(PARTITION, (EXT3, SYSTEM), content)]), "no system partition that is a squashfs"),
                              (sif([(DEFINITION, None, b"x")]), "no system partition that is a squashfs"),
                              (sif([(PARTITION, (SQUASHFS, SYSTEM), b"text" * 100)]), "its system partition is not a squashfs"),
                              (whole[:100], "its header is cut off"),
                              (whole[:-5000], "the image is cut off"),
                              (negative, "its header is damaged"),
                              (far, "no system partition that is a squashfs"),
                              (beyond, "its system partition is not a squashfs")):
            with self.subTest(words):
                source.write_bytes(bytes_)
                self.refused(source, words)

    def test_what_is_no_source(self):
        text = self.folder / "text"
        text.write_text("a text\n")
        self.refused(text, "it is neither a folder nor an image with a squashfs (allowed:")
        self.refused(self.folder / "nowhere", "it cannot be read: No such file")
        self.image.write_text("mine")
        done = self.make(self.root())
        self.assertEqual((done.status, self.image.read_text()), (2, "mine"))
        self.assertIn("exists (remove it, or name another: -o)", done.err)
        with tempfile.TemporaryDirectory() as below_tmp:
            self.image.unlink()
            self.refused(below_tmp, "see this folder at its own path (move it elsewhere)")

    def test_damaged_squashfs(self):
        whole = self.squashfs().read_bytes()
        cut = self.folder / "cut.sqfs"
        cut.write_bytes(whole[:len(whole) // 2])
        self.refused(cut, "it is damaged, or was not copied whole: unsquashfs says")

    def test_nothing_is_left_of_one_that_is_stopped(self):
        job = self.folder / "job"
        job.mkdir()
        shutil.copy("/bin/true", job)
        with open(job / "large", "wb") as file:
            file.truncate(1 << 40)
        making = subprocess.Popen([BUILD / "virtrain", "payload", "make", job, "-o", self.image], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)

        def packing():
            return [path for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if is_packing(path, making.pid)]

        wait_until(packing)
        making.send_signal(signal.SIGTERM)
        self.assertEqual(making.wait(30), 128 + signal.SIGTERM)
        wait_until(lambda: not packing())
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["job"])

    def test_images_that_cannot_run_the_command(self):
        self.made(self.root(), "root file system")
        self.assertEqual(self.validate("good").status, 0)
        for program, words in (("python3", "has no python3 (looked for: "), ("lost", "has no /usr/bin/python9 (looked for: "),
                               ("foreign", "has /bin/foreign for riscv, and this build is for ")):
            with self.subTest(program):
                done = self.validate(program)
                self.assertEqual(done.status, 3, done.err)
                self.assertRegex(done.err, r"own\.yaml:\d+:\d+: payload: .*env\.sqfs ")
                self.assertIn(words, done.err)


# In a mount namespace of its own: a driver of NVIDIA's and its devices, as far as files tell; then "$@".
PRETENDED_DRIVER = r"""
set -eu
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/dev" "$1/image"
mount -t squashfs -o ro,loop,nosuid,nodev "$2" "$1/image"
mount -t overlay overlay -o "lowerdir=/usr,upperdir=$1/upper,workdir=$1/work" /usr
series=/usr/lib/x86_64-linux-gnu/nvidia/tesla-535
mkdir -p $series /usr/lib64
echo driver > $series/libcuda.so.535.1
ln -s libcuda.so.535.1 $series/libcuda.so.1
ln -s nvidia/tesla-535/libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1
echo of another > /usr/lib64/libcuda.so.1
echo compiler > /usr/lib64/libnvidia-ptxjitcompiler.so.1
echo other > /usr/lib64/libother.so.1
ln -s nowhere /usr/lib64/libnvidia-broken.so.1
cp -a /dev/null /dev/zero "$1/dev"
if [ "$3" = driver ]; then touch "$1/dev/nvidiactl"; fi
if [ "$3" = guest ]; then
  mount -t tmpfs tmpfs /proc/driver
  mkdir -p /proc/driver/nvidia/gpus/0000:01:00.0 /proc/driver/nvidia/gpus/0000:02:00.0
  printf '#!/bin/sh\necho "$@" > /dev/asked; : > /dev/nvidiactl\n' > /usr/bin/nvidia-modprobe
  chmod +x /usr/bin/nvidia-modprobe
fi
mount --bind "$1/dev" /dev
image=$1/image
shift 3
exec "$@" "$BUILD/virtrain-payload" "$image" sh -c \
  'if [ -e /dev/asked ]; then read -r line < /dev/asked; echo "asked $line"; fi
  echo "[${LD_LIBRARY_PATH-}]"; for file in /.virtrain-driver/*; do read -r line < $file && echo "${file##*/} $line"; done; [ ! -e /root ]'
"""


class Driver(InABuild):
    """A payload is entered as in a node, by root and by a user."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0 or not os.path.exists("/dev/loop-control"):
            self.skipTest("needs root and loop devices")
        self.folder.chmod(0o755)
        root = self.folder / "root"
        (root / "bin").mkdir(parents=True)
        shutil.copy("/bin/dash", root / "bin/sh")
        libraries = subprocess.run(["ldd", "/bin/dash"], capture_output=True, text=True, check=True).stdout.split()
        for library in filter(lambda word: word.startswith("/"), libraries):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
        self.made(root, "root file system")

    def enter(self, driver, *words):
        done = subprocess.run(["unshare", "-m", "sh", "-c", PRETENDED_DRIVER, "sh", self.folder / "root", self.image, driver, *words],
                              env={"PATH": os.environ["PATH"], "BUILD": str(BUILD), "LD_LIBRARY_PATH": "/job/lib"}, capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_driver_of_the_node(self):
        for words in ((), ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")):
            with self.subTest(words):
                self.assertEqual(self.enter("driver", *words), [
                    "[/.virtrain-driver:/job/lib]", "libcuda.so.1 driver", "libcuda.so.535.1 driver",
                    "libnvidia-ptxjitcompiler.so.1 compiler"])

    def test_guest_without_udev(self):
        """libcuda would start nvidia-modprobe, which the payload lacks."""
        if not os.path.isdir("/proc/driver"):
            self.skipTest("the kernel has no /proc/driver")
        told = self.enter("guest")
        self.assertEqual(told[:3], ["asked -u -c 0 -c 1", "[/.virtrain-driver:/job/lib]", "libcuda.so.1 driver"])

    def test_no_driver(self):
        self.assertEqual(self.enter("none")[:1], ["[/job/lib]"])


if __name__ == "__main__":
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        print(f"skipped: {missing[0]} is not installed")
        sys.exit(77)
    unittest.main(verbosity=2)
