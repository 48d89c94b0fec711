#!/bin/bash
# Stands for: vGPUs on kernels before 6.8, which are mediated devices.
# Shows: types, creation, a second-level guest that sees the device, refusal of a second domain, removal.
# Cannot show: a vGPU manager's own refusals; the parents here (mtty, mdpy) are virtual devices, not PCI functions.
# L1: boot=libvirt label=release
. ./support/proof.sh
modprobe mdev
load mtty
load mdpy
for parent in /sys/class/mdev_bus/*; do
    for t in "$parent"/mdev_supported_types/*; do
        echo "type  ${t##*/} name='$(cat "$t/name" 2>/dev/null)' api=$(cat "$t/device_api") free=$(cat "$t/available_instances")"
    done
done
try() { # PARENT TYPE VENDOR DEVICE
    local uuid name=l2-$2 free type=/sys/class/mdev_bus/$1/mdev_supported_types/$2
    uuid=$(cat /proc/sys/kernel/random/uuid)
    free=$(cat "$type/available_instances")
    echo "$uuid" > "$type/create"
    expect "$2: created" "vfio-pci" "$(cat "/sys/bus/mdev/devices/$uuid/mdev_type/device_api")"
    echo "note  $2: driver $(basename "$(readlink "/sys/bus/mdev/devices/$uuid/driver")"), group $(basename "$(readlink "/sys/bus/mdev/devices/$uuid/iommu_group")"), free $free -> $(cat "$type/available_instances")"
    t0=$(now)
    if start "$name" "kvm" l2.hold "$(mdev "$uuid")" && seen "$name" L2-HOLD; then
        echo "time  $name: $(elapsed "$t0")"
        check "$name: L2 sees $3:$4" sees "$name" "$3" "$4"
        grep -a "L2-PCI.*02.0" "/run/$name.log"
        refused "$name: mdev in use by a second domain" 'in use|used' start l2-second kvm l2.hold "$(mdev "$uuid")"
        virsh -q destroy "$name"
    else
        fail "$name: starts"; tail -5 "/var/log/libvirt/qemu/$name.log" || true
    fi
    expect "$2: still there after destroy" yes "$([ -e "/sys/bus/mdev/devices/$uuid" ] && echo yes)"
    echo 1 > "/sys/bus/mdev/devices/$uuid/remove"
    expect "$2: free again" "$free" "$(cat "$type/available_instances")"
    refused "$2: removed mdev" 'not found|No such|could not|not exist' start l2-none kvm l2.hold "$(mdev "$uuid")"
}
try mtty mtty-2 0x4348 0x3253
try mdpy mdpy-vga 0x1b36 0x000f
virsh -q nodedev-list --cap mdev_types 2>&1 | sed 's/^/nodedev: /'
finish
