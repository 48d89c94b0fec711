#!/usr/bin/python3
"""Several hosts on this machine, for what needs more than one: each has network, UTS, mount and cgroup namespaces, an sshd, and
a /run, /var/lib/libvirt, /var/lib/virtrain, /etc/libvirt and /var/cache/libvirt of its own. Cores, memory and devices are shared.

    python3 tests/hosts/rig.py --hosts 2 -- build/virtrain doctor --hosts gpu-a,gpu-b

runs a command as the coordinator, in a namespace from which ssh reaches gpu-a, gpu-b, … as root, or as user worker, who may
start the virtrain-host of $VIRTRAIN_BUILD with sudo. Each host has

    eth0      10.90.0.N/24  where its sshd listens
    data0     10.91.0.N/24  a NIC for VXLAN
    br-data   a bridge, with the NIC data1 in it

and $RIG is a folder with bridge.yaml and vxlan.yaml, the hosts files. The switches between them are in a namespace as well, so
that several rigs can be there at once, and nothing of this machine's network changes. Needs root and openssh-server.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

NICS = {"eth0": "10.90.0", "data0": "10.91.0", "data1": None}
PROGRAM = pathlib.Path(os.environ.get("VIRTRAIN_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build")) / "virtrain-host"
LETTERS = "abcdefghijklmnopqrstuvwxyz"
NAMESPACES = ["--net", "--uts", "--mount"]

# $1: the host's own folder. A fresh sysfs shows the namespace's NICs; what is mounted below the old one is kept.
MOUNTS = r"""
set -e
own=$1
mount --make-rprivate /
mkdir -p $own/sys
mount -t sysfs sysfs $own/sys
awk '$2 ~ "^/sys/" {print $2}' /proc/self/mounts | awk '{seen=0; for (p in top) if (index($0, p "/") == 1) seen=1; if (!seen) {top[$0]; print}}' |
while read -r below; do
  [ "$cgroups$below" != yes/sys/fs/cgroup ] || continue
  mkdir -p "$own$below" 2>/dev/null || true
  mount --rbind "$below" "$own$below" 2>/dev/null || true
done
if [ "$cgroups" = yes ]; then
  mount -t tmpfs -o mode=755 tmpfs $own/sys/fs/cgroup
  # The mounts of this machine, each from the namespace's own root.
  awk '/ - cgroup2? / {for (i = 1; i <= NF; ++i) if ($i == "-") print $5, $(i + 1), $(i + 3)}' /proc/self/mountinfo |
  while read -r place kind options; do
    options=$(printf %s "$options" | tr , '\n' | grep -vxE 'r[ow]|xattr|nsdelegate|memory_recursiveprot' | paste -sd,)
    case $options in name=*) options=none,$options ;; esac
    mkdir -p "$own$place"
    mount -t $kind ${options:+-o $options} cgroup "$own$place"
  done
fi
umount -R -l /sys
mount --move $own/sys /sys
"""
OWN_FOLDERS = r"""
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/sshd /run/lock
for folder in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/lib/virtrain; do
  mkdir -p $own$folder $folder
  case $folder in
    /etc/libvirt) cp -a $folder/. $own$folder ;;
    /var/lib/virtrain) ;;
    *) (cd $folder && find . -type d -not -path './images/*' -print0 | cpio -0pdm --quiet $own$folder 2>/dev/null || true)
       chown --reference=$folder $own$folder; chmod --reference=$folder $own$folder ;;
  esac
  mount --bind $own$folder $folder
done
# Without PAM nobody logs in to a locked account. User worker may start virtrain-host as root, and nothing else.
for file in passwd shadow group; do cp -a /etc/$file $own/$file; done
sed -i 's/^root:!*:/root:*:/' $own/shadow
echo 'worker:x:61234:61234::/tmp:/bin/bash' >> $own/passwd
echo 'worker:*:20000:0:99999:7:::' >> $own/shadow
echo 'worker:x:61234:' >> $own/group
for file in passwd shadow group; do mount --bind $own/$file /etc/$file; done
if [ -d /etc/sudoers.d ]; then
  cp -a /etc/sudoers.d $own/sudoers.d
  echo "worker ALL=(root) NOPASSWD: $program" > $own/sudoers.d/virtrain-rig
  chmod 440 $own/sudoers.d/virtrain-rig
  mount --bind $own/sudoers.d /etc/sudoers.d
fi
"""
ENDS = r"""
mount --bind $own/hosts /etc/hosts
mount --bind $own/ssh_config /etc/ssh/ssh_config
ip link set lo up
echo ready
exec cat
"""


class NotHere(Exception):
    """This machine has no rig."""


def sh(*words, **options):
    return subprocess.run([str(word) for word in words], check=True, text=True, capture_output=True, **options).stdout


def missing():
    """Why there can be no rig; empty: there can."""
    if os.geteuid() != 0:
        return "needs root"
    for program, package in [("/usr/sbin/sshd", "openssh-server"), ("ssh", "openssh-client"), ("ip", "iproute2"),
                             ("nsenter", "util-linux"), ("cpio", "cpio")]:
        if shutil.which(program) is None:
            return f"{program} is not installed (apt-get install {package})"
    return ""


def cgroups_of(name):
    """Cgroups for what is in one place, of each hierarchy of version 1 that this process is in a cgroup of; none where they are all
    of version 2, in which processes and cgroups do not mix."""
    places = {}
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        before, after = (part.split() for part in line.split(" - "))
        if after[0] in ("cgroup", "cgroup2") and before[3] == "/":
            key = "" if after[0] == "cgroup2" else ",".join(word for word in after[2].split(",") if word not in ("rw", "ro", "xattr"))
            places[key] = before[4]
    if "/sys/fs/cgroup" in places.values():
        return []
    made = []
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, key, path = line.split(":", 2)
        if key in places:
            above = pathlib.Path(places[key] + path)
            own = above / f"rig-{os.getpid()}-{name}"
            own.mkdir()
            made.append(own)
            for file in ("cpuset.cpus", "cpuset.mems"):
                if (own / file).exists():
                    (own / file).write_text((above / file).read_text())
    return made


def remove_cgroups(made):
    for own in made:
        for folder, _, _ in os.walk(own, topdown=False):
            wait_for(lambda: removed(folder), f"{folder} cannot be removed", 10)


def removed(folder):
    try:
        os.rmdir(folder)
        return True
    except FileNotFoundError:
        return True
    except OSError:
        return False


class Place:
    """Namespaces that live as long as a process whose input this one holds open."""

    def __init__(self, name, folder, script, cgroups=()):
        self.name = name
        self.folder = folder
        self.namespaces = [*NAMESPACES, *(["--cgroup"] if cgroups else [])]
        moves = "".join(f"echo $$ > {shlex.quote(str(one))}/cgroup.procs; " for one in cgroups)
        self.enter = ["sh", "-ec", moves + 'exec "$@"', "sh"]
        script = f"cgroups={'yes' if cgroups else 'no'}\n" + script
        self.holder = subprocess.Popen([*self.enter, "unshare", *self.namespaces, "sh", "-c", script, "sh", str(folder)], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        if self.holder.stdout.readline() != "ready\n":
            words = self.holder.communicate()[1]
            raise NotHere(f"{name} could not be set up: {words.strip()}")

    def words(self, *command):
        """That run the command in it."""
        return [*self.enter, "nsenter", f"--target={self.holder.pid}", *self.namespaces, f"--wd={os.getcwd()}", "--", *map(str, command)]

    def run(self, *command, **options):
        return subprocess.run(self.words(*command), **{"text": True, "capture_output": True, **options})

    def sh(self, *command):
        done = self.run(*command)
        assert done.returncode == 0, f"{self.name}: {shlex.join(map(str, command))}: {done.stderr}"
        return done.stdout

    def processes(self):
        """All in its network namespace."""
        try:
            own = os.stat(f"/proc/{self.holder.pid}/ns/net").st_ino
        except FileNotFoundError:
            return []
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if os.stat(entry / "ns/net").st_ino == own and int(entry.name) != self.holder.pid:
                    found.append(int(entry.name))
        return found

    def pids_of(self, program):
        """Of its processes of that name."""
        return [pid for pid in self.processes() if name_of(pid) == program[:15]]

    def end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            deadline = time.monotonic() + 10
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.05)
        self.holder.stdin.close()
        self.holder.wait(10)
        self.holder.stdout.close()
        self.holder.stderr.close()


class Host(Place):
    """One of the hosts; `sshd` can be stopped and started."""

    def __init__(self, number, name, rig):
        folder = rig.folder / name
        folder.mkdir()
        for file in ("hosts", "ssh_config"):
            shutil.copy(rig.folder / file, folder / file)
        self.cgroups = cgroups_of(name)
        script = f"program={shlex.quote(str(PROGRAM))}" + MOUNTS + OWN_FOLDERS + f"hostname {name}\n" + ENDS
        super().__init__(name, folder, script, self.cgroups)
        self.number = number
        self.rig = rig
        self.daemons = []
        for nic, network in NICS.items():
            port = f"p{number}-{nic}"
            rig.switch.sh("ip", "link", "add", port, "type", "veth", "peer", "name", nic, "netns", self.holder.pid)
            rig.switch.sh("ip", "link", "set", port, "master", f"br-{nic}", "up")
            self.sh("ip", "link", "set", nic, "up")
            if network:
                self.sh("ip", "address", "add", f"{network}.{number}/24", "dev", nic)
        self.sh("ip", "link", "add", "br-data", "type", "bridge", "forward_delay", "0")
        self.sh("ip", "link", "set", "data1", "master", "br-data")
        self.sh("ip", "link", "set", "br-data", "up")
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_key")
        with open(rig.folder / "known_hosts", "a", encoding="utf-8") as known:
            known.write(f"{name},10.90.0.{number} {(folder / 'host_key.pub').read_text()}")
        (folder / "sshd_config").write_text(
            f"ListenAddress 10.90.0.{number}\nHostKey {folder}/host_key\nAuthorizedKeysFile {rig.folder}/key.pub\n"
            "AllowUsers root worker\nUsePAM no\nStrictModes no\nPermitRootLogin yes\nPasswordAuthentication no\nUseDNS no\nPidFile none\nMaxStartups 100\n")
        self.start_sshd()

    def daemon(self, *command):
        """A process of the host that ends with the rig."""
        with open(self.folder / f"{pathlib.Path(command[0]).name}.log", "ab") as log:
            process = subprocess.Popen(self.words("setpriv", "--pdeathsig", "KILL", *command), stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, start_new_session=True)
        self.daemons.append(process)
        return process

    def start_sshd(self):
        self.sshd = self.daemon("/usr/sbin/sshd", "-D", "-e", "-f", self.folder / "sshd_config")
        wait_for(lambda: ":22 " in self.sh("ss", "-ltnH"), f"sshd of {self.name}: see {self.folder}/sshd.log")

    def stop_sshd(self):
        """Connections stay."""
        self.sshd.kill()
        self.sshd.wait()

    def start_libvirt(self):
        self.daemon("/usr/sbin/virtlogd")
        self.daemon("/usr/sbin/libvirtd")
        wait_for(lambda: self.run("virsh", "-c", "qemu:///system", "version").returncode == 0, f"libvirtd of {self.name}")

    def cut(self, nic="eth0", state="down"):
        """Its cable. Nothing is told of it; the host's own NIC loses its carrier."""
        self.rig.switch.sh("ip", "link", "set", f"p{self.number}-{nic}", state)

    def silence(self):
        """Packets of its cable are lost, and no end learns of it."""
        self.rig.switch.sh("ip", "link", "set", f"p{self.number}-eth0", "nomaster")

    def restore(self):
        self.rig.switch.sh("ip", "link", "set", f"p{self.number}-eth0", "master", "br-eth0", "up")

    def end(self):
        super().end()
        for process in self.daemons:
            process.wait(10)
        remove_cgroups(self.cgroups)


def name_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


def wait_for(condition, words, seconds=20):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"after {seconds} s not there: {words}"
        time.sleep(0.05)


class Rig:
    """with Rig(3) as rig: rig.run("build/virtrain", "doctor", "--hosts", "gpu-a,gpu-b")"""

    def __init__(self, hosts=2, libvirt=False):
        why = missing()
        if why:
            raise NotHere(why)
        self.names = [f"gpu-{letter}" for letter in LETTERS[:hosts]]
        self.libvirt = libvirt
        self.hosts = []
        self.undo = contextlib.ExitStack()

    def __enter__(self):
        with self.undo as undo:
            self.folder = pathlib.Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="virtrain-rig-")))
            self.folder.chmod(0o755)
            self._set_up(undo)
            self.undo = undo.pop_all()
        return self

    def _set_up(self, undo):
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / "key")
        lines = ["127.0.0.1 localhost"] + [f"10.90.0.{n} {name}" for n, name in enumerate(self.names, 1)]
        (self.folder / "hosts").write_text("\n".join(lines) + "\n")
        (self.folder / "ssh_config").write_text(
            f"Host *\n  User root\n  IdentityFile {self.folder}/key\n  IdentitiesOnly yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n")
        (self.folder / "ssh_config").chmod(0o644)
        self.switch = self._place(undo, Place("switch", self._own("switch"), MOUNTS + ENDS))
        for nic in NICS:
            self.switch.sh("ip", "link", "add", f"br-{nic}", "type", "bridge", "forward_delay", "0")
            self.switch.sh("ip", "link", "set", f"br-{nic}", "up")
        for number, name in enumerate(self.names, 1):
            host = Host(number, name, self)
            self.hosts.append(self._place(undo, host))
            if self.libvirt:
                host.start_libvirt()
        self.coordinator = self._place(undo, Place("coordinator", self._own("coordinator"), MOUNTS + ENDS))
        self.switch.sh("ip", "link", "add", "p0-eth0", "type", "veth", "peer", "name", "eth0", "netns", self.coordinator.holder.pid)
        self.switch.sh("ip", "link", "set", "p0-eth0", "master", "br-eth0", "up")
        self.coordinator.sh("ip", "link", "set", "eth0", "up")
        self.coordinator.sh("ip", "address", "add", "10.90.0.254/24", "dev", "eth0")
        for kind, name in (("bridge", "br-data"), ("vxlan", "data0")):
            self.write_hosts(f"{kind}.yaml", self.names, {"kind": kind, "name": name})

    def _own(self, name):
        folder = self.folder / name
        folder.mkdir()
        for file in ("hosts", "ssh_config"):
            shutil.copy(self.folder / file, folder / file)
        return folder

    @staticmethod
    def _place(undo, place):
        undo.callback(place.end)
        return place

    def write_hosts(self, file, names, network=None, launcher="ssh"):
        """A hosts file; returns its path."""
        hosts = [{"name": name, **({"network": network} if network else {})} for name in names]
        (self.folder / file).write_text(json.dumps({"launcher": launcher, "hosts": hosts}))  # JSON is YAML
        return self.folder / file

    def host(self, name):
        return self.hosts[self.names.index(name)]

    def run(self, *command, **options):
        """A command of the coordinator's."""
        return self.coordinator.run(*command, **options)

    def __exit__(self, *ended):
        return self.undo.__exit__(*ended)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hosts", type=int, default=2, choices=range(1, len(LETTERS) + 1), metavar="N")
    options.add_argument("--libvirt", action="store_true", help="start a libvirtd and a virtlogd on each host")
    options.add_argument("command", nargs="+", metavar="COMMAND")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with Rig(chosen.hosts, chosen.libvirt) as rig:
            environment = {**os.environ, "RIG": str(rig.folder)}
            try:
                sys.exit(subprocess.run(rig.coordinator.words(*chosen.command), env=environment).returncode)
            except KeyboardInterrupt:
                sys.exit(128 + signal.SIGINT)
    except NotHere as why:
        sys.exit(f"no rig: {why}")


if __name__ == "__main__":
    main()
