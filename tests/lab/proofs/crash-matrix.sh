#!/bin/bash
# Stands for: virtrain killed (kill -9, the OOM killer) at the worst moment, with each kind of device.
# Shows: at every single step of lending and giving back (whole function, SR-IOV function, mdev, vendor-VFIO vGPU), killed
#   before and after each commit of the journal and during each write to sysfs, `virtrain clean` puts the host back as it was.
# Cannot show: a real driver that reacts to being killed in the middle; power failures (the boot id rule).
# L1: boot=lending product=yes seconds=1500
. ./support/proof.sh
. ./support/host_state.sh
. ./support/kill_at_each_step.sh
. ./support/vendor_vfio.sh
modprobe mdev
load mtty
kill_at_each_step "passthrough 0000:00:11.0" "virtual_function $vf 0000:01:00.0" "mdev mtty - mtty-2 $(cat /proc/sys/kernel/random/uuid)"
vendor_vfs
kill_at_each_step "vendor_vfio $vf 0000:01:00.0 902"
no_vendor_vfs
print_matrix passthrough virtual_function mdev vendor_vfio
finish
