#!/bin/bash
# Stands for: a device that is cleared before another tenant's VM gets it.
# Shows: with between_tenants: erase a passed-through NVMe disk keeps nothing of a tenant, in whichever of four ways its VM ends:
#   virtrain isolate --security finds the control and nothing else.
# Cannot show: the memory of a GPU; disks that keep copies of their own of what was overwritten.
# L1: boot=device-memory product=yes images=yes memory=4G region=yes seconds=1200 label=release
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/device_memory.sh
before=$(host_state)
zero_disk
probed erased "$(whole $disk erase)"
expect "with between_tenants: erase" "${leaks//leak/not_found}" "$results"
unchanged "the host afterwards" "$before"
finish
