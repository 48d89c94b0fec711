#pragma once

#include <array>

namespace virtrain::vmctl {

/// A part of what `doctor --record` writes: paths that begin so, and what they hold.
struct RecordedPart {
  const char* begin;
  const char* holds;
};
inline constexpr std::array recorded_parts{
    RecordedPart{"proc/",
                 "processor, its times and pressure, memory, command line and version of the kernel, the "
                 "host's name and boot id, NVIDIA's "
                 "driver, UUIDs of its GPUs, ids and names of NVIDIA's and libvirt's services"},
    RecordedPart{"sys/devices/pci",
                 "each PCI device: ids, links, regions, NUMA node, configuration space (with serial "
                 "numbers of devices), ports and MTUs, names of network interfaces"},
    RecordedPart{"sys/",
                 "cores, caches, NUMA nodes, huge pages, mitigations, IOMMU groups, parameters of modules"},
    RecordedPart{"etc/modprobe.d/", "options of kernel modules"},
    RecordedPart{"usr/share/nvidia/", "the Fabric Manager's settings"},
    RecordedPart{"var/lib/virtrain/",
                 "what nvidia-smi, fmpm, libvirtd, QEMU and the kernel's log say (serial numbers "
                 "of GPUs, names of their processes)"}};

/// Says what `--anonymous` replaces or leaves out.
inline constexpr const char* anonymous_words =
    "UUIDs, serial numbers, the host's name, MAC and IP addresses become others, the same one everywhere; "
    "names of "
    "processes, comments, other arguments of the kernel and all of its log but the lines of NVIDIA's driver, "
    "VFIO "
    "and PCIe errors are left out";

}  // namespace virtrain::vmctl
