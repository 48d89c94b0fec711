#!/bin/bash
# Stands for: the memory of vGPUs with vendor-specific VFIO, of which one tenant gets what another one had.
# Shows: where the vGPU manager does not clear that memory, a vGPU keeps a tenant's bytes for the next one, whether the first VM is torn
#   down, its QEMU is killed (kill -9) or virtrain itself: virtrain isolate --security finds all of them and says whose they are to
#   clear; where the manager clears it, virtrain finds none.
# Cannot show: whether a vendor's manager clears; memory that is reached through CUDA only. The driver is this lab's stand-in
#   (modules/labvgpu.c), and a vGPU's memory is a prefetchable region of it.
# L1: boot=vendor-memory suite=trixie product=yes images=yes memory=4G seconds=3300 label=release
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/vendor_vfio.sh
. ./support/device_memory.sh
vendor_vfs
before=$(host_state)
manager_clears() { echo "$1" > /sys/module/labvgpu/parameters/clear; } # 0 or 1
vgpus="{kind: vgpu, type: LAB-2Q, select: {address: [\"$vf\", \"$other\"]}}"
manager_clears 0
probed keeps "$vgpus"
expect "a manager that does not clear" "$leaks" "$results"
expect "leaks that name whose they are to clear" 4 "$(cures keeps "vGPU manager did not clear it")"
unchanged "the host afterwards" "$before"
manager_clears 1
probed clears "$vgpus"
expect "a manager that clears" "${leaks//leak/not_found}" "$results"
unchanged "the host afterwards" "$before"
no_vendor_vfs
finish
