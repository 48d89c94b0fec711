#!/bin/bash
# Stands for: tenants with vGPUs as mediated devices, and tenants with SR-IOV virtual functions.
# Shows: virtrain run makes a part for each of two tenants at once (mtty; virtual functions of an NVMe disk), each VM holds its
#   own, both run, and all parts are gone again at the end.
# Cannot show: work on a vGPU: the sample driver is a serial port, and an emulated NVMe function is offline in its guest.
# L1: boot=product product=yes images=yes memory=4G seconds=900
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
two='[{name: two, tenants: [{nodes: 1, gpus_per_node: 1}, {nodes: 1, gpus_per_node: 1}]}]'
modprobe mdev
load mtty

# parts NAME: runs the scenario, two parts at once, none before and after.
parts() {
  local before
  before=$(host_state)
  check "$1: two tenants with a part each" watched "$1"
  expect "$1: trials" "vm finished kvm_on_emulated" "$(trials "$1" 'arm, status, virtualization' | xargs)"
  unchanged "$1: the host afterwards" "$before"
}
scenario mdev '{kind: vgpu, type: mtty-2, select: {address: [mtty]}}' "$two" '[vm]'
parts mdev
check "mdev: two at once, each in a VM of its own" grep -q '^groups 1 1$' /lab/mdev.watch
scenario vf '{kind: vf, select: {address: ["0000:01:00.0"]}}' "$two" '[vm]'
parts vf
check "vf: two at once, each in a VM of its own" grep -q '^groups 1 1$' /lab/vf.watch
finish
