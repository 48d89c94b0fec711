#!/bin/bash
# Stands for: a host whose IOMMU is off in the BIOS or on the kernel's command line.
# Shows: there are no IOMMU groups, libvirt refuses the device and leaves it on its driver, doctor says so before anyone tries.
# Cannot show: a BIOS.
# L1: iommu=none product=yes
. ./support/proof.sh
. ./support/no_passthrough.sh
expect "IOMMU groups" 0 "$(find /sys/kernel/iommu_groups -mindepth 1 -maxdepth 1 | wc -l)"
refuses_passthrough "host doesn't support passthrough"
check "doctor names it" grep -qE "^IOM-1 +blocks " <(virtrain doctor || true)
finish
