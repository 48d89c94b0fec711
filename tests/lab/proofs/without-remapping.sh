#!/bin/bash
# Stands for: a host whose IOMMU remaps no interrupts: a guest could forge them.
# Shows: vfio refuses, libvirt leaves the device on its driver.
# Cannot show: the host that was told to allow it all the same (allow_unsafe_interrupts); doctor's IOM-3 looks at that.
# L1: iommu=intel-iommu,intremap=off label=release
. ./support/proof.sh
. ./support/no_passthrough.sh
refuses_passthrough "Operation not permitted"
check "the kernel says why" grep -q 'No interrupt remapping support' <(dmesg)
finish
