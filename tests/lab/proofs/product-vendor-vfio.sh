#!/bin/bash
# Stands for: tenants with vGPUs with vendor-specific VFIO on Debian 13.
# Shows: virtrain run makes a vGPU for each of two tenants at once on libvirt 11.3, each VM holds its own, both run, for
#   the next case a vGPU of the whole card takes their place, and the virtual functions carry none at the end.
# Cannot show: CUDA on a vGPU, its licence, the real manager; the driver is this lab's stand-in (modules/labvgpu.c).
# L1: boot=vendor suite=trixie product=yes images=yes memory=4G seconds=1700
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/vendor_vfio.sh
vendor_vfs
before=$(host_state)
# The second case's vGPU takes the whole card, so those of the first must be gone by then.
scenario vgpu "{kind: vgpu, type: LAB-2Q, select: {address: [\"$vf\", \"$other\"]}}" \
  '[{name: two, tenants: [{nodes: 1, gpus_per_node: 1}, {nodes: 1, gpus_per_node: 1}]},
    {name: whole-card, tenants: [{nodes: 1, gpus_per_node: 1, vgpu_type: LAB-4Q}]}]' '[vm]'
check "two tenants with a vGPU each, then one with the card's largest" watched vgpu $vf $other
expect "trials" "two vm finished kvm_on_emulated whole-card vm finished kvm_on_emulated" \
  "$(trials vgpu '"case", arm, status, virtualization' | xargs)"
check "two at once, each in a VM of its own" grep -q '^groups 1 1$' /lab/vgpu.watch
expect "drivers meanwhile" "nvidia nvidia" "$(sed -n 's/.* virtual-machines \([a-z]*\) 1$/\1/p' /lab/vgpu.watch | xargs)"
unchanged "the host afterwards" "$before"
no_vendor_vfs
finish
