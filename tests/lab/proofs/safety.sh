#!/bin/bash
# Stands for: mistakes and accidents with whole GPUs.
# Shows: half of a shared group, a device of another domain, a device on its host driver (managed='no') and one that does not
#   exist are refused with nothing changed; after kill -9 of QEMU, of the client, of libvirtd, and of libvirtd with QEMU the
#   device is back on its driver. That libvirt takes a disk that is mounted: virtrain has to look itself.
# Cannot show: what a real GPU's driver does when its user dies in the middle of an unbind.
# L1: boot=libvirt label=release
. ./support/proof.sh
nvme=0000:00:11.0 pair0=0000:00:13.0 pair1=0000:00:13.1
expect "pair shares a group" "$pair0 $pair1" "$(members "$(group $pair0)")"
refused "one function of a shared group" 'not viable|group' start l2-half kvm l2.hold "$(hostdev $pair0)"
expect "its driver after the refusal" "nvme nvme" "$(driver $pair0) $(driver $pair1)"
start l2-both kvm l2.hold "$(hostdev $pair0)$(hostdev $pair1)"
expect "both functions of the group" "vfio-pci vfio-pci" "$(driver $pair0) $(driver $pair1)"
seen l2-both L2-HOLD || fail "l2-both boots"
expect "devices L2 sees" 2 "$(grep -ac 'L2-PCI.*0x1b36 0x0010' /run/l2-both.log)"
refused "device of a running domain" 'in use' start l2-thief kvm l2.hold "$(hostdev $pair0)"
expect "victim after the refusal" "running vfio-pci" "$(virsh -q domstate l2-both | xargs) $(driver $pair0)"
virsh -q destroy l2-both
expect "both after destroy" "nvme nvme" "$(driver $pair0) $(driver $pair1)"

refused "managed='no' with the host driver bound" 'manually detached|must be' start l2-unmanaged kvm l2.hold "$(hostdev $nvme no)"
expect "its driver after the refusal" nvme "$(driver $nvme)"
refused "device that does not exist" 'not found|cause is unknown' start l2-ghost kvm l2.hold "$(hostdev 0000:00:1e.0)"

# the guest's QEMU dies
start l2-crash kvm l2.hold "$(hostdev $nvme)"
kill -9 "$(cat /run/libvirt/qemu/l2-crash.pid)"
check "domain gone after kill -9 of its QEMU" gone l2-crash
sleep 1
expect "driver after kill -9 of QEMU" nvme "$(driver $nvme)"

# the client dies; the domain and the device stay away, a new client brings them back
(start l2-orphan kvm l2.hold "$(hostdev $nvme)"; exec sleep 1000) & client=$!
seen l2-orphan L2-UP || fail "l2-orphan boots"
kill -9 $client
sleep 1
expect "after kill -9 of the client" "running vfio-pci" "$(virsh -q domstate l2-orphan | xargs) $(driver $nvme)"
virsh -q destroy l2-orphan
expect "after the next client's destroy" nvme "$(driver $nvme)"

# libvirtd itself dies and returns
start l2-daemon kvm l2.hold "$(hostdev $nvme)"
kill -9 "$(cat /run/libvirtd.pid)"; sleep 1
check "libvirtd returns" daemon
expect "domain after libvirtd returns" "running vfio-pci" "$(virsh -q domstate l2-daemon | xargs) $(driver $nvme)"
virsh -q destroy l2-daemon
expect "driver after destroy" nvme "$(driver $nvme)"

# libvirtd and QEMU die together
start l2-both2 kvm l2.hold "$(hostdev $nvme)"
qemu=$(cat /run/libvirt/qemu/l2-both2.pid)
kill -9 "$(cat /run/libvirtd.pid)"; kill -9 "$qemu"; sleep 1
check "libvirtd returns after it died together with QEMU" daemon
gone l2-both2 || true
sleep 2
expect "driver after libvirtd and QEMU died" nvme "$(driver $nvme)"

# a mounted disk: libvirt does not look, virtrain must
disk=$(disk_of $nvme)
mke2fs -q "$disk"
mkdir -p /mnt/disk
mount "$disk" /mnt/disk
start l2-mounted kvm l2.hold "$(hostdev $nvme)"
expect "libvirt takes a device whose disk is mounted" "vfio-pci gone" "$(driver $nvme) $([ -e "$disk" ] && echo there || echo gone)"
virsh -q destroy l2-mounted
finish
