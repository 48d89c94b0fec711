# shellcheck shell=bash
# Virtual functions with a VFIO driver of their own (modules/labvgpu.c). Sourced after proof.sh.
pf=/sys/bus/pci/devices/0000:01:00.0
vf=0000:01:00.1 other=0000:01:00.2
current=/sys/bus/pci/devices/$vf/nvidia/current_vgpu_type

vendor_vfs() { # makes both VFs, on the vendor's driver
  local one
  modprobe vfio-pci-core
  load labvgpu
  echo 0 > $pf/sriov_drivers_autoprobe
  echo 2 > $pf/sriov_numvfs
  for one in $vf $other; do
    echo nvidia > /sys/bus/pci/devices/$one/driver_override
    echo $one > /sys/bus/pci/drivers_probe
    expect "$one: driver" nvidia "$(driver $one)"
  done
}
no_vendor_vfs() { # as it was before
  echo 0 > $pf/sriov_numvfs
  echo 1 > $pf/sriov_drivers_autoprobe
}
# ids of the types that still fit on the physical function
types() { sed 1d "/sys/bus/pci/devices/$1/nvidia/creatable_vgpu_types" | cut -d: -f1 | xargs; }
