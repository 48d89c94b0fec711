#!/usr/bin/python3
"""What an outside observer sees of everything that virtrain may change, from virsh, ip, /proc and sysfs; never from its
journal. One line a fact, in a fixed order: two of these are compared by text."""

import os
import pathlib
import re
import subprocess

PCI_FILES = ["driver_override", "d3cold_allowed", "sriov_numvfs", "sriov_drivers_autoprobe", "nvidia/current_vgpu_type"]
OURS = re.compile("virtrain|qemu-system|mpirun")


def pci_functions():
    for folder in sorted(pathlib.Path("/sys/bus/pci/devices").iterdir()):
        driver = folder / "driver"
        words = [f"pci {folder.name} driver={os.path.basename(os.readlink(driver)) if driver.exists() else 'none'}"]
        words += [f"{name.split('/')[-1]}={(folder / name).read_text().strip()}" for name in PCI_FILES if (folder / name).exists()]
        yield " ".join(words)


def named(what, folder, pattern):
    return sorted(f"{what} {path.name}" for path in pathlib.Path(folder).glob(pattern))


def answers(what, *command):
    output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return sorted(f"{what} {line.split()[0]}" for line in output.splitlines() if line.strip())


def links():
    output = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, timeout=60, check=True).stdout
    return sorted("link " + line.split(": ")[1].split("@")[0] for line in output.splitlines())


def processes():
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue  # it has just ended
        if OURS.match(name):
            yield f"process {name}"


facts = [*pci_functions(), *named("mdev", "/sys/bus/mdev/devices", "*"),
         *answers("domain", "virsh", "-q", "list", "--all", "--name"), *answers("network", "virsh", "-q", "net-list", "--all", "--name"),
         *links(), *answers("netns", "ip", "netns"), *sorted(processes()), *named("cgroup", "/sys/fs/cgroup", "**/vt-*"),
         *named("vfio group", "/dev/vfio", "[0-9]*")]
print("\n".join(facts))
