#!/usr/bin/env python3
"""Writes the hosts of tests/data/<name>: the files of /proc and /sys that virtrain's inventory reads.

None was recorded on such a machine. They are written after the kernel's sysfs documentation, NVIDIA's vGPU and MIG
guides, and public listings of such hosts, so that what virtrain does on them can be tested without one.

    scripts/reference/make_host_trees.py [FOLDER]      (default: tests/data)
"""

import os
import pathlib
import shutil
import sys
import xml.etree.ElementTree as xml

GIB = 1 << 30
MIB = 1 << 20
GEN4_X16 = ("16.0 GT/s PCIe", 16)
GEN5_X16 = ("32.0 GT/s PCIe", 16)
IDLE_GEN1_X16 = ("2.5 GT/s PCIe", 16)


# Lines of pci.ids, for what no driver names.
PCI_IDS = """\
10de  NVIDIA Corporation
\t22a3  GH100 [H100 NVSwitch]
\t26b9  AD102GL [L40S]
15b3  Mellanox Technologies
\t101b  MT28908 Family [ConnectX-6]
\t1021  MT2910 Family [ConnectX-7]
"""


class Host:
    def __init__(self, base, name, model, cpus_of_node, gib_of_node, kernel="6.1.0-35-amd64", flags="vmx"):
        self.root = base / name
        shutil.rmtree(self.root, ignore_errors=True)
        self.groups = {}
        vendor = "AuthenticAMD" if model.startswith("AMD") else "GenuineIntel"
        self.write("proc/cpuinfo", f"processor\t: 0\nvendor_id\t: {vendor}\nmodel name\t: {model}\nmicrocode\t: 0xd0003e7\nflags\t\t: fpu sse2 avx2 {flags}\n")
        self.write("sys/class/misc/kvm/dev", "10:232\n")
        self.write("usr/share/misc/pci.ids", PCI_IDS)
        kib = sum(gib_of_node) * (GIB >> 10)
        self.write("proc/meminfo", f"MemTotal:       {kib} kB\nMemAvailable:   {kib - (8 << 20)} kB\n")
        self.write("proc/sys/kernel/hostname", name)
        self.write("proc/sys/kernel/osrelease", kernel)
        self.write("proc/sys/kernel/random/boot_id", "6c0f6e2a-0000-4000-8000-000000000001")
        self.write("sys/devices/system/cpu/online", f"0-{sum(len(c) for c in cpus_of_node) - 1}")
        for node, (cpus, gib) in enumerate(zip(cpus_of_node, gib_of_node)):
            self.write(f"sys/devices/system/node/node{node}/cpulist", ",".join(map(str, cpus)))
            self.write(f"sys/devices/system/node/node{node}/meminfo", f"Node {node} MemTotal:       {gib * (GIB >> 10)} kB")

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.endswith("\n") else text + "\n")

    def link(self, path, target):
        """A relative link, as sysfs has them; both paths from the root of the tree."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.symlink_to(os.path.relpath(self.root / target, file.parent))

    def function(self, path, ids, code, *, numa=0, driver=None, group=None, link=None, possible=None, bars=(), reset="flr bus",
                 files=None):
        """`path`: root complex and addresses down to the function, "pci0000:16/0000:16:02.0/0000:17:00.0"."""
        folder = f"sys/devices/{path}"
        address = path.rsplit("/", 1)[1]
        vendor, device = ids.split(":")
        values = {"vendor": f"0x{vendor}", "device": f"0x{device}", "class": f"0x{code}", "numa_node": str(numa),
                  "driver_override": "(null)", "power_state": "D0", "reset_method": reset, "resource": resource(bars), **(files or {})}
        if possible:
            values.update({"current_link_speed": (link or possible)[0], "current_link_width": str((link or possible)[1]),
                           "max_link_speed": possible[0], "max_link_width": str(possible[1])})
        for name, text in values.items():
            self.write(f"{folder}/{name}", text)
        self.link(f"sys/bus/pci/devices/{address}", folder)
        if driver:
            self.link(f"{folder}/driver", f"sys/bus/pci/drivers/{driver}")
        if group is not None:
            self.link(f"{folder}/iommu_group", f"sys/kernel/iommu_groups/{group}")
            self.link(f"sys/kernel/iommu_groups/{group}/devices/{address}", folder)
        return folder

    def root_port(self, complex_, port, numa, group, ids="8086:347a"):
        self.function(f"{complex_}/{port}", ids, "060400", numa=numa, driver="pcieport", group=group, possible=GEN4_X16)
        return f"{complex_}/{port}"

    def nvidia_driver_words(self, address, model, minor):
        self.write(f"proc/driver/nvidia/gpus/{address}/information",
                   f"Model: \t\t {model}\nIRQ:   \t\t 120\nGPU UUID: \t GPU-{minor:08x}-0000-4000-8000-00000000{minor:04x}\n"
                   f"Bus Location: \t {address}\nDevice Minor: \t {minor}\n")

    def nvidia_smi(self, driver, gpus):
        """What `nvidia-smi -q -x` prints, as far as virtrain reads it: address to fields, "mig_mode/current_mig" for nested ones."""
        log = xml.Element("nvidia_smi_log")
        xml.SubElement(log, "driver_version").text = driver
        for address, fields in gpus.items():
            gpu = xml.SubElement(log, "gpu", id=f"0000{address}".upper())
            for path, text in fields.items():
                node = gpu
                for name in path.split("/"):
                    child = node.find(name)
                    node = xml.SubElement(node, name) if child is None else child
                node.text = text
        xml.indent(log, "\t")
        self.write("var/lib/virtrain/nvidia-smi-query.xml", '<?xml version="1.0" ?>\n' + xml.tostring(log, "unicode"))

    def opens(self, pid, command, path):
        self.write(f"proc/{pid}/comm", command)
        descriptor = self.root / f"proc/{pid}/fd/7"
        descriptor.parent.mkdir(parents=True)
        descriptor.symlink_to(path)


def resource(bars):
    """The six BARs as the kernel prints them; `bars` are bytes of 64-bit prefetchable regions, or (bytes,) for 32-bit ones."""
    lines, base = [], 1 << 40
    for bar in bars:
        if isinstance(bar, tuple):
            lines.append(f"0x{0xa0000000:016x} 0x{0xa0000000 + bar[0] - 1:016x} 0x{0x40200:016x}")
        else:
            lines += [f"0x{base:016x} 0x{base + bar - 1:016x} 0x{0x14220c:016x}", f"{0:#018x} {0:#018x} {0:#018x}"]
            base += 2 * bar
    lines += [f"{0:#018x} {0:#018x} {0:#018x}"] * (6 - len(lines))
    return "\n".join(lines[:6])


def connectx(host, port, bus, numa, group, ports, state="4: ACTIVE", layer="InfiniBand", rate="100 Gb/sec (2X HDR)", first=0,
             ids="15b3:101b", possible=GEN4_X16):
    """A card's ports; its virtual functions come after all of its physical ones, those of the first port first."""
    for function in range(ports):
        folder = host.function(f"{port}/{bus}.{function}", ids, "020700" if layer == "InfiniBand" else "020000", numa=numa,
                               driver="mlx5_core", group=group + function, possible=possible, bars=[32 * MIB],
                               files={"sriov_totalvfs": "8", "sriov_numvfs": "0", "sriov_offset": str(ports + 7 * function),
                                      "sriov_stride": "1"})
        name = f"mlx5_{first + function}"
        for key, value in {"state": state if function == 0 else "1: DOWN", "rate": rate, "link_layer": layer}.items():
            host.write(f"{folder}/infiniband/{name}/ports/1/{key}", value)
        host.write(f"{folder}/net/ib{first + function}/mtu" if layer == "InfiniBand" else f"{folder}/net/ens{first + function}/mtu",
                   "2044" if layer == "InfiniBand" else "9000")


def r750xa(base):
    """The study's machine: four A100 PCIe in two NVLink pairs, one pair a socket, ConnectX-6."""
    host = Host(base, "r750xa", "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz", [range(0, 128, 2), range(1, 128, 2)], [256, 256])
    gpus = [("pci0000:16", "0000:16:02.0", "0000:17:00.0", 0), ("pci0000:30", "0000:30:02.0", "0000:31:00.0", 0),
            ("pci0000:b0", "0000:b0:02.0", "0000:b1:00.0", 1), ("pci0000:c9", "0000:c9:02.0", "0000:ca:00.0", 1)]
    for minor, (complex_, port, address, numa) in enumerate(gpus):
        above = host.root_port(complex_, port, numa, 20 + 2 * minor)
        host.function(f"{above}/{address}", "10de:20f1", "030200", numa=numa, driver="nvidia", group=21 + 2 * minor,
                      link=IDLE_GEN1_X16, possible=GEN4_X16, bars=[(16 * MIB,), 64 * GIB, 32 * MIB])
        host.nvidia_driver_words(address, "NVIDIA A100-PCIE-40GB", minor)
    connectx(host, host.root_port("pci0000:97", "0000:97:02.0", 1, 40), "0000:98:00", 1, 41, 2)
    host.write("var/lib/virtrain/nvidia-smi-topo.txt", """\
\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity
GPU0\t X \tNV12\tSYS\tSYS\tSYS\tSYS\t0,2,4,6,8,10\t0
GPU1\tNV12\t X \tSYS\tSYS\tSYS\tSYS\t0,2,4,6,8,10\t0
GPU2\tSYS\tSYS\t X \tNV12\tNODE\tNODE\t1,3,5,7,9,11\t1
GPU3\tSYS\tSYS\tNV12\t X \tNODE\tNODE\t1,3,5,7,9,11\t1
NIC0\tSYS\tSYS\tNODE\tNODE\t X \tPIX
NIC1\tSYS\tSYS\tNODE\tNODE\tPIX\t X

Legend:

  X    = Self
  NV#  = Connection traversing a bonded set of # NVLinks
""")


def hgx_h200(base):
    """Eight H200 SXM, each behind a PCIe switch with a ConnectX-7, and four NVSwitches; the persistence daemon has the first GPU open.
    The adapters of the second socket speak Ethernet."""
    host = Host(base, "hgx-h200", "Intel(R) Xeon(R) Platinum 8480C", [range(0, 112), range(112, 224)], [1024, 1024], "6.8.0-60-generic")
    for minor in range(8):
        numa = minor // 4
        bus = 0x18 + 0x18 * minor
        complex_, port = f"pci0000:{bus - 3:02x}", f"0000:{bus - 3:02x}:01.0"
        switch, down = f"0000:{bus - 2:02x}:00.0", f"0000:{bus - 1:02x}:00.0"
        above = host.root_port(complex_, port, numa, 30 + 4 * minor, "8086:352a")
        host.function(f"{above}/{switch}", "1000:c030", "060400", numa=numa, driver="pcieport", group=31 + 4 * minor, possible=GEN5_X16)
        host.function(f"{above}/{switch}/{down}", "1000:c030", "060400", numa=numa, driver="pcieport", group=32 + 4 * minor, possible=GEN5_X16)
        address = f"0000:{bus:02x}:00.0"
        host.function(f"{above}/{switch}/{down}/{address}", "10de:2335", "030200", numa=numa, driver="nvidia", group=33 + 4 * minor,
                      link=GEN5_X16, possible=GEN5_X16, bars=[(16 * MIB,), 256 * GIB, 32 * MIB],
                      files={"sriov_totalvfs": "32", "sriov_numvfs": "0"})
        host.nvidia_driver_words(address, "NVIDIA H200", minor)
        down = f"0000:{bus - 1:02x}:01.0"
        host.function(f"{above}/{switch}/{down}", "1000:c030", "060400", numa=numa, driver="pcieport", group=80 + 2 * minor, possible=GEN5_X16)
        connectx(host, f"{above}/{switch}/{down}", f"0000:{bus + 1:02x}:00", numa, 81 + 2 * minor, 1, first=minor, ids="15b3:1021",
                 possible=GEN5_X16, **({"layer": "Ethernet", "rate": "400 Gb/sec (4X NDR)"} if numa else {"rate": "400 Gb/sec (4X NDR)"}))
    above = host.root_port("pci0000:04", "0000:04:01.0", 0, 70, "8086:352a")
    for switch in range(4):
        host.function(f"{above}/0000:05:00.{switch}", "10de:22a3", "068000", driver="nvidia-nvswitch", group=71 + switch,
                      possible=("16.0 GT/s PCIe", 2), bars=[32 * MIB])
    host.opens(2200, "nvidia-persiste", "/dev/nvidia0")
    host.write("proc/2200/cgroup", "0::/system.slice/nvidia-persistenced.service")
    host.write("proc/2100/comm", "nv-fabricmanage")
    host.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build  (dvs-builder)")
    host.write("var/lib/virtrain/nv-fabricmanager-version.txt", "Fabric Manager version is : 550.90.07")
    host.nvidia_smi("550.90.07", {f"0000:{0x18 + 0x18 * minor:02x}:00.0": {
        "persistence_mode": "Enabled", "mig_mode/current_mig": "Disabled", "mig_mode/pending_mig": "Disabled",
        "gpu_virtualization_mode/virtualization_mode": "None", "fabric/state": "Completed", "fabric/status": "Success"} for minor in range(8)})
    rows = "".join(f"GPU{i}\t" + "\t".join(" X " if i == j else "NV18" for j in range(8)) + f"\t{112 * (i // 4)}-{112 * (i // 4) + 111}\t{i // 4}\n"
                   for i in range(8))
    host.write("var/lib/virtrain/nvidia-smi-topo.txt", "\t" + "\t".join(f"GPU{i}" for i in range(8)) + "\tCPU Affinity\tNUMA Affinity\n" + rows)


def mdev_host(base):
    """A T4 and a V100 under a vGPU driver that offers mediated devices on the card itself."""
    host = Host(base, "mdev-host", "Intel(R) Xeon(R) Gold 6248", [range(0, 40), range(40, 80)], [192, 192], "5.15.0-140-generic")
    for minor, (bus, ids, model, types) in enumerate([
            ("3b", "10de:1eb8", "Tesla T4", [("nvidia-230", "GRID T4-4C", 4), ("nvidia-319", "GRID T4-16C", 1)]),
            ("5e", "10de:1db6", "Tesla V100-PCIE-32GB", [("nvidia-300", "GRID V100D-8C", 0), ("nvidia-305", "GRID V100D-32C", 0)])]):
        above = host.root_port(f"pci0000:{int(bus, 16) - 1:02x}", f"0000:{int(bus, 16) - 1:02x}:00.0", 0, 10 + 2 * minor)
        folder = host.function(f"{above}/0000:{bus}:00.0", ids, "030200", driver="nvidia", group=11 + 2 * minor,
                               link=("8.0 GT/s PCIe", 16), possible=("8.0 GT/s PCIe", 16), bars=[(16 * MIB,), 256 * MIB, 32 * MIB])
        host.nvidia_driver_words(f"0000:{bus}:00.0", model, minor)
        for type_, name, free in types:
            host.write(f"{folder}/mdev_supported_types/{type_}/name", name)
            host.write(f"{folder}/mdev_supported_types/{type_}/available_instances", str(free))
            host.write(f"{folder}/mdev_supported_types/{type_}/device_api", "vfio-pci")


def vendor_vfio_host(base):
    """An L40S whose virtual functions are on, under a driver with vendor-specific VFIO; one of them is a vGPU already."""
    host = Host(base, "vendor-vfio-host", "AMD EPYC 9354 32-Core Processor", [range(0, 64)], [384], "6.8.0-60-generic", "svm")
    above = host.root_port("pci0000:40", "0000:40:01.1", 0, 10, "1022:14ab")
    card = f"{above}/0000:41:00.0"
    folder = host.function(card, "10de:26b9", "030200", driver="nvidia", group=11, possible=GEN4_X16, bars=[(16 * MIB,), 64 * GIB, 32 * MIB],
                           files={"sriov_totalvfs": "4", "sriov_numvfs": "4"})
    host.nvidia_driver_words("0000:41:00.0", "NVIDIA L40S", 0)
    host.write("proc/1300/comm", "nvidia-vgpu-mgr")
    host.write("sys/module/nvidia_vgpu_vfio/initstate", "live")
    host.nvidia_smi("570.133.10", {"0000:41:00.0": {
        "persistence_mode": "Enabled", "gpu_virtualization_mode/virtualization_mode": "Host VGPU",
        "gpu_virtualization_mode/host_vgpu_mode": "SR-IOV", "gpu_virtualization_mode/vgpu_heterogeneous_mode": "Disabled"}})
    for index in range(4):
        address = f"0000:41:00.{index + 4}"
        taken = index == 0
        types = "" if taken else "1150 : NVIDIA L40S-12C\n1153 : NVIDIA L40S-24C\n"
        virtual = host.function(f"{above}/{address}", "10de:26b9", "030200", driver="nvidia", group=12 + index, reset="flr",
                                files={"nvidia/creatable_vgpu_types": "ID    : vGPU Name\n" + types,
                                       "nvidia/current_vgpu_type": "1153" if taken else "0"})
        host.link(f"{folder}/virtfn{index}", virtual)
        host.link(f"{virtual}/physfn", folder)


def sriov_nic_host(base):
    """A dual-port 82576, whose functions are as lspci lists them: those of the first port at every second address from 128 on. Of
    these one is free for all, one is without a driver, one is in somebody's namespace, one in a VM, and one has a route."""
    host = Host(base, "sriov-nic-host", "Intel(R) Xeon(R) Gold 6248", [range(0, 8)], [64])
    above = host.root_port("pci0000:00", "0000:00:1c.0", 0, 10)
    ports = []
    for port in range(2):
        sriov = {"sriov_totalvfs": "7", "sriov_numvfs": "0" if port else "5", "sriov_offset": "128", "sriov_stride": "2"}
        ports.append(host.function(f"{above}/0000:03:00.{port}", "8086:10c9", "020000", driver="igb", group=11 + port,
                                   possible=("2.5 GT/s PCIe", 4), bars=[(128 << 10,)], files=sriov))
        host.write(f"{ports[port]}/net/ens1f{port}/mtu", "9000")
    for index, (driver, interface) in enumerate([("igbvf", "ens1f0v0"), (None, None), ("igbvf", None), ("vfio-pci", None),
                                                 ("igbvf", "ens1f0v4")]):
        number = 128 + 2 * index
        virtual = host.function(f"{above}/0000:03:{number >> 3:02x}.{number & 7}", "8086:10ca", "020000", driver=driver, group=20 + index,
                                reset="flr")
        if interface:
            host.write(f"{virtual}/net/{interface}/mtu", "1500")
        host.link(f"{ports[0]}/virtfn{index}", virtual)
        host.link(f"{virtual}/physfn", ports[0])
    host.opens(4242, "qemu-system-x86", "/dev/vfio/23")
    host.write("proc/net/route", "Iface\tDestination\tGateway \tFlags\nens1f0v4\t0000000A\t00000000\t0001\n")


def mig_host(base):
    """Two A100 SXM, the first cut into two GPU instances; its audio-less twin is whole and a job runs on it."""
    host = Host(base, "mig-host", "AMD EPYC 7742 64-Core Processor", [range(0, 64), range(64, 128)], [512, 512], flags="svm")
    for minor, bus in enumerate(["07", "47"]):
        above = host.root_port(f"pci0000:{int(bus, 16) - 7:02x}", f"0000:{int(bus, 16) - 7:02x}:01.1", minor, 10 + 2 * minor, "1022:1483")
        host.function(f"{above}/0000:{bus}:00.0", "10de:20b0", "030200", numa=minor, driver="nvidia", group=11 + 2 * minor,
                      link=GEN4_X16, possible=GEN4_X16, bars=[(16 * MIB,), 64 * GIB, 32 * MIB])
        host.nvidia_driver_words(f"0000:{bus}:00.0", "NVIDIA A100-SXM4-40GB", minor)
    host.nvidia_smi("535.129.03", {f"0000:{bus}:00.0": {
        "persistence_mode": "Disabled", "mig_mode/current_mig": mode, "mig_mode/pending_mig": mode,
        "ecc_mode/current_ecc": "Enabled", "ecc_mode/pending_ecc": "Enabled", "remapped_rows/remapped_row_pending": "No",
        "gpu_power_readings/current_power_limit": "400.00 W", "gpu_power_readings/default_power_limit": "400.00 W"}
        for bus, mode in (("07", "Enabled"), ("47", "Disabled"))})
    for instance in (1, 2):
        host.write(f"proc/driver/nvidia/capabilities/gpu0/mig/gi{instance}/access", f"DeviceFileMinor: {instance * 3}\nDeviceFileMode: 292\n")
    host.opens(4242, "python3", "/dev/nvidia1")


def laptop(base):
    """Graphics of the processor only, no IOMMU switched on."""
    host = Host(base, "laptop", "Intel(R) Core(TM) i7-1185G7 @ 3.00GHz", [range(0, 8)], [16], "6.12.30-amd64")
    host.function("pci0000:00/0000:00:02.0", "8086:9a49", "030000", driver="i915", bars=[16 * MIB, 256 * MIB], reset="flr")
    host.function("pci0000:00/0000:00:14.3", "8086:a0f0", "028000", driver="iwlwifi", bars=[16 * MIB], reset="flr")


def main():
    base = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[2] / "tests/data")
    for make in (r750xa, hgx_h200, mdev_host, vendor_vfio_host, sriov_nic_host, mig_host, laptop):
        make(base)


if __name__ == "__main__":
    main()
