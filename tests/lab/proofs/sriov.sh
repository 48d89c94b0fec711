#!/bin/bash
# Stands for: SR-IOV: virtual functions of network adapters, and the shape of vGPUs with vendor-specific VFIO.
# Shows: VFs are made, each is alone in its group, one is passed to a guest while the physical function keeps its driver, and
#   is back without driver afterwards; a VF that is gone is refused.
# Cannot show: a VF that does something: an emulated NVMe VF is offline in the guest.
# L1: boot=libvirt label=release
. ./support/proof.sh
pf=0000:01:00.0 sys=/sys/bus/pci/devices/0000:01:00.0
expect "PF driver" nvme "$(driver $pf)"
echo "note  PF totalvfs $(cat $sys/sriov_totalvfs), numvfs $(cat $sys/sriov_numvfs), group $(group $pf)"
echo 0 > $sys/sriov_drivers_autoprobe
echo 2 > $sys/sriov_numvfs
vfs=(); for v in "$sys"/virtfn*; do vfs+=("$(basename "$(readlink "$v")")"); done
expect "VFs" 2 "${#vfs[@]}"
for vf in "${vfs[@]}"; do
    echo "note  VF $vf driver $(driver "$vf") group $(group "$vf"): $(members "$(group "$vf")")"
    expect "VF $vf: physfn" "$pf" "$(basename "$(readlink "/sys/bus/pci/devices/$vf/physfn")")"
    expect "VF $vf: alone in its group" "$vf" "$(members "$(group "$vf")")"
done
vf=${vfs[0]}
t0=$(now)
start l2-vf "kvm" "l2.hold l2.nowait" "$(hostdev "$vf")"
expect "VF driver while running" vfio-pci "$(driver "$vf")"
expect "PF driver while VF is away" nvme "$(driver $pf)"
seen l2-vf L2-HOLD || fail "L2 boots"
echo "time  l2-vf: L2 in userspace after $(elapsed "$t0")"
grep -a L2- /run/l2-vf.log | tr -d '\r'
check "L2 sees the VF" sees l2-vf 0x1b36 0x0010
virsh -q destroy l2-vf
expect "VF driver after destroy" none "$(driver "$vf")"
echo 0 > $sys/sriov_numvfs
expect "VFs after disabling" 0 "$(find $sys/ -name 'virtfn*' | wc -l)"
refused "VF that is gone" 'not found|cause is unknown' start l2-vf kvm l2.hold "$(hostdev "$vf")"
finish
