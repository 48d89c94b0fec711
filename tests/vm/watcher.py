"""Watches a run from outside, with the host's own tools: virsh, ip, /proc and /sys. Asks virtrain nothing."""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import re
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


class Watcher:
    """A thread that looks until the process has ended; what it saw is in its fields."""

    def __init__(self, process):
        self.domains, self.ranks = {}, {}
        self.bridges, self.networks = set(), set()
        self.sent_bytes = {}  # by host-side device: what its node has sent
        self.images = {}  # root image: its hash when a VM first ran from it
        self.faults = []
        self._process = process
        self._slow_next = 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def end(self):
        self._thread.join()
        assert not self.faults, self.faults

    def _watch(self):
        while self._process.poll() is None:
            try:
                self._read_counters()
                self._look_for_ranks()
                if time.monotonic() >= self._slow_next:
                    self._look_for_domains()
                    self._slow_next = time.monotonic() + 1.5
            except Exception as fault:  # told by end(), on the test's own thread
                self.faults.append(repr(fault))
            time.sleep(0.15)

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
                if (folder / "comm").read_text().strip() != TRAINER[:15] or int(folder.name) in self.ranks:
                    continue
                if b"VIRTRAIN_SLICE=" not in (folder / "environ").read_bytes():
                    continue
                namespaces = {name: os.readlink(folder / "ns" / name) for name in ("net", "uts", "mnt", "pid", "ipc")}
                cores = allowed_cores((folder / "status").read_text())
                hostname = outside.sh("nsenter", "-t", folder.name, "-u", "hostname", check=False).strip()
                if hostname:
                    self.ranks[int(folder.name)] = SeenRank(cores, namespaces, hostname)

    def _look_for_domains(self):
        for name in outside.sh("virsh", "-q", "list", "--name", check=False).split():
            if not name.startswith("virtrain-"):
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
            self._look_at_qemu(self.domains[name])
        self.networks.update(n for n in outside.sh("virsh", "-q", "net-list", "--name", check=False).split()
                             if n.startswith("virtrain-"))

    def _look_at_qemu(self, domain):
        for pid in outside.sh("pgrep", "-f", f"guest={domain.name},", check=False).split():
            with contextlib.suppress(OSError):
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                if not os.path.basename(words[0]).startswith("qemu-system"):
                    continue
                domain.qemu_arguments = words
                for task in pathlib.Path(f"/proc/{pid}/task").glob("*"):
                    if re.match(r"CPU \d+/", (task / "comm").read_text()):
                        domain.vcpu_cores.add(allowed_cores((task / "status").read_text()))
