#!/bin/bash
# Stands for: a device that one tenant's VM gets after another's.
# Shows: a passed-through NVMe disk keeps a tenant's bytes for the next one, whether the first VM shuts down, is torn down, its QEMU is
#   killed (kill -9) or virtrain itself: virtrain isolate --security finds all of them and names the cure.
# Cannot show: the memory of a GPU, which is reached through CUDA.
# L1: product=yes images=yes memory=4G seconds=1200
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/device_memory.sh
before=$(host_state)
zero_disk
probed keeps "$(whole $disk none)"
expect "without a policy" "$leaks" "$results"
expect "leaks that name the cure" 4 "$(cures keeps "between_tenants: erase")"
expect "tenants' words on the host's disk" yes "$(grep -qa vt-canary- "$(disk_of $disk)" && echo yes || echo no)"
unchanged "the host afterwards" "$before"
finish
