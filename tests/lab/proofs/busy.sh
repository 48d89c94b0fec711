#!/bin/bash
# Stands for: a GPU in use: by a process that has it open, by the kernel (here a mounted disk, an address on a network).
# Shows: virtrain refuses each by name, with the process or the mount point, and changes nothing; libvirt would take all of
#   them. Of a shared group it looks at every function.
# Cannot show: the kernel's own use of an NVIDIA GPU without a file (persistence mode).
# L1: boot=lending product=yes seconds=300
. ./support/proof.sh
. ./support/host_state.sh
nvme=0000:00:11.0 nic=0000:00:12.0 pair0=0000:00:13.0 pair1=0000:00:13.1
lender() { virtrain-lab-lender passthrough "$1" < /dev/null; }
before=$(host_state)

disk=$(disk_of $nvme)
sleep 1000 < "$disk" & holder=$!
refused "a disk that a process has open" "$nvme: .*sleep \(pid $holder\) has $disk open" lender $nvme
kill $holder
wait $holder 2> /dev/null || true

mke2fs -q "$disk"
mkdir -p /mnt/disk
mount "$disk" /mnt/disk
refused "a mounted disk" "$nvme: .*$disk is mounted on /mnt/disk" lender $nvme
umount /mnt/disk

second=$(disk_of $pair1)
mke2fs -q "$second"
mount "$second" /mnt/disk
refused "a function whose group has a mounted disk" "$pair1: .*$second is mounted" lender $pair0
expect "and neither is bound away" "nvme nvme" "$(driver $pair0) $(driver $pair1)"
umount /mnt/disk

link=$(basename "$(echo /sys/bus/pci/devices/$nic/net/*)")
ip address add 192.0.2.1/24 dev "$link"
ip link set "$link" up
refused "a network adapter that has a route" "$nic: .*$link has a route" lender $nic
ip address flush dev "$link"
ip link set "$link" down

refused "a function that does not exist" "0000:00:1e.0: .*no such PCI function" lender 0000:00:1e.0
refused "a bridge" "no such|bridge|group" lender 0000:00:14.0
unchanged "the host afterwards" "$before"
check "free again, it can be lent" lender $nvme
unchanged "the host afterwards" "$before"
finish
