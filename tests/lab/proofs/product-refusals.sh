#!/bin/bash
# Stands for: scenarios that ask for what must not be lent: half of an IOMMU group, a device in use, a disk that is mounted, a
#   vGPU with vendor-specific VFIO under a libvirt that is too old.
# Shows: virtrain run refuses each before anything happens (exit 75 where it is only busy, else 4), names the device and its
#   neighbour, user or version; nothing changed.
# Cannot show: a GPU's own users (the nvidia driver's files, persistence mode).
# L1: boot=product product=yes images=yes memory=3G seconds=300
. ./support/proof.sh
. ./support/host_state.sh
. ./support/product.sh
. ./support/vendor_vfio.sh
nvme=0000:00:11.0 half=0000:02:01.0 neighbour=0000:02:02.0
one='[{name: one, tenants: [{nodes: 1, gpus_per_node: 1}]}]'
expect "a group of two cards" "$half $neighbour" "$(members "$(group $half)" | sed 's/0000:00:15.0 //')"
before=$(host_state)

scenario half "{kind: passthrough, select: {address: [\"$half\"]}}" "$one"
refused_run "half of a group" 4 "$half.*shares IOMMU group.*$neighbour" half

disk=$(disk_of $nvme)
scenario busy "{kind: passthrough, select: {address: [\"$nvme\"]}}" "$one"
sleep 1000 < "$disk" & holder=$!
refused_run "a disk that a process has open" 75 "$nvme.*sleep.*$holder" busy
kill $holder
wait $holder 2> /dev/null || true
mke2fs -q "$disk"
mkdir -p /mnt/disk
mount "$disk" /mnt/disk
refused_run "a mounted disk" 75 "$nvme.*mounted on /mnt/disk" busy
umount /mnt/disk
unchanged "the host afterwards" "$before"

vendor_vfs
before=$(host_state)
scenario vendor "{kind: vgpu, type: LAB-2Q, select: {address: [\"$vf\"]}}" "$one" '[vm]'
refused_run "a vGPU with vendor-specific VFIO on libvirt 9.0" 4 "9\.7" vendor
unchanged "the host afterwards" "$before"
no_vendor_vfs
finish
