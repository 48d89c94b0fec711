#!/usr/bin/env python3
"""A Slurm cluster on this machine: munged, slurmctld and a slurmd for each node, all real, in namespaces.

The controller and each node have a host name, a network, /run, /tmp and libvirt's and virtrain's folders of
their own. A node has two GPUs that are character devices and nothing else. All of it is in one PID namespace:
it is gone when the command has ended, however it ended.

  python3 tests/hosts/slurm_rig.py [--nodes N] [--cpus N] [--kill-wait SECONDS] -- COMMAND...
"""

import argparse
import contextlib
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x20000, 0x4000000, 0x8000000, 0x20000000, 0x40000000
PR_SET_PDEATHSIG = 1
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scontrol", "ip", "mount", "nsenter")
GPUS = 2
MUNGE = "/var/lib/munge"
# That a host has to itself. Its tests find nothing of the machine's own there.
OWN_FOLDERS = ("/run", "/var/lib/virtrain", "/var/cache/virtrain", "/var/lib/libvirt", "/var/cache/libvirt", "/var/log", "/var/spool")

SLURMDS = {}  # number of each node's slurmd

libc = ctypes.CDLL(None, use_errno=True)


def missing():
    """Why there can be no such cluster here; empty: there can."""
    if os.geteuid() != 0:
        return "not root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return ", ".join(f"no {program}" for program in PROGRAMS if not shutil.which(program, path=path))


def unshare(flags):
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def die_with_parent():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def sh(*words, **more):
    return subprocess.run(words, check=True, **more)


def own_folders():
    """Empty ones in place of this machine's, and a /sys of the network namespace's own."""
    libvirt = pathlib.Path("/etc/libvirt")
    for folder in map(pathlib.Path, OWN_FOLDERS):
        folder.mkdir(parents=True, exist_ok=True)
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "virtrain-rig", folder)
    for folder in ("/run/lock", "/var/lib/libvirt/qemu", "/var/log/libvirt", "/var/spool/slurmctld", "/var/spool/slurmd"):
        os.makedirs(folder, exist_ok=True)
    if libvirt.is_dir():
        sh("mount", "-t", "tmpfs", "virtrain-rig", "/run/lock")
        shutil.copytree(libvirt, "/run/lock/libvirt", symlinks=True)
        sh("mount", "--bind", "/run/lock/libvirt", libvirt)
    # slurmd wants cgroups below /sys.
    os.makedirs("/run/cgroup")
    sh("mount", "--rbind", "/sys/fs/cgroup", "/run/cgroup")
    sh("mount", "-t", "sysfs", "sysfs", "/sys")
    sh("mount", "--move", "/run/cgroup", "/sys/fs/cgroup")


def write_configuration(nodes, cpus, kill_wait):
    etc = pathlib.Path("/etc/slurm")
    etc.mkdir(exist_ok=True)
    sh("mount", "-t", "tmpfs", "virtrain-rig", etc)
    (etc / "slurm.conf").write_text(
        f"""ClusterName=v
SlurmctldHost=ctl(10.77.0.1)
AuthInfo=socket={MUNGE}/socket
SlurmUser=root
SlurmdUser=root
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/var/log/slurmctld.log
SlurmdLogFile=/var/log/slurmd.log
ReturnToService=2
KillWait={kill_wait}
GresTypes=gpu
"""
        + "".join(
            f"NodeName=n{n} NodeAddr=10.77.0.{10 + n} CPUs={cpus} RealMemory=1024 Gres=gpu:{GPUS}\n" for n in range(1, nodes + 1)
        )
        + "PartitionName=p Nodes=ALL Default=YES State=UP OverSubscribe=NO\n"
    )
    (etc / "gres.conf").write_text(
        "AutoDetect=off\n"
        + "".join(f"NodeName=n[1-{nodes}] Name=gpu File=/run/fakegpu{gpu}\n" for gpu in range(GPUS))
    )
    hosts = pathlib.Path("/run/hosts")
    hosts.write_text(
        "127.0.0.1 localhost\n10.77.0.1 ctl\n" + "".join(f"10.77.0.{10 + n} n{n}\n" for n in range(1, nodes + 1))
    )
    sh("mount", "--bind", hosts, "/etc/hosts")


def start_munged():
    """One for all nodes: its folder is none of those that a node has to itself."""
    sh("mount", "-t", "tmpfs", "-o", "mode=711", "virtrain-rig", MUNGE)
    shutil.chown(MUNGE, "munge", "munge")
    as_munge = ("setpriv", "--reuid=munge", "--regid=munge", "--init-groups")
    sh(*as_munge, "mungekey", "-c", "-k", f"{MUNGE}/key")
    files = (f"--{name}={MUNGE}/{name}" for name in ("socket", "key-file", "pid-file", "log-file", "seed-file"))
    sh(*as_munge, "munged", *(file.replace("/key-file", "/key") for file in files))


def start_node(number):
    """A node's slurmd; the calling process becomes it."""
    unshare(CLONE_NEWNS | CLONE_NEWUTS)
    sh("mount", "--make-rprivate", "/")
    with open(f"/run/netns/n{number}") as network:
        if libc.setns(network.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    libc.sethostname(f"n{number}".encode(), len(f"n{number}"))
    own_folders()
    sh("mount", "-t", "tmpfs", "-o", "mode=1777", "virtrain-rig", "/tmp")
    for gpu in range(GPUS):
        os.mknod(f"/run/fakegpu{gpu}", 0o020666, os.makedev(1, 3))
    os.execvp("slurmd", ["slurmd", "-D"])


def make_networks(nodes):
    sh("ip", "link", "set", "lo", "up")
    sh("ip", "link", "add", "cluster", "type", "bridge")
    sh("ip", "addr", "add", "10.77.0.1/24", "dev", "cluster")
    sh("ip", "link", "set", "cluster", "up")
    for number in range(1, nodes + 1):
        name = f"n{number}"
        sh("ip", "netns", "add", name)
        sh("ip", "link", "add", f"to-{name}", "type", "veth", "peer", "name", "eth0", "netns", name)
        sh("ip", "link", "set", f"to-{name}", "master", "cluster", "up")
        sh("ip", "-n", name, "link", "set", "lo", "up")
        sh("ip", "-n", name, "addr", "add", f"10.77.0.{10 + number}/24", "dev", "eth0")
        sh("ip", "-n", name, "link", "set", "eth0", "up")


def start_cluster(nodes, cpus, kill_wait):
    sh("mount", "--make-rprivate", "/")
    sh("mount", "-t", "proc", "proc", "/proc")
    libc.sethostname(b"ctl", 3)
    own_folders()
    write_configuration(nodes, cpus, kill_wait)
    make_networks(nodes)
    start_munged()
    sh("slurmctld")
    for number in range(1, nodes + 1):
        SLURMDS[f"n{number}"] = os.fork()
        if SLURMDS[f"n{number}"] == 0:
            try:
                nothing = os.open("/dev/null", os.O_RDWR)
                os.dup2(nothing, 0), os.dup2(nothing, 1), os.dup2(nothing, 2)
                start_node(number)
            finally:
                os._exit(1)
    deadline = time.monotonic() + 60
    while True:
        states = subprocess.run(["sinfo", "-hN", "-o", "%T"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if states.stdout.split() == ["idle"] * nodes:
            return
        if time.monotonic() > deadline:
            with contextlib.suppress(OSError):
                print(pathlib.Path("/var/log/slurmctld.log").read_text()[-3000:], file=sys.stderr)
            raise TimeoutError(f"no {nodes} idle nodes after 60 s: {states.stdout.split()}")
        time.sleep(0.1)


def in_node(name):
    """The words in front of a command that shall run on a node, outside of any job."""
    return ["nsenter", f"--target={SLURMDS[name]}", "--mount", "--uts", "--net", "--"]


def plant_gpus(name, tree):
    """Puts the PCI devices of a recorded host in place of a node's own, and what NVIDIA's driver says of its GPUs: the first are
    the files of gres.conf by their number. They stay until take_gpus()."""
    script = r"""
        mount -t tmpfs virtrain-gpus /proc/driver && cp -a "$0/proc/driver/." /proc/driver &&
        mount -t tmpfs virtrain-gpus /sys/bus/pci && mkdir /sys/bus/pci/devices && cp -a "$0/sys/devices" /sys/bus/pci/of &&
        for link in "$0"/sys/bus/pci/devices/*; do
          ln -s "../of/$(readlink "$link" | sed 's|^.*devices/||')" /sys/bus/pci/devices/ || exit
        done"""
    sh(*in_node(name), "sh", "-c", script, tree)


def take_gpus(name):
    sh(*in_node(name), "umount", "/proc/driver", "/sys/bus/pci")


def exit_as(status):
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def enter(nodes=2, cpus=2, kill_wait=30):
    """Starts the cluster and goes on in its controller's namespaces, as a child; the caller itself only waits
    and exits with that child's status. Whoever calls has one thread."""
    sys.stdout.flush(), sys.stderr.flush()
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    for name in [name for name in os.environ if name.startswith(("SLURM_", "SBATCH_", "SALLOC_", "SRUN_"))]:
        del os.environ[name]
    unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET)
    first = os.fork()
    if first:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: os.kill(first, signal.SIGKILL))
        exit_as(os.waitpid(first, 0)[1])
    die_with_parent()
    # The namespace's first process collects what daemons leave, and its end kills all others.
    child = os.fork()
    if child:
        while True:
            ended, status = os.wait()
            if ended == child:
                exit_as(status)
    start_cluster(nodes, cpus, kill_wait)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--cpus", type=int, default=os.cpu_count())
    parser.add_argument("--kill-wait", type=int, default=30)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    if why := missing():
        sys.exit(f"slurm_rig: {why}")
    enter(arguments.nodes, arguments.cpus, arguments.kill_wait)
    sys.exit(subprocess.run(arguments.command, check=False).returncode)


if __name__ == "__main__":
    main()
