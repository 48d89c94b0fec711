#!/bin/bash
# Stands for: whole GPUs, virtual functions of an adapter and vGPUs as mediated devices, lent by virtrain's own binder.
# Shows: what virtrain has bound a libvirt 9.0 takes with managed='no': a guest reads the NVMe disk, sees the virtual function,
#   the mdev; libvirtd killed (kill -9) while the device is lent changes nothing; given back, the host is as it was. A disk
#   that is erased before it is lent reads zeros from its first to its last byte, one that is reset keeps its bytes.
# Cannot show: a GPU's reset between tenants.
# L1: boot=lending product=yes
. ./support/proof.sh
. ./support/host_state.sh
. ./support/lender.sh
nvme=0000:00:11.0 pair0=0000:00:13.0 pair1=0000:00:13.1
modprobe mdev
load mtty
before=$(host_state)

check "lending a whole function" lend passthrough $nvme
start l2-nvme kvm l2.hold "$(hostdev $nvme no)"
seen l2-nvme L2-HOLD || fail "L2 boots"
check "L2 reads the disk" grep -aq 'L2-NVME lab-disk-0' /run/l2-nvme.log
refused "giving it to somebody else" "held by|busy|leased" virtrain-lab-lender passthrough $nvme
kill -9 "$(cat /run/libvirtd.pid)"; sleep 1
expect "libvirtd is killed: driver" vfio-pci "$(driver $nvme)"
check "libvirtd returns" daemon
expect "the guest still runs" running "$(virsh -q domstate l2-nvme | xargs)"
virsh -q destroy l2-nvme
expect "driver until it is given back" vfio-pci "$(driver $nvme)"
check "giving back" give_back
unchanged "the host afterwards" "$before"

disk=$(disk_of $nvme)
printf tenants-words | dd of="$disk" bs=512 seek=32767 conv=sync,notrunc oflag=direct status=none # its last block
check "lending it with a reset" lend passthrough $nvme - '' '' reset
check "giving back" give_back
expect "a reset disk keeps" tenants-words "$(dd if="$disk" bs=512 skip=32767 iflag=direct status=none | tr -d '\0')"
mke2fs -q "$disk" 8M
mount "$disk" /mnt
refused "erasing a mounted disk" "mounted on /mnt" virtrain-lab-lender passthrough $nvme - '' '' erase
umount /mnt
check "lending it erased" lend passthrough $nvme - '' '' erase
check "giving back" give_back
disk=$(disk_of $nvme)
expect "bytes of an erased disk that are not zero" 0 "$(dd if="$disk" bs=1M iflag=direct status=none | tr -d '\0' | wc -c)"
unchanged "the host afterwards" "$before"
refused "erasing a network adapter" "only whole NVMe disks" virtrain-lab-lender passthrough 0000:00:12.0 - '' '' erase
unchanged "the host afterwards" "$before"

check "lending one function of a group" lend passthrough $pair0
expect "binds all of the group" "vfio-pci vfio-pci" "$(driver $pair0) $(driver $pair1)"
check "giving back" give_back
unchanged "the host afterwards" "$before"

vf=0000:01:00.1
check "lending a virtual function that does not exist yet" lend virtual_function $vf 0000:01:00.0
start l2-vf kvm "l2.hold l2.nowait" "$(hostdev $vf no)"
seen l2-vf L2-HOLD || fail "L2 boots"
check "L2 sees the VF" sees l2-vf 0x1b36 0x0010
virsh -q destroy l2-vf
check "giving back" give_back
unchanged "the host afterwards" "$before"

uuid=$(cat /proc/sys/kernel/random/uuid)
check "lending a mediated device" lend mdev mtty - mtty-2 "$uuid"
start l2-mdev kvm l2.hold "$(mdev "$uuid")"
seen l2-mdev L2-HOLD || fail "L2 boots"
check "L2 sees the mdev" sees l2-mdev 0x4348 0x3253
virsh -q destroy l2-mdev
check "giving back" give_back
unchanged "the host afterwards" "$before"
finish
