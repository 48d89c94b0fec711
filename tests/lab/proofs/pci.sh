#!/bin/bash
# Stands for: whole GPUs given to VMs. nvme and e1000e have a host driver, as a GPU has nvidia; edu has none.
# Shows: libvirt takes the function from its driver, a KVM guest sees it and really uses it (reads a block of the NVMe disk by
#   DMA, reads a register of edu), and destroying the domain brings the function back to its driver.
# Cannot show: resets of real GPUs, BARs of many GiB, a driver that refuses to let go.
# L1: boot=libvirt label=release
. ./support/proof.sh
edu=0000:00:10.0 nvme=0000:00:11.0 nic=0000:00:12.0 pair0=0000:00:13.0 pair1=0000:00:13.1

echo "libvirt $(virsh version --daemon | sed -n 's/.*daemon: //p'), up at $(now) s"
expect "group of $nvme" "$nvme" "$(members "$(group $nvme)")"
expect "group of $pair0" "$pair0 $pair1" "$(members "$(group $pair0)")"
expect "driver of $nvme before" nvme "$(driver $nvme)"

for device in "$nvme nvme 0x1b36 0x0010" "$nic e1000e 0x8086 0x10d3" "$edu none 0x1234 0x11e8"; do
  read -r address before vendor id <<< "$device"
  name=l2-${address:8:2}
  expect "$name: driver before" "$before" "$(driver "$address")"
  t0=$(now)
  start "$name" kvm "l2.hold" "$(hostdev "$address")"
  expect "$name: driver while running" vfio-pci "$(driver "$address")"
  seen "$name" L2-HOLD || fail "$name: L2 boots"
  echo "time  $name: L2 in userspace after $(elapsed "$t0")"
  grep -a L2- "/run/$name.log" | tr -d '\r'
  check "$name: L2 sees $vendor:$id" sees "$name" "$vendor" "$id"
  [ "$address" != "$nvme" ] || check "$name: L2 reads the disk" grep -aq 'L2-NVME lab-disk-0' "/run/$name.log"
  [ "$address" != "$edu" ] || check "$name: L2 writes and reads edu's registers" grep -aqi 'L2-EDU 0x010000ED 0xEDCB5432' "/run/$name.log"
  virsh -q destroy "$name"
  expect "$name: driver after destroy" "$before" "$(driver "$address")"
done
finish
