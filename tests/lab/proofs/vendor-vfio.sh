#!/bin/bash
# Stands for: vGPUs with vendor-specific VFIO (kernels from 6.8): a virtual function on the vendor's driver, whose sysfs
#   files make the vGPU.
# Shows: with libvirt 11.3 and managed='no' a guest gets the vGPU while the function keeps its driver; the list of types
#   shrinks on the sibling; a type that does not fit, a change while in use and a VF without a vGPU are refused; the type
#   survives the domain until somebody writes 0. virtrain makes the vGPU, a guest gets it, and virtrain removes it.
# Cannot show: the real driver's error codes and its manager; the driver is this lab's stand-in (modules/labvgpu.c).
# L1: boot=vendor suite=trixie product=yes seconds=600
. ./support/proof.sh
. ./support/host_state.sh
. ./support/lender.sh
. ./support/vendor_vfio.sh
echo "libvirt $(virsh version --daemon | sed -n 's/.*daemon: //p'), $(qemu-system-x86_64 --version | head -1)"
vendor_vfs
expect "creatable before" "901 902 904" "$(types $vf)"
echo 902 > "$current"
expect "current" 902 "$(cat "$current")"
expect "creatable on the other VF" "901 902" "$(types $other)"
refused "a type that does not fit" 'No space' bash -c "echo 904 > /sys/bus/pci/devices/$other/nvidia/current_vgpu_type"

start l2-vgpu kvm "l2.hold l2.nowait" "$(hostdev $vf no)"
expect "driver while running" nvidia "$(driver $vf)"
seen l2-vgpu L2-HOLD || fail "L2 boots"
check "L2 sees the vGPU" sees l2-vgpu 0x1b36 0x0010
refused "changing the type while in use" 'busy' bash -c "echo 0 > $current"
virsh -q destroy l2-vgpu
expect "driver and type after destroy" "nvidia 902" "$(driver $vf) $(cat "$current")"
refused "VF without a vGPU" 'No such device|not found' start l2-empty kvm l2.hold "$(hostdev $other no)"
echo 0 > "$current"
expect "creatable after" "901 902 904" "$(types $vf)"

before=$(host_state)
check "virtrain lends a vGPU" lend vendor_vfio $vf 0000:01:00.0 902 || cat /run/lender.out
expect "its type and driver" "902 nvidia" "$(cat "$current") $(driver $vf)"
start l2-lent kvm "l2.hold l2.nowait" "$(hostdev $vf no)"
seen l2-lent L2-HOLD || fail "L2 boots"
check "L2 sees the vGPU" sees l2-lent 0x1b36 0x0010
refused "the same to somebody else" "held by|busy|leased" virtrain-lab-lender vendor_vfio $vf 0000:01:00.0 901
refused "one that does not fit any more" "904 cannot be made now" virtrain-lab-lender vendor_vfio $other 0000:01:00.0 904
virsh -q destroy l2-lent
check "giving back" give_back
unchanged "the host afterwards" "$before"
no_vendor_vfs
finish
