"""Watches a run from outside, with the host's own tools: virsh, ip, /proc and /sys. Asks virtrain nothing."""

import contextlib
import ctypes
import dataclasses
import hashlib
import os
import pathlib
import re
import socket
import threading
import time
import xml.etree.ElementTree as ElementTree

import outside

LEASE = "{https://virtrain.dev/1}lease"
TRAINER = "virtrain-resnet50-cpu"


@dataclasses.dataclass
class SeenDomain:
    name: str
    uuid: str
    xml: ElementTree.Element
    qemu_arguments: list = dataclasses.field(default_factory=list)
    vcpu_cores: set = dataclasses.field(default_factory=set)  # as the kernel has them, of the vCPU threads

    @property
    def lease(self):
        return self.xml.find(f"metadata/{LEASE}").attrib

    @property
    def tap(self):
        return self.xml.find("devices/interface/target").attrib["dev"]

    @property
    def pinned(self):
        return {pin.attrib["cpuset"] for pin in self.xml.findall("cputune/vcpupin")}


@dataclasses.dataclass
class SeenRank:
    """A trainer process on the host itself, that is a bare-metal rank."""
    cores: str
    namespaces: dict
    hostname: str


def allowed_cores(status):
    return re.search(r"^Cpus_allowed_list:\s*(\S+)", status, re.M).group(1)


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def hostname_of(pid):
    """Of the UTS namespace of a process; asked by this thread itself, as the process may live for a moment only."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/thread-self/ns/uts") as own, open(f"/proc/{pid}/ns/uts") as theirs:
        if setns(theirs.fileno(), 0) != 0:
            return ""
        try:
            return socket.gethostname()
        finally:
            setns(own.fileno(), 0)


class Watcher:
    """Two threads that look until the process has ended; what they saw is in the fields. What comes and goes fast has a
    thread of its own, which waits for no program: on a busy host virsh takes seconds."""

    def __init__(self, run):
        self.domains, self.ranks, self.machines = {}, {}, {}
        self.bridges, self.networks = set(), set()
        self.sent_bytes = {}  # by host-side device: what its node has sent
        self.images = {}  # root image: its hash when a VM first ran from it
        self.faults = []
        self._run = run
        self._threads = [threading.Thread(target=self._watch, args=looks) for looks in (
            (0.15, self._read_counters, self._look_for_ranks, self._look_for_qemu), (1.5, self._look_for_domains))]
        for thread in self._threads:
            thread.start()

    def end(self):
        for thread in self._threads:
            thread.join()
        assert not self.faults, self.faults
        for name, domain in self.domains.items():
            domain.qemu_arguments, cores = self.machines[name]
            domain.vcpu_cores = set(cores.values())

    def _watch(self, pause_seconds, *looks):
        while self._run.process.poll() is None:
            try:
                for look in looks:
                    look()
            except Exception as fault:  # told by end(), on the test's own thread
                self.faults.append(repr(fault))
            time.sleep(pause_seconds)

    def _read_counters(self):
        for device in pathlib.Path("/sys/class/net").glob("vt*"):
            with contextlib.suppress(OSError):
                if device.name.startswith("vtb"):
                    self.bridges.add(device.name)
                else:  # what the host's end receives, the node has sent
                    self.sent_bytes[device.name] = int((device / "statistics/rx_bytes").read_text())

    def _look_for_ranks(self):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (folder / "comm").read_text().strip() != TRAINER[:15]:
                    continue
                cores = allowed_cores((folder / "status").read_text())
                if known := self.ranks.get(int(folder.name)):
                    known.cores = cores  # those that it trains on: a rank of Open MPI 5 visits all cores while it starts
                    continue
                environment = (folder / "environ").read_bytes()
                if b"VIRTRAIN_SLICE=" not in environment or f"VIRTRAIN_EXPERIMENT={self._run.experiment}".encode() not in environment:
                    continue
                namespaces = {name: os.readlink(folder / "ns" / name) for name in ("net", "uts", "mnt", "pid", "ipc")}
                if hostname := hostname_of(folder.name):
                    self.ranks[int(folder.name)] = SeenRank(cores, namespaces, hostname)

    def _look_for_domains(self):
        for name in outside.sh("virsh", "-q", "list", "--name", check=False).split():
            if not name.startswith(f"virtrain-{self._run.experiment}-"):
                continue
            if name not in self.domains:
                text = outside.sh("virsh", "dumpxml", name, check=False)
                uuid = outside.sh("virsh", "domuuid", name, check=False).strip()
                if not text or not uuid:
                    continue  # it has just gone
                xml = ElementTree.fromstring(text)
                self.domains[name] = SeenDomain(name, uuid, xml)
                root = xml.find("devices/disk/source").attrib["file"]
                if root not in self.images:
                    self.images[root] = sha256(root)
        self.networks.update(n for n in outside.sh("virsh", "-q", "net-list", "--name", check=False).split()
                             if n.startswith("virtrain-"))

    def _look_for_qemu(self):
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if not (folder / "comm").read_text().startswith("qemu-system"):
                    continue
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                name = next((match[1] for word in words if (match := re.match(r"guest=([^,]+),", word))), "")
                if not name.startswith(f"virtrain-{self._run.experiment}-"):
                    continue
                _, cores = self.machines.setdefault(name, (words, {}))
                for task in (folder / "task").glob("*"):
                    if re.match(r"CPU \d+/", (task / "comm").read_text()):
                        cores[task.name] = allowed_cores((task / "status").read_text())  # the last: libvirt pins a moment after the start
