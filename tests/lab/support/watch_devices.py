#!/usr/bin/python3
"""watch_devices.py ADDRESS...: looks, until it is told to end, at who has these PCI functions while virtrain runs; then says
for each function in which states it was ever seen, one line a state:

    ADDRESS virtual-machines DRIVER HOLDERS     while some VM of virtrain's has a VFIO group open, and how many have this one
    ADDRESS bare-metal DRIVER                   while some trainer runs outside of VMs
    groups N...                                 in how many VMs each VFIO group was at once that any VM had
"""

import collections
import os
import pathlib
import signal
import sys
import time

seen = set()


def processes(name):
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "comm").read_text().startswith(name):
                yield folder
        except OSError:
            continue  # it has just ended


def open_files(process):
    try:
        return {os.readlink(entry) for entry in (process / "fd").iterdir()}
    except OSError:
        return set()


def held_groups():
    """For each QEMU the VFIO groups that it has open."""
    return [{path for path in open_files(process) if path.startswith("/dev/vfio/") and path != "/dev/vfio/vfio"}
            for process in processes("qemu-system")]


def look(address, held):
    folder = pathlib.Path("/sys/bus/pci/devices") / address
    try:
        driver = os.path.basename(os.readlink(folder / "driver"))
        group = os.path.basename(os.readlink(folder / "iommu_group"))
    except OSError:
        driver, group = "none", ""
    if any(held):
        seen.add(f"{address} virtual-machines {driver} {sum(f'/dev/vfio/{group}' in groups for groups in held)}")
    if any(processes("virtrain-resnet")):
        seen.add(f"{address} bare-metal {driver}")


def end(*_):
    print("\n".join(sorted(seen)))
    sys.exit()


signal.signal(signal.SIGTERM, end)
while True:
    held = held_groups()
    for one in sys.argv[1:]:
        look(one, held)
    if any(held):
        each = collections.Counter(group for groups in held for group in groups)
        seen.add(f"groups {' '.join(str(count) for count in each.values())}")
    time.sleep(1)
