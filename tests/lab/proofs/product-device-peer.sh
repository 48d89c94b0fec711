#!/bin/bash
# Stands for: a tenant that has its device read memory of the host and of another tenant's device (peer to peer).
# Shows: the engine of a lent device copies out of its tenant's own memory and of the tenant's other device, and of nothing that another
#   tenant or the host has: virtrain isolate --security finds the controls and nothing else, and the IOMMU reports what it refused.
# Cannot show: two devices below one PCIe switch without ACS, whose requests the IOMMU never sees (emulated bridges have no such way);
#   engines of GPUs. The device is QEMU's edu, and another device's memory is a region of ivshmem.
# L1: product=yes images=yes memory=4G region=yes seconds=1500
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/device_memory.sh
engine=0000:00:10.0 own=0000:03:00.0 foreign=0000:04:00.0
before=$(host_state)
probed peer "{kind: passthrough, select: {address: [\"$engine\", \"$own\", \"$foreign\"]}}"
expect "what its device reads of others" "device_peer not_found 1" "$(probe_of peer device_peer 'name, result, control')"
expect "scanned of the host's page and of the region" "$((8 * 4096 + 4096)) of $((4 * 1024 * 1024 + 4096))" \
  "$(probe_of peer device_peer "CAST(scanned AS INTEGER) || ' of ' || CAST(total AS INTEGER)")"
dmesg | grep "Request device \[00:10.0\]" | head -3 || true
check "the IOMMU refused the device's reads" eval "dmesg | grep 'DMA Read.*Request device \[00:10.0\]' > /dev/null"
unchanged "the host afterwards" "$before"
finish
