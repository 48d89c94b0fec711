#!/bin/bash
# Stands for: a device that keeps one tenant's memory through its reset.
# Shows: a device whose memory is a prefetchable region keeps a tenant's bytes for the next one, whether the first VM is torn down, its
#   QEMU is killed (kill -9) or virtrain itself; virtrain isolate --security says that it is for one tenant only.
# Cannot show: the memory of a GPU, which is reached through CUDA; a disk that has a hidden region of its own.
# L1: boot=device-memory product=yes images=yes memory=4G region=yes seconds=2100 label=release
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/device_memory.sh
region=0000:03:00.0
before=$(host_state)
probed reset "$(whole $region reset)"
expect "a memory region with between_tenants: reset" "$leaks" "$results"
expect "leaks that name no cure" 4 "$(cures reset "reset did not clear it: assign it to one tenant only")"
unchanged "the host afterwards" "$before"
finish
